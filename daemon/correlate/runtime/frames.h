/* SPDX-License-Identifier: Apache-2.0 */
/* The probed functions that a thread is inside of, outermost first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/model.h"

#define FRAME_NONE UINT32_MAX

struct frame {
	uint64_t span;    /* index */
	uint64_t last_ns; /* when something was last seen within it */
	uint64_t next_ns; /* time of the thread's first record after the entry; 0: none yet */
	union {
		uint64_t run;   /* WORK_PIECE, WORK_CHILD: index of the span of its run, or batch;
				   UINT64_MAX: unknown, also for the other kinds */
		uint32_t batch; /* WORK_BATCH: its number in the timeline, until that is sorted */
	};
	uint32_t stack; /* low half of the stack pointer at its entry */
	uint32_t tag;
	bool ends_at_next; /* an operation without an end mark: it ends where the next one begins */
	const struct pack *pack; /* of the row */
	const struct probe_row *row;
};

struct frames {
	struct frame *list;
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

static inline uint32_t frames_count(const struct frames *f)
{
	return f->n;
}

/* at: 0 is the outermost one. */
static inline struct frame *frames_at(const struct frames *f, uint32_t at)
{
	return &f->list[at];
}

/* room: as frames_push(). */
void frames_done(struct frames *f, uint32_t *room);
/* NULL: none. */
struct frame *frames_top(const struct frames *f);
/* Deeper than real programs nest: deeper frames are ignored. Each record of a thread may have to be
 * compared with all of its frames. */
#define FRAMES_MAX 512
/* Of all threads together: a target can make threads that never end what they began. */
#define FRAMES_ROOM (1u << 20)

/* A new top frame, uninitialized; NULL: no memory. *room: for how many more frames memory may be
 * allocated. The caller has checked frames_have_room(). */
struct frame *frames_push(struct frames *f, uint32_t *room);
bool frames_have_room(const struct frames *f, uint32_t room);
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
