/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/frames.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

#define FRAMES_FIRST 16

void frames_done(struct frames *f, uint32_t *room)
{
	*room += f->size;
	free(f->list);
	*f = (struct frames){};
}

struct frame *frames_top(const struct frames *f)
{
	return f->n ? &f->list[f->n - 1] : NULL;
}

bool frames_have_room(const struct frames *f, uint32_t room)
{
	return f->n < f->size || (f->size < FRAMES_MAX && room >= MAX(f->size, FRAMES_FIRST));
}

struct frame *frames_push(struct frames *f, uint32_t *room)
{
	if (f->n == f->size) {
		uint32_t size = f->size ? f->size * 2 : FRAMES_FIRST;
		struct frame *list = realloc(f->list, size * sizeof(list[0]));

		if (!list)
			return NULL;
		*room -= size - f->size;
		f->list = list;
		f->size = size;
	}
	return &f->list[f->n++];
}

void frames_pop(struct frames *f)
{
	f->n--;
}

void frames_remove(struct frames *f, uint32_t at)
{
	memmove(&f->list[at], &f->list[at + 1], (--f->n - at) * sizeof(f->list[0]));
}

uint32_t frames_find(const struct frames *f, enum work work, uint32_t tag)
{
	for (uint32_t i = f->n; i > 0; i--)
		if (frame_is(&f->list[i - 1], work) && f->list[i - 1].tag == tag)
			return i - 1;
	return FRAME_NONE;
}

uint32_t frames_find_above(const struct frames *f, const struct pack *pack,
			   const struct probe_row *row, uint32_t stack)
{
	for (uint32_t i = f->n; i > 0; i--) {
		const struct frame *frame = &f->list[i - 1];

		if (frame->pack == pack && frame_is(frame, row->work) &&
		    frame->row->group == row->group && !stack_at_or_above(stack, frame->stack))
			return i - 1;
	}
	return FRAME_NONE;
}

uint64_t frames_op(const struct frames *f, uint32_t stack)
{
	for (uint32_t i = f->n; i > 0; i--) {
		const struct frame *at = &f->list[i - 1];

		if (frame_is(at, WORK_OP) && (!stack || !stack_at_or_above(stack, at->stack)))
			return at->span;
	}
	return UINT64_MAX;
}
