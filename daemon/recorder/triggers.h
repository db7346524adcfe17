/* SPDX-License-Identifier: Apache-2.0 */
/* The triggers of a recorder: its thread passes on the requests that have finished, and the loop's
 * thread learns which conditions they met. */
#pragma once

#include <sys/types.h>

#include "daemon/recorder/trigger.h"
#include "lib/base/loop.h"

struct triggers;

/* The condition of a trigger was met. */
struct trigger_firing {
	char trigger[TRIGGER_NAME_SIZE];
	pid_t pid; /* whose requests met it */
	char process[16];
	char reason[TRIGGER_REASON_SIZE];
};

struct triggers_options {
	struct loop *loop;
	const struct trigger_rule *rules; /* copied */
	unsigned n;
	/* In the loop's thread; of several firings of one trigger that wait, the first is reported.
	 */
	void (*fired)(const struct trigger_firing *firing, void *data);
	void *data;
};

/* -ENOMEM. */
int triggers_new(const struct triggers_options *options, struct triggers **ret);
/* Nothing may be passed on any more, and nothing may wait in the loop. */
struct triggers *triggers_free(struct triggers *t);

/* These are the rules from now on: the recorder's thread takes them before the next request. The
 * window of a rule that is the same as before goes on; that of another one begins anew. */
void triggers_set(struct triggers *t, const struct trigger_rule *rules, unsigned n);

/* Of the recorder's thread; t may be NULL. A session begins: its targets get the numbers from 0. */
void triggers_begin(struct triggers *t);
void triggers_add_target(struct triggers *t, const struct correlate_target *target);
void triggers_on_request(struct triggers *t, const struct finished_request *request);
/* Whether a rule asks for the number of requests in progress. */
bool triggers_count_queue(struct triggers *t);
/* So many requests of the target are in progress. */
void triggers_on_queue(struct triggers *t, unsigned target, uint32_t n);
