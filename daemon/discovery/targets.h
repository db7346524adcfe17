/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that can be profiled. Found when the broker reports a mapping, or by examining
 * every process; forgotten when they end. Belongs to the loop's thread, except where stated.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/broker/authority.h"
#include "daemon/discovery/target.h"
#include "daemon/proxy/proxy.h"
#include "lib/base/loop.h"

#define TARGETS_MAX 256

struct targets;

struct targets_options {
	struct loop *loop;
	struct proxy *proxy;
	bool reports_early;    /* examine a process as soon as it maps its runtime */
	unsigned max_per_user; /* targets of one user other than root */
	/* Called for each target that appears, changes and disappears, in the loop's thread. Each
	 * may be NULL. */
	void (*added)(struct target *target, void *data);
	void (*changed)(struct target *target,
			void *data); /* it mapped more files of its runtime */
	void (*removed)(struct target *target, void *data);
	void *data;
};

int targets_new(const struct targets_options *options, struct targets **ret);
struct targets *targets_free(struct targets *t);

/* Examines a process, soon: a program maps its libraries one after the other. 0: every process, a
 * few at a time. */
void targets_examine_soon(struct targets *t, pid_t pid);
/* A process executed another program: if it becomes a target again, it is a new one. */
void targets_executed(struct targets *t, pid_t pid);
/* Another broker serves the front: it learns which processes are targets, and all are examined, as
 * events may have been missed. */
void targets_renew(struct targets *t);
/* Examines every process now; soon, if that was done a moment ago. */
void targets_scan(struct targets *t);
/* Examines one process now; NULL: it has no known runtime, or *ret_error gives the reason why it
 * could not be examined: -EDQUOT if its user has as many targets as it may have, -E2BIG if there is
 * no room for more; -EINPROGRESS: its files are being read, and it is examined again soon. */
struct target *targets_examine(struct targets *t, pid_t pid, int *ret_error);
/*
 * Describes a process that is no target: one that has no known runtime, and is captured because a
 * client named it. The table does not have it. -ENOEXEC: it executes no file; -EINPROGRESS: its
 * files are being read, ask again soon; -ESRCH, and others of the broker.
 */
int targets_describe(struct targets *t, pid_t pid, struct target *ret);
/* Whether files of any process that is this user's, or that root asks for, are being read. */
bool targets_are_read(const struct targets *t, const struct authority_peer *who);
/* The target after the given one (NULL: the first); NULL at the end. */
struct target *targets_next(struct targets *t, struct target *after);
