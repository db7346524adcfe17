/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/runtime/handlers.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

#define HANDLERS_MAX (4u << 20)

static int64_t add(struct correlator *c)
{
	struct handler *handlers;

	if (c->t->n_handlers == HANDLERS_MAX)
		return -1;
	handlers = correlator_grow(c, c->t->handlers, &c->handlers.size, c->t->n_handlers,
				   sizeof(handlers[0]));
	if (!handlers)
		return -1;
	c->t->handlers = handlers;
	handlers[c->t->n_handlers] = (struct handler){ .path = TEXT_NONE, .model = TEXT_NONE };
	return c->t->n_handlers++;
}

static struct handler *handler_of(struct correlator *c, struct span *span)
{
	if (span->handler < 0)
		span->handler = add(c);
	return span->handler < 0 ? NULL : &c->t->handlers[span->handler];
}

static void set_path(struct correlator *c, uint64_t span, const struct record_text *r)
{
	struct handler *handler = handler_of(c, &c->t->spans[span]);

	if (handler)
		handler->path = texts_add_record(c, r);
}

static void set_model(struct correlator *c, uint64_t span, const struct record_text *r)
{
	struct handler *handler = handler_of(c, &c->t->spans[span]);
	const struct timeline *t = c->t;
	char name[RECORD_TEXT_SIZE + 128];

	if (!handler)
		return;
	handler->model = texts_add_record(c, r);
	if (handler->model == TEXT_NONE)
		return;
	snprintf(name, sizeof(name), "%.100s (%s)", names_text(&c->names, t->spans[span].name),
		 t->texts[handler->model]);
	c->t->spans[span].name = correlator_name(c, name);
}

void handlers_open(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	struct frame *f;
	uint32_t at;

	/* Handlers do not call one another: the end of the last one was lost. */
	while ((at = frames_find_above(&s->frames, e->pack, e->row, e->record->stack)) !=
	       FRAME_NONE)
		while (frames_count(&s->frames) > at)
			nesting_pop(c, s, 0, false);
	nesting_return(c, s, e->record->stack);
	f = nesting_push(c, e, SPAN_HANDLER);
	if (!f)
		return;
	s->handled = true;
	nesting_span(c, f)->context = spans_make_context(c);
	if (entry_text(e))
		set_path(c, f->span, entry_text(e));
}

void handlers_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find_above(&s->frames, e->pack, e->row, e->record->stack);
	uint64_t span;

	if (at != FRAME_NONE) {
		span = frames_at(&s->frames, at)->span;
		nesting_end(c, s, at, e->record->head.time);
	} else {
		nesting_pass(c, e);
		/* It began before the window, unless another one was seen here since. */
		if (s->handled || frames_count(&s->frames) || !e->row->event)
			return;
		span = nesting_add_begun(c, e, SPAN_HANDLER, e->row->event);
		if (span == NO_SPAN)
			return;
	}
	s->handled = true;
	if (entry_text(e))
		set_model(c, span, entry_text(e));
	requests_note_finished(c, span);
}
