/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/nesting.h"

#include <errno.h>

#include "lib/base/macro.h"

void nesting_busy(struct thread_state *s)
{
	s->maybe_idle = false;
}

void nesting_maybe_idle(struct thread_state *s)
{
	s->maybe_idle = true;
}

/* When an operation without an end mark has ended, which had by then: a nanosecond earlier for each
 * one that it is inside of, which is less than a probe takes. TensorBoard's tables leave out what
 * ends together with its parent. */
static uint64_t end_below(struct correlator *c, const struct thread_state *s, uint32_t at,
			  uint64_t by)
{
	uint64_t start = nesting_span(c, frames_at(&s->frames, at))->start_ns;

	for (; at > 0 && frames_at(&s->frames, at - 1)->ends_at_next; at--)
		by--;
	return MAX(by, start);
}

static uint64_t end_at_next(struct correlator *c, const struct thread_state *s)
{
	return end_below(c, s, frames_count(&s->frames) - 1, c->now);
}

void nesting_pop(struct correlator *c, struct thread_state *s, uint64_t end, bool truncated)
{
	struct frame *f = frames_top(&s->frames);
	struct span *span = nesting_span(c, f);

	if (!end && f->ends_at_next) {
		/* It ends where the next operation starts; before a thread takes up other work it
		 * may have been idle, off CPU. */
		end = s->maybe_idle && threads_left_ns(&s->cpu) > span->start_ns
			      ? threads_left_ns(&s->cpu)
			      : end_at_next(c, s);
		span->flags |= SPAN_END_NOT_SEEN;
		/* Also where another runtime of the process has ends of its operations. */
		c->t->ops_at_entry = true;
	} else if (!end && f->last_ns <= span->start_ns) {
		/* Nothing was seen inside: it ended before the thread's next record, which is an
		 * upper bound. */
		end = f->next_ns;
		span->flags |= SPAN_END_NOT_SEEN;
	} else if (!end && !frame_is(f, WORK_PIECE) && !(span->flags & SPAN_HANDED_OVER)) {
		span->flags |= SPAN_END_NOT_SEEN; /* its own end mark is missing */
	}
	span->end_ns = end ?: MAX(f->last_ns, span->start_ns);
	if (truncated)
		span->flags |= SPAN_TRUNCATED_END;
	end = span->end_ns;
	frames_pop(&s->frames);
	f = frames_top(&s->frames);
	if (f)
		f->last_ns = MAX(f->last_ns, end);
}

/*
 * A run that is switched on and off is above every stack. Operations that were entered before it,
 * not above this stack, have returned; the run did not begin inside of them, or it would have
 * ended.
 */
static void end_before_switch(struct correlator *c, struct thread_state *s, uint32_t stack)
{
	const struct frame *run = frames_top(&s->frames), *f;
	uint32_t n;

	while (run && run->row->verb == VERB_SWITCH && (n = frames_count(&s->frames)) > 1 &&
	       (f = frames_at(&s->frames, n - 2))->ends_at_next &&
	       stack_at_or_above(stack, f->stack)) {
		struct span *span = nesting_span(c, f);
		uint64_t began = nesting_span(c, run)->start_ns;

		/* The run's end may be what was lost. */
		if (losses_within(&c->losses, began, c->now))
			return;
		span->end_ns = end_below(c, s, n - 2, began);
		span->flags |= SPAN_END_NOT_SEEN;
		c->t->ops_at_entry = true;
		if (n > 2)
			frames_at(&s->frames, n - 3)->last_ns =
				MAX(frames_at(&s->frames, n - 3)->last_ns, span->end_ns);
		frames_remove(&s->frames, n - 2);
		run = frames_top(&s->frames);
	}
}

void nesting_return(struct correlator *c, struct thread_state *s, uint32_t stack)
{
	struct frame *f;

	while ((f = frames_top(&s->frames)) && stack_at_or_above(stack, f->stack))
		nesting_pop(c, s, 0, false);
	end_before_switch(c, s, stack);
}

