/* SPDX-License-Identifier: Apache-2.0 */
/* Captures on behalf of calls: begun, answered, and ended with their call. */
#pragma once

#include "daemon/rpc/context.h"

/* A capture for a call. */
struct job {
	struct service *service;
	struct grpc_call *call;  /* NULL: the client has disconnected */
	struct capture *capture; /* NULL: it has delivered its result */
	uid_t uid;
	struct authority_peer who; /* the same user */
	uint32_t client;           /* the broker's id of its client */
	char session_id[64];
	bool emit_xspace;
	bool plan_only;
	/* Doctor only: the process in question. */
	pid_t pid;
	/* Not only named processes: more may join. */
	bool every_target;
	struct loop_timer *progress; /* Control only */
	/* Called when it is known what will be attached. May be NULL. */
	void (*plan)(struct job *job, const struct capture_plan *plan);
	void (*answer)(struct job *job, struct capture_result *result);
	/* Answers a capture that failed; false: the call's status is the answer. May be NULL. */
	bool (*answer_failure)(struct job *job, const struct capture_result *result);
	struct job *next;
};

/* Whether the caller has canceled few captures of late; on failure the call is answered. Before
 * anything else of a capture, because the rest asks the broker. */
bool job_may_begin(struct service *s, struct grpc_call *call);
/* Starts a capture for a call. On failure the call is answered. */
void job_start(struct service *s, struct grpc_call *call, const struct job *job,
	       struct capture_request *request);
