/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the requests of a process meet the condition of a trigger. The window slides by
 * sixteenths of its length; what is kept does not grow with the requests. Pure: times come with the
 * requests.
 */
#pragma once

#include <stdbool.h>

#include "daemon/correlate/correlate.h"
#include "daemon/plan/trigger_rule.h"

#define TRIGGER_PANES 16

/* Initially zero. */
struct trigger_state {
	struct trigger_pane {
		uint64_t n, n_bad; /* requests, and those that count for the condition */
		uint64_t worst_ns;
	} panes[TRIGGER_PANES]; /* a ring */
	uint64_t newest;        /* the number of the newest pane */
	bool is_above;          /* TRIGGER_QUEUE: it was at the last look */
};

/* A request has finished. True: the condition is met, for the reason in ret_reason, and begins
 * anew. Always false for TRIGGER_QUEUE. */
bool trigger_on_request(const struct trigger_rule *rule, struct trigger_state *state,
			const struct finished_request *request,
			char ret_reason[static TRIGGER_REASON_SIZE]);
/* TRIGGER_QUEUE: so many requests are in progress now. True: more than before the limit. */
bool trigger_on_queue(const struct trigger_rule *rule, struct trigger_state *state, uint32_t n,
		      char ret_reason[static TRIGGER_REASON_SIZE]);
