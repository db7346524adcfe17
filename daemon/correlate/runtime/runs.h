/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and their pieces. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;
struct entry;
struct thread_state;

/* Counts of a process: executors that runs started, their pieces, and pieces with a known run. */
struct links {
	uint64_t n_starts, n_pieces, n_linked;
};

/* Indices of the spans of runs, batches and marks. Zeros at first. */
struct runs {
	struct map of_call, of_step; /* by the identity of an executor's start, by its step */
	struct map step_of;          /* by span, of batches and marks */
	struct links links[RECORD_MAX_TARGETS];
	/* Of a process: until then, runs ended that began before the window. */
	uint64_t begun_until_ns[RECORD_MAX_TARGETS];
};

void runs_open(struct correlator *c, const struct entry *e);
void runs_close(struct correlator *c, const struct entry *e);
void runs_switch(struct correlator *c, const struct entry *e);
void pieces_enqueue(struct correlator *c, const struct entry *e);
void pieces_open(struct correlator *c, const struct entry *e);
void pieces_close(struct correlator *c, const struct entry *e);

/* The run, or batch, that the thread is working for: its own, or that of the piece whose work it
 * does; else a handler. NO_SPAN: none. */
uint64_t runs_of_thread(struct correlator *c, const struct thread_state *s);
/* Whether a run, or batch, has ended (false for NO_SPAN): pieces that begin later are of others.
 * One that hands its work over has not ended as long as no record is lost. */
bool runs_has_ended(const struct correlator *c, uint64_t run);
/* Until when runs of a process ended that began before the window. */
uint64_t runs_begun_until_ns(const struct correlator *c, unsigned target);
/* The window has closed: where no piece of a target matched a run, the steps of that target are
 * removed. */
void runs_check_links(struct correlator *c);
void runs_done(struct runs *r);
