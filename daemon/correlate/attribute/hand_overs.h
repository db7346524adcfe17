/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the request of a run that one thread hands over and another one starts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct correlator;
struct entry;

/* Zeros at first. */
struct hand_overs {
	struct hand_over *table; /* those that have not begun; by the run's object */
	struct taken_run *runs;
	uint64_t *next; /* by thread: key of the run that it takes up next; 0: unknown */
	uint64_t runs_size, next_size;
	uint32_t n_runs;
};

/* The thread hands a run over. */
void hand_overs_enqueue(struct correlator *c, const struct entry *e);
/* The thread's next run is that one. */
void hand_overs_dequeue(struct correlator *c, const struct entry *e);
/* A run was entered; NO_SPAN: an inner one. Whether it was handed over for a request. */
bool hand_overs_on_run(struct correlator *c, const struct entry *e, uint64_t span);
/* The window has closed: runs get their requests. */
void hand_overs_claim(struct correlator *c);
void hand_overs_done(struct hand_overs *h);
