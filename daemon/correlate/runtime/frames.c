/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/frames.h"

#include <stdlib.h>
#include <string.h>

void frames_done(struct frames *f)
{
	free(f->frames);
	*f = (struct frames){};
}

struct frame *frames_top(const struct frames *f)
{
	return f->n ? &f->frames[f->n - 1] : NULL;
}

struct frame *frames_push(struct frames *f)
{
	if (f->n == f->size) {
		uint32_t size = f->size ? f->size * 2 : 16;
		struct frame *frames = realloc(f->frames, size * sizeof(frames[0]));

		if (!frames)
			return NULL;
		f->frames = frames;
		f->size = size;
	}
	return &f->frames[f->n++];
}

void frames_pop(struct frames *f)
{
	f->n--;
}

void frames_remove(struct frames *f, uint32_t at)
{
	memmove(&f->frames[at], &f->frames[at + 1], (--f->n - at) * sizeof(f->frames[0]));
}

static uint32_t find_tagged(const struct frames *f, enum role role, uint32_t tag)
{
	for (uint32_t i = f->n; i > 0; i--)
		if (f->frames[i - 1].role == role && f->frames[i - 1].tag == tag)
			return i - 1;
	return FRAME_NONE;
}

uint32_t frames_find_executor(const struct frames *f, uint32_t tag)
{
	return find_tagged(f, ROLE_EXECUTOR_RUN, tag);
}

uint32_t frames_find_batch(const struct frames *f, uint32_t tag)
{
	return find_tagged(f, ROLE_BATCH_BEGIN, tag);
}

uint32_t frames_find_iterator(const struct frames *f, uint32_t tag)
{
	return find_tagged(f, ROLE_NEXT_BEGIN, tag);
}

static uint32_t find_above(const struct frames *f, enum role role, uint8_t group, uint32_t stack)
{
	for (uint32_t i = f->n; i > 0; i--) {
		const struct frame *frame = &f->frames[i - 1];

		if (frame->role == role && frame->group == group &&
		    !stack_at_or_above(stack, frame->stack))
			return i - 1;
	}
	return FRAME_NONE;
}

uint32_t frames_find_run(const struct frames *f, uint8_t group, uint32_t stack)
{
	return find_above(f, ROLE_RUN_BEGIN, group, stack);
}

uint32_t frames_find_handler(const struct frames *f, uint8_t group, uint32_t stack)
{
	return find_above(f, ROLE_REQUEST_BEGIN, group, stack);
}

uint32_t frames_find_op(const struct frames *f, uint32_t tag)
{
	for (uint32_t i = f->n; i > 0; i--) {
		const struct frame *frame = &f->frames[i - 1];

		if ((frame->role == ROLE_OP_BEGIN || frame->role == ROLE_OP_ASYNC_BEGIN) &&
		    frame->tag == tag)
			return i - 1;
	}
	return FRAME_NONE;
}

uint64_t frames_op(const struct frames *f, uint32_t stack)
{
	for (uint32_t i = f->n; i > 0; i--) {
		const struct frame *at = &f->frames[i - 1];

		if (frame_is_op(at) && (!stack || !stack_at_or_above(stack, at->stack)))
			return at->span;
	}
	return UINT64_MAX;
}
