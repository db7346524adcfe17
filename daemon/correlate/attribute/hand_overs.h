/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of that a thread hands over, so that it begins on another one, or later.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct hand_overs {
	struct hand_over *list;
	struct handed_run *runs;
	uint64_t *taken; /* beside the timeline's threads: which its next run is; 0: unknown */
	uint64_t size, runs_size, taken_size;
	uint32_t n, n_runs;
	struct map at; /* by the run's object */
};

/* The thread hands a run over. */
void hand_overs_enqueue(struct correlator *c, const struct entry *e);
/* The thread's next run is that one. */
void hand_overs_dequeue(struct correlator *c, const struct entry *e);
/* An outermost run was entered. Whether it was handed over for a request. */
bool hand_overs_on_run(struct correlator *c, const struct entry *e, uint64_t span);
/* The window has closed: runs get their requests. */
void hand_overs_claim(struct correlator *c);
void hand_overs_done(struct hand_overs *h);
