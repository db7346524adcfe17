/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/cpu_samples.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

int cpu_samples_link(int program, int cpu, unsigned hz, int *ret_event)
{
	/* Not the clock of a task: an event of each CPU sees new threads of a target at once, and
	 * costs no other process anything when it creates one. */
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_freq = hz,
					.freq = 1,
					.disabled = 1 };
	_cleanup_close_ int event = -1, link = -1;

	event = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, NULL);
	if (link < 0 || ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*ret_event = TAKE_FD(event);
	return TAKE_FD(link);
}
