/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a recorder: those that it records, those that wait to be recorded, and those
 * that kept records are about. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/broker/authority.h"
#include "daemon/discovery/target.h"

/* A process, in a list. */
struct member {
	struct member *next;
	struct target target;
};

/* Appends the process, or replaces what was known about it; with keep, known files stay.
 * -ENOMEM. */
int members_add(struct member **list, const struct target *target, bool keep);
/* Appends those of members that are still alive, with their known files; *left_out grows by those
 * for which there is no memory. Returns how many have ended. */
unsigned members_add_living(struct member **list, const struct member *members, unsigned *left_out);
void members_free(struct member **list);

/* More than those of one session. */
#define RECORDED_MAX 64

/* Processes that the kept records may be about. Initially zero. */
struct recorded {
	struct recorded_process {
		pid_t pid;
		uid_t uid;
	} processes[RECORDED_MAX];
	unsigned n;
	bool has_more; /* than there was room for */
};

void recorded_add(struct recorded *recorded, const struct target *target);
/* Whether a user may have all of it: it is one trace. Some processes have ended, so only root and
 * their user may, from outside of containers. *ret_pid: the process that forbids it; 0: unknown. */
bool recorded_is_permitted(const struct recorded *recorded, const struct authority_peer *user,
			   pid_t *ret_pid);