void nesting_end_operations(struct correlator *c, const struct entry *e, uint64_t since_ns)
{
	struct thread_state *s = entry_state(c, e);
	const struct frame *f;

	while ((f = frames_top(&s->frames)) && f->ends_at_next && f->pack == e->pack &&
	       nesting_span(c, f)->start_ns >= since_ns)
		nesting_pop(c, s, 0, false);
}

void nesting_touch(struct thread_state *s, uint64_t time)
{
	struct frame *f = frames_top(&s->frames);

	if (f)
		f->last_ns = time;
}

void nesting_woke(struct thread_state *s, uint64_t time)
{
	struct frame *f = frames_top(&s->frames);

	/* The callback that ends a run does little else than wake its caller, and a launch that
	 * does nothing itself hands its work on. */
	if (f && (f->row->last || (f->row->async && !f->next_ns)))
		f->last_ns = time;
}

void nesting_end_inner(struct correlator *c, struct thread_state *s, uint32_t at)
{
	while (frames_count(&s->frames) > at + 1)
		nesting_pop(c, s, 0, false);
}

void nesting_end(struct correlator *c, struct thread_state *s, uint32_t at, uint64_t time)
{
	nesting_end_inner(c, s, at);
	nesting_pop(c, s, time, false);
}

void nesting_truncate(struct correlator *c, struct frames *frames, uint32_t at, uint64_t time)
{
	struct span *span = nesting_span(c, frames_at(frames, at));

	span->end_ns = time;
	span->flags |= SPAN_TRUNCATED_END;
	frames_remove(frames, at);
}

/* Whether it is an operation without an end mark. */
static bool ends_at_next(const struct correlator *c, const struct entry *e)
{
	return e->row->work == WORK_OP &&
	       (e->pack->ops_end_at_next ||
		targets_get(&c->targets, e->record->head.target)->ops_at_entry);
}

struct frame *nesting_push(struct correlator *c, const struct entry *e, enum span_kind kind)
{
	struct thread_state *s = entry_state(c, e);
	const struct record_probe *r = e->record;
	struct frame *f;
	uint64_t index;

	if (!frames_have_room(&s->frames, *thread_table_frames_room(c))) {
		c->t->n_spans_left_out++;
		return NULL;
	}
	index = spans_add(c, e->thread, kind, r->head.time);
	if (index == NO_SPAN)
		return NULL;
	if (e->row->event)
		c->t->spans[index].name = correlator_name(c, e->row->event);
	nesting_touch(s, r->head.time);
	f = frames_push(&s->frames, thread_table_frames_room(c));
	if (!f) {
		c->error = -ENOMEM;
		return NULL;
	}
	*f = (struct frame){ .span = index,
			     .stack = r->stack + e->row->slack,
			     .tag = r->tag,
			     .pack = e->pack,
			     .row = e->row,
			     .run = NO_SPAN,
			     .ends_at_next = ends_at_next(c, e),
			     .last_ns = r->head.time };
	return f;
}

void nesting_pass(struct correlator *c, const struct entry *e)
{
	/* That of other rows is about what they begin or end. */
	uint32_t slack = e->row->verb == VERB_POINT ? e->row->slack : 0;

	nesting_return(c, entry_state(c, e), e->record->stack + slack);
	nesting_touch(entry_state(c, e), e->record->head.time);
}

uint64_t nesting_add_begun(struct correlator *c, const struct entry *e, enum span_kind kind,
			   const char *name)
{
	uint64_t index = spans_add(c, e->thread, kind, c->start_ns);

	if (index == NO_SPAN)
		return NO_SPAN;
	c->t->spans[index].end_ns = e->record->head.time;
	c->t->spans[index].flags = SPAN_TRUNCATED_START;
	c->t->spans[index].context = spans_make_context(c);
	c->t->spans[index].name = correlator_name(c, name);
	return index;
}
