/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of a process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds that all threads of a process have run, whoever's it is; 0: there is none. */
uint64_t process_cpu_ns(pid_t pid);
