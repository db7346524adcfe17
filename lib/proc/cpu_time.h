/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of a process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* The CPU time of all threads of a process, of any user, in nanoseconds; 0: there is no such
 * process. */
uint64_t process_cpu_ns(pid_t pid);
