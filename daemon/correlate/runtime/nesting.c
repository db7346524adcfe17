/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/nesting.h"

#include <errno.h>

#include "lib/base/macro.h"

void nesting_pop(struct correlator *c, struct thread_state *s, uint64_t end, bool cut)
{
	struct frame *f = frames_top(&s->frames);
	struct span *span = nesting_span(c, f);

	if (!end && nesting_ends_at_next(c, f)) {
		/* Where the next one starts; before a thread takes up other work it may have been
		 * idle, which was off a CPU. */
		end = c->idle_between && s->left_ns > span->start_ns ? s->left_ns : c->now;
		span->flags |= SPAN_END_BOUND;
	} else if (!end && f->last_ns <= span->start_ns) {
		/* Nothing was seen inside: it ended before the thread's next record, and this is
		 * only a bound. */
		end = f->next_ns;
		span->flags |= SPAN_END_BOUND;
	} else if (!end && !frame_is(f, WORK_PIECE)) {
		span->flags |= SPAN_END_BOUND; /* its own end mark is missing */
	}
	span->end_ns = end ?: MAX(f->last_ns, span->start_ns);
	if (cut)
		span->flags |= SPAN_CUT_END;
	end = span->end_ns;
	frames_pop(&s->frames);
	f = frames_top(&s->frames);
	if (f)
		f->last_ns = MAX(f->last_ns, end);
}

void nesting_return(struct correlator *c, struct thread_state *s, uint32_t stack)
{
	struct frame *f;

	while ((f = frames_top(&s->frames)) && stack_at_or_above(stack, f->stack))
		nesting_pop(c, s, 0, false);
}

void nesting_touch(struct thread_state *s, uint64_t time)
{
	struct frame *f = frames_top(&s->frames);

	if (f)
		f->last_ns = time;
}

void nesting_end_inner(struct correlator *c, struct thread_state *s, uint32_t at)
{
	while (s->frames.n > at + 1)
		nesting_pop(c, s, 0, false);
}

void nesting_end(struct correlator *c, struct thread_state *s, uint32_t at, uint64_t time)
{
	nesting_end_inner(c, s, at);
	nesting_pop(c, s, time, false);
}

void nesting_cut(struct correlator *c, struct frames *frames, uint32_t at, uint64_t time)
{
	struct span *span = nesting_span(c, &frames->frames[at]);

	span->end_ns = time;
	span->flags |= SPAN_CUT_END;
	frames_remove(frames, at);
}

struct frame *nesting_push(struct correlator *c, const struct entry *e, enum span_kind kind)
{
	struct thread_state *s = &c->states[e->thread];
	const struct record_probe *r = e->record;
	struct frame *f;
	uint64_t index;

	if (s->frames.n == FRAMES_MAX) {
		c->t->n_spans_left_out++;
		return NULL;
	}
	index = correlator_add_span(c, e->thread, kind, r->head.time);
	if (index == NO_SPAN)
		return NULL;
	if (e->row->event)
		c->t->spans[index].name = correlator_name(c, e->row->event);
	nesting_touch(s, r->head.time);
	f = frames_push(&s->frames);
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
			     .last_ns = r->head.time };
	return f;
}

void nesting_pass(struct correlator *c, const struct entry *e)
{
	nesting_return(c, entry_state(c, e), e->record->stack);
	nesting_touch(entry_state(c, e), e->record->head.time);
}

uint64_t nesting_add_begun(struct correlator *c, const struct entry *e, enum span_kind kind,
			   const char *name)
{
	uint64_t index = correlator_add_span(c, e->thread, kind, c->start_ns);

	if (index == NO_SPAN)
		return NO_SPAN;
	c->t->spans[index].end_ns = e->record->head.time;
	c->t->spans[index].flags = SPAN_CUT_START;
	c->t->spans[index].context = c->next_context++;
	c->t->spans[index].name = correlator_name(c, name);
	return index;
}
