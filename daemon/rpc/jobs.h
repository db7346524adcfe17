/* SPDX-License-Identifier: Apache-2.0 */
/* Captures for calls: begun, answered, and ended with their call. */
#pragma once

#include "daemon/rpc/context.h"

/* A capture for a call. */
struct job {
	struct service *service;
	struct grpc_call *call;  /* NULL: the client has gone */
	struct capture *capture; /* NULL: it has delivered its result */
	uid_t uid;
	char session_id[64];
	bool emit_xspace;
	bool plan_only;
	pid_t pid;                   /* Doctor only: who is asked about */
	bool every_target;           /* not only those that were named: more may join */
	struct loop_timer *progress; /* Control only */
	/* What will be attached is known. May be NULL. */
	void (*plan)(struct job *job, const struct capture_plan *plan);
	void (*answer)(struct job *job, struct capture_result *result);
	/* Answers a capture that failed; false: a status says it. May be NULL. */
	bool (*answer_failure)(struct job *job, const struct capture_result *result);
	struct job *next;
};

/* Starts a capture for a call. On failure the call is answered. */
void job_start(struct service *s, struct grpc_call *call, const struct job *job,
	       struct capture_request *request);
