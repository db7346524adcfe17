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
	enum role role;
	uint8_t group;
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

static inline bool frame_is_op(const struct frame *f)
{
	return f->role == ROLE_OP_BEGIN || f->role == ROLE_OP_ASYNC_BEGIN;
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
/* The innermost executor with this tag; FRAME_NONE. */
uint32_t frames_find_executor(const struct frames *f, uint32_t tag);
/* The innermost run of a group that was entered above this stack pointer; FRAME_NONE. */
uint32_t frames_find_run(const struct frames *f, uint8_t group, uint32_t stack);
/* The innermost handler, likewise; FRAME_NONE. */
uint32_t frames_find_handler(const struct frames *f, uint8_t group, uint32_t stack);
/* The innermost batch with this tag; FRAME_NONE. */
uint32_t frames_find_batch(const struct frames *f, uint32_t tag);
/* The innermost iterator with this tag; FRAME_NONE. */
uint32_t frames_find_iterator(const struct frames *f, uint32_t tag);
/* The innermost operation with this context; FRAME_NONE. */
uint32_t frames_find_op(const struct frames *f, uint32_t tag);
/* The span of the innermost operation, with that stack pointer in it (0: wherever it is);
 * UINT64_MAX: none. */
uint64_t frames_op(const struct frames *f, uint32_t stack);
