/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a recorder: those that it records, or is to record, and those of whom something
 * is kept. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/discovery/target.h"

/* A process, in a list. */
struct member {
	struct member *next;
	struct target target;
};

/* Adds the process behind the others, or takes the place of what was known of it; with keep what is
 * known stays. -ENOMEM. */
int members_add(struct member **list, const struct target *target, bool keep);
void members_free(struct member **list);

/* More than those of one session. */
#define RECORDED_MAX 64

/* Processes that may be in what is kept. Zeros at first. */
struct recorded {
	struct recorded_process {
		pid_t pid;
		uid_t uid;
	} processes[RECORDED_MAX];
	unsigned n;
	bool has_more; /* than there was room for */
};

void recorded_add(struct recorded *recorded, const struct target *target);
/* Whether a user may have all of it: it is one trace. *ret_pid: the process for which not, 0: it is
 * not known which. */
bool recorded_may_have(const struct recorded *recorded, uid_t user, pid_t *ret_pid);
