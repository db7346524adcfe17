/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/runs.h"

#include <errno.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/http/requests.h"

/* Pieces of which one must be linked to its run, if any can be. */
#define LINK_PROOFS 16

static bool is_piece(const struct frame *f)
{
	return frame_is(f, WORK_PIECE) && !f->row->last;
}

/* The run, or batch, that the thread is working for: its own, or that of the piece whose work it
 * does. */
static uint64_t find_run(const struct thread_state *s)
{
	for (uint32_t i = s->frames.n; i > 0; i--) {
		const struct frame *f = &s->frames.frames[i - 1];

		if (frame_is(f, WORK_RUN) || frame_is(f, WORK_BATCH))
			return f->span;
		if (is_piece(f) && f->run != NO_SPAN)
			return f->run;
	}
	return NO_SPAN;
}

uint64_t runs_of_thread(struct correlator *c, const struct thread_state *s)
{
	uint64_t run = find_run(s);

	/* Before there is any run: a session that batches is called by the handler itself. */
	for (uint32_t i = s->frames.n; run == NO_SPAN && i > 0; i--)
		if (frame_is(&s->frames.frames[i - 1], WORK_REQUEST))
			run = s->frames.frames[i - 1].span;
	return run;
}

static bool is_working(const struct thread_state *s)
{
	for (uint32_t i = 0; i < s->frames.n; i++)
		if (frame_is(&s->frames.frames[i], WORK_RUN) || is_piece(&s->frames.frames[i]))
			return true;
	return false;
}

/* Whether the thread is in a run that began at the height of this one, or below: it is over. */
static bool is_replaced(const struct thread_state *s, const struct entry *e)
{
	uint32_t stack = e->record->stack + 2 * e->row->slack;
	uint32_t at = frames_find_above(&s->frames, e->pack, e->row, e->record->stack);

	return at != FRAME_NONE && stack_at_or_above(stack, s->frames.frames[at].stack);
}

void runs_open(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	const struct record_probe *r = e->record;
	struct frame *f;
	bool inner;

	nesting_return(c, s, r->stack);
	/* What outlives its function ends by its other mark, or where the thread's next one begins.
	 */
	if (e->row->slack)
		while (is_replaced(s, e))
			nesting_pop(c, s, 0, false);
	inner = is_working(s);
	f = nesting_push(c, e, SPAN_RUN);
	if (!f)
		return;
	if (e->row->usdt)
		nesting_span(c, f)->flags |= SPAN_MARK;
	if (inner)
		nesting_span(c, f)->flags |= SPAN_INNER;
	else
		attribution_on_run(c, e->thread, f->span);
	nesting_span(c, f)->context = c->next_context++;
	if (e->row->value.argument)
		nesting_span(c, f)->id = (int64_t)r->value;
}

/* It began before the window, unless another one has ended here since, and then something was lost.
 */
static void close_begun(struct correlator *c, const struct entry *e)
{
	const struct probe_row *open = NULL;
	struct thread_state *s = entry_state(c, e);
	uint64_t index;

	for (unsigned i = 0; i < e->pack->n_rows; i++)
		if (row_is(&e->pack->rows[i], VERB_OPEN, WORK_RUN) &&
		    e->pack->rows[i].group == e->row->group)
			open = &e->pack->rows[i];
	/* A function's end mark is not only its own: without anything seen of a run it says
	 * nothing. */
	if (s->run_closed || s->frames.n || !open || !open->value.argument)
		return;
	index = nesting_add_begun(c, e, SPAN_RUN, open->event);
	if (index == NO_SPAN)
		return;
	s->run_closed = e->record->head.time;
	attribution_on_cut_run(c, e->thread, index);
}

void runs_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find_above(&s->frames, e->pack, e->row, e->record->stack);
	uint64_t span;

	if (at == FRAME_NONE) {
		close_begun(c, e);
		return;
	}
	span = s->frames.frames[at].span;
	nesting_end(c, s, at, e->record->head.time);
	s->run_closed = e->record->head.time;
	if (e->row->usdt && !(c->t->spans[span].flags & SPAN_INNER))
		requests_note_finished(c, span);
}

static struct links *links_of(struct correlator *c, const struct entry *e)
{
	return &c->links[e->record->head.target];
}

