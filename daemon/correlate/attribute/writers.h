/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request a run is of, by the context in which that request is answered: for servers whose
 * loop reads in one context and works in others. Contexts are those of contexts.c, by their
 * numbers there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct correlator;

/* Runs that wait for an answer; 24 bytes each, and 8 for each context in which one waits. */
#define WRITERS_RUNS_MAX (1u << 20)

/* Zeros at first. */
struct writers {
	uint32_t *numbers; /* by the number of the context */
	struct lineage *list;
	struct waiting_run *runs;
	struct wait *waits;
	uint64_t numbers_size, size, runs_size, waits_size;
	uint32_t n, n_runs, n_waits;
	uint64_t n_left_out;
};

/* What has this number from now on was made in another context (number + 1), at that time; both 0:
 * unknown, before the window. */
void writers_made(struct correlator *c, uint32_t context, uint32_t maker, uint64_t time);
/* A run whose request is unknown began in the context, which its thread entered at since. */
void writers_on_run(struct correlator *c, uint32_t context, uint64_t since, uint64_t span);
/* The first bytes of the request's answer are written in the context. */
void writers_on_answer(struct correlator *c, uint32_t context, uint32_t request);
/* The window has closed: the next run whose request is known by its answer, from *at on, 0 at
 * first. false: there is none. */
struct answered_run {
	uint64_t span, since_ns; /* its thread has been in its context since then */
	uint32_t request;
};
bool writers_next(const struct correlator *c, uint32_t *at, struct answered_run *ret);
/* Runs that were left out: for lack of room, for themselves or for their contexts. */
uint64_t writers_left_out(const struct writers *w);
/* No context is known any more. */
void writers_forget(struct writers *w);
void writers_done(struct writers *w);
