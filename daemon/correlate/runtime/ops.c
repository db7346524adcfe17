/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/ops.h"

#include <errno.h>

#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/runtime/objects.h"

static void note_unnamed(struct ops *ops, uint64_t span)
{
	if (!ops->unnamed_end)
		ops->unnamed_first = span;
	ops->unnamed_end = span + 1;
}

static void set_name(struct correlator *c, struct span *s, uint32_t name)
{
	s->name = name;
	if (names_is_cheap(&c->names, name))
		s->flags |= SPAN_CHEAP;
}

/* Whether the entered function continues the thread's operation: the function that began it calls
 * this one with the same tag. */
static bool goes_on(struct correlator *c, const struct entry *e)
{
	const struct frame *f = frames_top(&entry_state(c, e)->frames);

	return e->row->goes_on && f && frame_is(f, WORK_OP) && f->row != e->row &&
	       f->pack == e->pack && f->tag == e->record->tag &&
	       stack_at_or_above(f->stack, e->record->stack);
}

void ops_open(struct correlator *c, const struct entry *e)
{
	uint64_t object = objects_key(c, &e->record->head, e->record->value);
	uint32_t name;
	struct frame *f;

	if (goes_on(c, e)) {
		nesting_touch(entry_state(c, e), e->record->head.time);
		return;
	}
	nesting_return(c, entry_state(c, e), e->record->stack);
	f = nesting_push(c, e, SPAN_OP);
	if (!f)
		return;
	/* The name may come a little later than the operation: until then the span has the object.
	 */
	name = names_of_object(&c->names, object, e->record->head.time);
	c->t->n_ops++;
	if (name == NAME_NONE) {
		nesting_span(c, f)->name = name;
		nesting_span(c, f)->object = object;
		note_unnamed(&c->ops, f->span);
	} else {
		set_name(c, nesting_span(c, f), name);
	}
	if (e->row->async)
		nesting_span(c, f)->flags |= SPAN_ASYNC;
}

void ops_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find(&s->frames, WORK_OP, e->record->tag);

	if (at == FRAME_NONE) {
		/* The end of an asynchronous operation that was launched elsewhere, or of one that
		 * began before the window. */
		nesting_pass(c, e);
		return;
	}
	nesting_end_inner(c, s, at);
	if (frames_top(&s->frames)->row->async)
		nesting_touch(s,
			      e->record->head.time); /* finished within its launch, which goes on */
	else
		nesting_pop(c, s, e->record->head.time, false);
}

void ops_enqueue(struct correlator *c, const struct entry *e)
{
	uint64_t index;

	nesting_pass(c, e);
	index = spans_add(c, e->thread, SPAN_SCHEDULE, e->record->head.time);
	if (index != NO_SPAN)
		c->t->spans[index].name = correlator_name(c, e->row->event);
}

void ops_free(struct correlator *c, const struct entry *e)
{
	names_free_object(&c->names, entry_key(e), e->record->head.time);
}

void ops_name(struct correlator *c)
{
	uint32_t lost = 0;

	if (names_add(&c->names, "operation whose name could not be read", NULL, true, false,
		      &lost) < 0) {
		c->error = -ENOMEM;
		return;
	}
	for (uint64_t i = c->ops.unnamed_first; i < c->ops.unnamed_end; i++) {
		struct span *s = &c->t->spans[i];
		uint32_t name;

		if (s->kind != SPAN_OP || s->name != NAME_NONE)
			continue;
		name = names_of_object(&c->names, s->object, s->start_ns);
		s->object = 0;
		c->t->n_lost_names += name == NAME_NONE;
		set_name(c, s, name == NAME_NONE ? lost : name);
	}
}