void pieces_enqueue(struct correlator *c, const struct entry *e)
{
	uint64_t run, *other;

	nesting_pass(c, e);
	run = find_run(entry_state(c, e));
	if (entry_values(e)->value2)
		correlator_put(c, &c->run_of_call, entry_key2(e), run);
	if (run == NO_SPAN)
		return;
	links_of(c, e)->n_starts++;
	if (c->t->spans[run].id < 0) {
		c->t->spans[run].id = (int64_t)e->record->value;
		c->t->spans[run].flags |= SPAN_ID_READ;
	}
	/* Numbers that several runs share name none of them. */
	other = map_get(&c->run_of_step, entry_key(e));
	correlator_put(c, &c->run_of_step, entry_key(e), other && *other != run ? NO_SPAN : run);
}

/* An identity's address comes back in later runs: the run of a piece is one that goes on. */
static bool has_ended(const struct correlator *c, uint64_t run)
{
	return run != NO_SPAN && c->t->spans[run].end_ns != c->t->spans[run].start_ns;
}

/* Identity and number must both agree: a wrong layout reads something else in either. */
static bool has_number(const struct correlator *c, uint64_t run, uint64_t number)
{
	return run == NO_SPAN || c->t->spans[run].id < 0 || c->t->spans[run].id == (int64_t)number;
}

static void link_piece(struct correlator *c, const struct entry *e, struct frame *f)
{
	uint64_t call = entry_values(e)->value2;
	uint64_t *run = call ? map_get(&c->run_of_call, entry_key2(e)) : NULL;

	if (run && !has_ended(c, *run) && has_number(c, *run, e->record->value))
		f->run = *run;
	links_of(c, e)->n_pieces++;
	if (f->run == NO_SPAN)
		return;
	links_of(c, e)->n_linked++;
	nesting_span(c, f)->context = c->t->spans[f->run].context;
}

void pieces_open(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint64_t *run = e->row->last ? map_get(&c->run_of_step, entry_key(e)) : NULL;
	struct frame *f;

	c->idle_between |= !e->row->last;
	nesting_return(c, s, e->record->stack);
	/* A piece is entered from within another one only while that runs an operation. */
	f = frames_top(&s->frames);
	if (f && is_piece(f))
		nesting_pop(c, s, 0, false);
	f = nesting_push(c, e, e->row->last ? SPAN_DONE : SPAN_EXECUTOR);
	if (!f)
		return;
	nesting_span(c, f)->id = (int64_t)e->record->value;
	nesting_span(c, f)->flags |= SPAN_ID_READ;
	if (!e->row->last)
		link_piece(c, e, f);
	else if (run && *run != NO_SPAN)
		nesting_span(c, f)->context = c->t->spans[*run].context;
}

/* With ends of operations marked this says nothing new; without, the last one of the piece is over.
 */
void pieces_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at =
		c->ops_at_entry ? frames_find(&s->frames, WORK_PIECE, e->record->tag) : FRAME_NONE;

	nesting_return(c, s, e->record->stack);
	if (at != FRAME_NONE)
		nesting_end_inner(c, s, at);
	nesting_touch(s, e->record->head.time);
}

/* Where pieces keep identity and number is known of some releases only; elsewhere nothing that they
 * hold is that of a run that was seen. */
static void check_links(struct correlator *c, unsigned target)
{
	const struct links *l = &c->links[target];

	if (l->n_linked)
		return;
	/* What was read beside it is worth nothing then. */
	for (uint64_t i = 0; i < c->t->n_spans; i++)
		if (c->t->spans[i].flags & SPAN_ID_READ &&
		    c->t->threads[c->t->spans[i].thread].process == target)
			c->t->spans[i].id = -1;
	if (l->n_starts >= LINK_PROOFS && l->n_pieces >= LINK_PROOFS &&
	    timeline_warn(
		    c->t,
		    "Process %u: which run an executor belongs to is not shown: nothing in it is where the releases that are known keep it.",
		    c->targets[target].pid) < 0)
		c->error = -ENOMEM;
}

void runs_check_links(struct correlator *c)
{
	for (unsigned i = 0; i < c->n_targets && !c->error; i++)
		check_links(c, i);
}
