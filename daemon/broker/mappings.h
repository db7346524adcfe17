/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of processes. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Opens the list of a process's mappings. *ret_uid: its user (identity.h). -ESRCH, and others. */
int mappings_list(pid_t pid, uid_t *ret_uid);
/* Opens the file that a process has mapped at this range; only code, and only regular files, which
 * is checked before they are opened. *ret_offset: of the range in the file. -ESRCH, -EACCES, and
 * others. */
int mappings_open(pid_t pid, uint64_t start, uint64_t end, uint64_t *ret_offset);
