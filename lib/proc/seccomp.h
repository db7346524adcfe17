/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a seccomp filter stands before the system calls of a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* pid 0: of this one. Of its first thread; true also where it cannot be known. */
bool seccomp_filters(pid_t pid);
