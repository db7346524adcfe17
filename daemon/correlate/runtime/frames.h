/* SPDX-License-Identifier: Apache-2.0 */
/* The probed functions that a thread is inside of, outermost first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/model.h"

#define FRAME_NONE UINT32_MAX

struct frame {
	uint64_t span;    /* index */
	uint64_t last_ns; /* when something was last seen inside */
	uint64_t next_ns; /* when its thread did the first thing after that entry; 0: nothing yet */
	uint64_t run;     /* of an executor: index of the span of the run, or batch, UINT64_MAX: not
			     known; of a batch: its number */
	uint32_t stack;   /* low half of the stack pointer at its entry */
	uint32_t tag;
	const struct pack *pack; /* whose row was entered */
	const struct probe_row *row;
};

struct frames {
	struct frame *frames;
	uint32_t n, size;
};

/* Whether a stack pointer is at or above another of the same thread, by their low halves. */
static inline bool stack_at_or_above(uint32_t stack, uint32_t other)
{
	return (int32_t)(stack - other) >= 0;
}

static inline bool frame_is(const struct frame *f, enum work work)
{
	return f->row->work == work;
}

void frames_done(struct frames *f);
/* NULL: none. */
struct frame *frames_top(const struct frames *f);
/* Deeper than any program goes: what a hostile one enters beyond is left out. */
#define FRAMES_MAX 65536

/* A new top, not set; NULL: no memory. */
struct frame *frames_push(struct frames *f);
void frames_pop(struct frames *f);
void frames_remove(struct frames *f, uint32_t at);
/* The innermost of that kind with this tag; FRAME_NONE. */
uint32_t frames_find(const struct frames *f, enum work work, uint32_t tag);
/* The innermost of the row's kind and group that was entered above this stack pointer; FRAME_NONE.
 */
uint32_t frames_find_above(const struct frames *f, const struct pack *pack,
			   const struct probe_row *row, uint32_t stack);
/* The span of the innermost operation, with that stack pointer in it (0: wherever it is);
 * UINT64_MAX: none. */
uint64_t frames_op(const struct frames *f, uint32_t stack);
