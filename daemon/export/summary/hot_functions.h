/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions sampled threads were in: in all, by phase of requests, and by type of operation.
 */
#pragma once

#include "daemon/timeline/timeline.h"

#define HOT_FUNCTIONS_MAX 5
#define HOT_OPS_MAX 5
#define HOT_PLACES_MAX (1 + PHASE_COUNT + HOT_OPS_MAX)

struct hot_function {
	char *name, *file; /* as struct stack_function */
	/* Samples in which it was the innermost function, and in which it was anywhere. */
	uint64_t self, total;
};

enum hot_kind { HOT_ALL, HOT_PHASE, HOT_OP };

/* Samples that have something in common, and the functions with most of them. */
struct hot_place {
	enum hot_kind kind;
	char *name; /* the phase, or the type of operation; "" */
	uint64_t samples;
	struct hot_function functions[HOT_FUNCTIONS_MAX]; /* most self samples first */
	unsigned n_functions;
};

struct hot_places {
	struct hot_place list[HOT_PLACES_MAX]; /* all, then phases, then operations by samples */
	unsigned n;
};

/* Without samples there is no place. -ENOMEM. */
int hot_places_make(const struct timeline *t, struct hot_places *ret);
void hot_places_done(struct hot_places *hot);

/* The functions of some samples, by their numbers, with most self samples first; their texts are
 * the timeline's. Functions that come after many others are not counted. Returns how many. */
unsigned hot_functions_of(const struct stacks *s, const uint64_t *samples, uint64_t n,
			  struct hot_function ret[HOT_FUNCTIONS_MAX]);
