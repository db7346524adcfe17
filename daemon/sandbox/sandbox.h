/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of the daemon are restricted to, once and for good: users, file systems,
 * networks, system calls, limits. docs/security.md has it as a table, which a test compares with
 * what the kernel reports.
 */
#pragma once

#include <stddef.h>

#include "daemon/sandbox/user.h"

#define SANDBOX_BROKER_USER "tfprofd"
#define SANDBOX_FRONT_USER "tfprofd-front"

struct sandbox_front {
	struct sandbox_user user;
	/* The only directory in which the front writes, -1: none. Replaced by a descriptor of it
	 * from which no other directory can be reached. */
	int cache;
};

/*
 * For the process that reads what others send: another user, no capability, a root directory with
 * /proc and little else, no network, the system calls of its work. Called before it has threads.
 * What this host refuses is logged. Returns 0 or -errno: then the process must end.
 */
int sandbox_front(struct sandbox_front *front);

/*
 * For the process that starts one for each file that is read: another user, no capability, an empty
 * root directory, no network. Returns 0 or -errno, as sandbox_front().
 */
int sandbox_prover(const struct sandbox_user *user);
/* For each of those, in addition: memory, and descriptors that are open. 0 or -errno; nothing is
 * logged. */
int sandbox_reader(void);

/* For the process that starts the others, with what they need: memory that cannot be read, and no
 * new privileges. 0 or -errno. */
int sandbox_supervisor(void);

/*
 * For the process with capabilities, which has dropped those that it does not need: the system
 * calls of its work. It opens files to write them only relative to these descriptors of
 * directories. Returns 0 or -errno.
 */
int sandbox_broker(const int *writable, size_t n);
