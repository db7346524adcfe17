/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the targets of a call: those of its listener that its client may profile. */
#pragma once

#include "daemon/rpc/context.h"

/*
 * Asks the broker whether a client, or BROKER_DAEMON, may profile a process; it decides again when
 * the process is captured. ret_ceiling (or NULL): how much; ret_text: CHOOSE_TEXT bytes for the
 * reason why not, or NULL.
 */
#define CHOOSE_TEXT sizeof(((struct broker_message *)0)->text)
bool choose_may(struct service *s, uint32_t client, pid_t pid,
		struct authority_ceiling *ret_ceiling, char *ret_text);
/* Lowers the request to what the client may have of its targets, and notes it for the result. On
 * failure the call is answered: -EINVAL. */
int choose_limit(struct service *s, struct grpc_call *call, struct capture_request *request);
/* Whether the client may have all that the request asks for, of a process with this ceiling. */
bool choose_grants(const struct authority_ceiling *ceiling, const struct capture_request *request);
/*
 * Lists the targets of the listener, one or all, that the client may profile; at most max.
 * *ret_denied: the process of a listener for one, if the client may not profile it, else 0;
 * *ret_more: how many were left out because of max.
 */
unsigned choose_permitted(struct service *s, const struct grpc_call *call,
			  const struct target **ret_targets, unsigned max, unsigned *ret_more,
			  pid_t *ret_denied);
/* A process that a client names. */
struct named {
	const struct target *target; /* NULL: there is none that it may profile */
	/* If there is none: of targets_examine() or targets_describe(). */
	int error;
	/* It may not profile the process: the process's user, and the reason. */
	bool denied;
	uid_t uid;
	char reason[CHOOSE_TEXT];
};
/* Finds the process, of a known runtime or none. number: of it in the call, below
 * RECORD_MAX_TARGETS; the target is valid until the next such call. */
void choose_named(struct service *s, const struct grpc_call *call, unsigned number, pid_t pid,
		  struct named *ret);
/* The targets that the request names, or all that the client may profile. On failure the call is
 * answered: -EINVAL, -ENOENT, -EACCES. */
int choose_targets(struct service *s, struct grpc_call *call, const uint32_t *pids, size_t n_pids,
		   struct capture_request *request);
/* Whether the call arrived at a listener for every target. */
bool call_is_for_all(const struct grpc_call *call);
