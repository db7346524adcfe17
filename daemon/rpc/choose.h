/* SPDX-License-Identifier: Apache-2.0 */
/* Which targets a call is about: those of its listener that its client may profile. */
#pragma once

#include "daemon/rpc/context.h"

/* Whether a client may profile a target; the broker asks the kernel again. */
bool peer_may(const struct peer *peer, const struct target *target);
/*
 * The targets that the client may profile of those that the listener stands for: one, or all; at
 * most max. *ret_denied: the process of a listener for one, when the client may not, else 0;
 * *ret_more: how many were left out for max.
 */
unsigned choose_permitted(struct service *s, const struct grpc_call *call,
			  const struct target **ret_targets, unsigned max, unsigned *ret_more,
			  pid_t *ret_denied);
/* The targets that were named, or all that the client may profile. On failure the call is answered:
 * -EINVAL, -ENOENT, -EACCES. */
int choose_targets(struct service *s, struct grpc_call *call, const uint32_t *pids, size_t n_pids,
		   struct capture_request *request);
/* Whether the call came in on a listener that stands for every target. */
bool call_is_for_all(const struct grpc_call *call);
