/* SPDX-License-Identifier: Apache-2.0 */
/* Which run made the answer that a thread passes to a stream, where the server has an object for
 * each answer (the value of the rows). */
#pragma once

#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct answers {
	struct thread_answer *threads; /* beside the timeline's */
	uint64_t threads_size;
	struct map run_of; /* index of a span, by the answer's object */
};

/* The thread's next run is to make that answer. */
void answers_enqueue(struct correlator *c, const struct entry *e);
/* The thread passes that answer, or a message of it, to its stream before this function returns, if
 * the stream has no message before it. */
void answers_dequeue(struct correlator *c, const struct entry *e);
/* A thread entered a function, at that stack pointer: those that are not above it have returned. */
void answers_on_entry(struct correlator *c, uint32_t thread, uint32_t stack);
/* A thread entered an outermost run; NO_SPAN: an inner one. */
void answers_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* A thread uses a stream: the answer that it passes, if this is the first thing that it does in the
 * function which passes it; 0: none. */
uint64_t answers_passed(struct correlator *c, uint32_t thread);
/* The run that made the answer, once; NO_SPAN. */
uint64_t answers_take_run(struct correlator *c, uint64_t answer);
void answers_done(struct answers *a);
