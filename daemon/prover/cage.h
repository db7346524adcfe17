/* SPDX-License-Identifier: Apache-2.0 */
/* What the prover's processes may do. */
#pragma once

#include <sys/types.h>

/* No capability, no supplementary group, and this user if the process is root. -errno. */
int cage_drop_privileges(uid_t user);
/* From now on: reading and writing the open descriptors, memory, the end. Another system call kills
 * the process. -errno. */
int cage_enter(void);
