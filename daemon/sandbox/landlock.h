/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock (landlock(7)): which files a process may open, whatever its user may. */
#pragma once

#include <stdbool.h>

/*
 * From now on this thread and those that it creates open files only to read, and only these paths
 * and what is below them; NULL ends the list, and missing ones are left out. In the directory
 * writable, -1: none, they also create, write and remove files. Where the kernel can do it, they do
 * not bind or connect sockets, and send no signals to other processes. no_new_privs must be set.
 *
 * 0; -EOPNOTSUPP: this kernel has no Landlock; or an error of its system calls.
 */
int landlock_restrict(const char *const *readable, int writable);
