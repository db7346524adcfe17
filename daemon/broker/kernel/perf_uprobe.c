/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/perf_uprobe.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

/* The type number of the kernel's uprobe events. */
static int uprobe_event_type(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -1;

	if (!f)
		return -errno;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOENT;
	fclose(f);
	return type;
}

int perf_uprobe_link(int program, int file, uint64_t offset, uint64_t cookie, uint64_t semaphore,
		     bool at_return, pid_t pid, int *ret_event)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = cookie);
	/* These events have the counter's offset in the upper half, and "retprobe" in the lowest
	 * bit. */
	struct perf_event_attr attr = { .size = sizeof(attr),
					.config = semaphore << 32 | at_return,
					.config2 = offset };
	_cleanup_close_ int event = -1, link = -1;
	int type = uprobe_event_type();
	char path[32];

	if (type < 0)
		return type;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	attr.type = (__u32)type;
	attr.config1 = (__u64)(uintptr_t)path;
	event = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, &options);
	if (link < 0 || ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*ret_event = TAKE_FD(event);
	return TAKE_FD(link);
}
