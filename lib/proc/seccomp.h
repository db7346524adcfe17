/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a seccomp filter restricts the system calls of a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* pid 0: this thread. Of a process: of any of its threads, which can have filters of their own;
 * also true if it cannot be determined. */
bool seccomp_filters(pid_t pid);
