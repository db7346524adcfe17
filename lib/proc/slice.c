/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/slice.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000

/* struct sched_attr of linux/sched/types.h, which cannot be included beside sched.h. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

int slice_shorten(void)
{
	const struct attributes a = {
		.size = sizeof(a),
		.policy = SCHED_OTHER,
		.flags = 1, /* SCHED_FLAG_RESET_ON_FORK */
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = SLICE_NS,
	};

	return syscall(SYS_sched_setattr, 0, &a, 0) < 0 ? -errno : 0;
}
