/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc reports about a process, for authority.h. */
#pragma once

#include "daemon/broker/authority.h"

struct process_status {
	uid_t real, effective, saved;
	uint64_t permitted_caps, effective_caps;
};

/*
 * The process's directory in /proc: it refers to this process only, also after another one got the
 * number. -ESRCH, or another error of open(2).
 */
int process_open(pid_t pid);
/* -ESRCH, -EBADMSG, -ENOMEM. */
int process_status_read(int directory, struct process_status *ret);
/* A namespace of the process: "user", "pid". -ESRCH, -EACCES. */
int process_namespace(int directory, const char *kind, struct namespace_id *ret);

/* The user who may profile it besides root: its effective user, or root if it is not dumpable.
 * -ESRCH. */
int process_owner(int directory, uid_t *ret);

/* -ESRCH: there is no such process, or it has ended meanwhile; else -errno. */
int target_facts_read(pid_t pid, struct target_facts *ret);
