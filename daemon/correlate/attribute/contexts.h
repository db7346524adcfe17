/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by what threads hand one another: contexts of an interpreter, or work
 * that the server marks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct contexts {
	struct context *list;
	struct thread_contexts *threads; /* beside the timeline's */
	struct context_run *runs;
	uint64_t size, threads_size, runs_size;
	uint32_t n, n_runs;
	struct map at; /* by address, or number */
	uint64_t n_left_out;
	/* By process. */
	uint64_t kind[RECORD_MAX_TARGETS]; /* what is equal for all of its contexts */
	uint32_t n_misfits[RECORD_MAX_TARGETS];
	bool unusable[RECORD_MAX_TARGETS];
};

/* One is made, to work for the request that its maker works for. */
void contexts_enqueue(struct correlator *c, const struct entry *e);
/* One is made, to work for none. */
void contexts_free(struct correlator *c, const struct entry *e);
/* If the thread is in no context: the next one that it enters works for the request that it has
 * read, outside of all, since it last entered one; of several, for none. */
void contexts_point(struct correlator *c, const struct entry *e);
/* The thread begins to work in it, and ends that. */
void contexts_open(struct correlator *c, const struct entry *e);
void contexts_close(struct correlator *c, const struct entry *e);
/* The thread read first, or last, bytes of a request. */
void contexts_on_read(struct correlator *c, uint32_t thread, uint32_t request);
/* The thread writes the first bytes of a request's answer. */
void contexts_on_answer(struct correlator *c, uint32_t thread, uint32_t request);
/* The thread uses gRPC's object for a stream, with that index. */
void contexts_on_stream(struct correlator *c, uint32_t thread, uint32_t object);
/* A thread entered an outermost run. Whether it works in a context with a request. */
bool contexts_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* Whose context a thread works in: a request's, as index + 1, or that of a stream, by the index + 1
 * of its object; both 0: unknown. */
struct context_work {
	uint64_t since_ns; /* the thread entered it; 0: it works in none */
	uint32_t request, stream;
};
struct context_work contexts_find(struct correlator *c, uint32_t thread);
/* As contexts_on_run(), for a run that was handed over; work: the context in which that was done.
 */
bool contexts_add_run(struct correlator *c, struct context_work work, uint64_t span);
/* The window has closed: the request, of that process; NO_REQUEST. */
uint32_t contexts_request(const struct correlator *c, const struct context_work *work,
			  uint32_t process);
/* The window has closed: work in one of its contexts began at that time. A context that outlives
 * its request works for others, too. */
void contexts_note_work(struct correlator *c, uint32_t request, uint64_t time);
/* Whether the process works in contexts. */
bool contexts_seen(const struct correlator *c, uint32_t process);
/* Nothing is known any more of what was entered: the probes are gone. */
void contexts_forget(struct correlator *c);
/* The thread has ended: another one may get its number. */
void contexts_end_thread(struct correlator *c, uint32_t thread);
/* The process has become another program. */
void contexts_end_process(struct correlator *c, uint32_t process);
/* The window has closed: runs get their requests. */
void contexts_claim(struct correlator *c);
void contexts_done(struct contexts *s);
