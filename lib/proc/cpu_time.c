/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/cpu_time.h"

#include <time.h>

/* Reads the clock of the process: CPUCLOCK_SCHED of the kernel's posix-cpu-timers. */
uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock = (clockid_t)(~(uint32_t)pid << 3 | 2);
	struct timespec ts;

	return clock_gettime(clock, &ts) < 0
		       ? 0
		       : (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}
