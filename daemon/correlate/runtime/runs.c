/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/runs.h"

#include <errno.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/hand_overs.h"
#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/runtime/switches.h"

/* Pieces of which one must be linked to its run, if any can be. */
#define LINK_PROOFS 16

static bool is_executor(const struct frame *f)
{
	return frame_is(f, WORK_PIECE) && !f->row->last;
}

/* A child's work is one only where it is known of what. */
static bool is_piece(const struct frame *f)
{
	return is_executor(f) || (frame_is(f, WORK_CHILD) && f->run != NO_SPAN);
}

/* The run, or batch, that the thread is working for: its own, or that of the piece that it
 * executes. */
static uint64_t find_run(const struct thread_state *s)
{
	for (uint32_t i = frames_count(&s->frames); i > 0; i--) {
		const struct frame *f = frames_at(&s->frames, i - 1);

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

	/* Before there is a run: a session that batches is called by the handler itself. */
	for (uint32_t i = frames_count(&s->frames); run == NO_SPAN && i > 0; i--)
		if (frame_is(frames_at(&s->frames, i - 1), WORK_REQUEST))
			run = frames_at(&s->frames, i - 1)->span;
	return run;
}

static bool is_working(const struct thread_state *s)
{
	for (uint32_t i = 0; i < frames_count(&s->frames); i++)
		if (frame_is(frames_at(&s->frames, i), WORK_RUN) ||
		    is_piece(frames_at(&s->frames, i)))
			return true;
	return false;
}

/* Whether the thread is in a run that began at the same stack depth, or deeper: that one is over.
 */
static bool is_replaced(const struct thread_state *s, const struct entry *e)
{
	uint32_t stack = e->record->stack + 2 * e->row->slack;
	uint32_t at = frames_find_above(&s->frames, e->pack, e->row, e->record->stack);

	return at != FRAME_NONE && stack_at_or_above(stack, frames_at(&s->frames, at)->stack);
}

/* Whether the thread processes a batch whose tasks are known one by one: what runs in it is of
 * their requests, and of no other. */
static bool is_in_batch(const struct thread_state *s)
{
	for (uint32_t i = 0; i < frames_count(&s->frames); i++)
		if (frame_is(frames_at(&s->frames, i), WORK_BATCH) &&
		    !frames_at(&s->frames, i)->row->value.argument)
			return true;
	return false;
}

static void set_number(struct span *span, int64_t number)
{
	*(span->flags & SPAN_MARK ? &span->request_id : &span->step) = number;
}

void runs_open(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	const struct record_probe *r = e->record;
	struct frame *f;
	bool inner, counts, is_known;

	/* Marks are of the server's requests: a block around several is none of one of them. */
	if (e->row->usdt)
		switches_interrupt(c, e->thread);
	nesting_return(c, s, r->stack);
	/* A run that outlives its function ends with its end mark, or where the thread's next run
	 * begins. */
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
	counts = !inner && !is_in_batch(s);
	is_known = hand_overs_on_run(c, e, counts ? f->span : NO_SPAN);
	if (e->row->of_peer)
		attribution_on_run_of_peer(c, e, inner ? NO_SPAN : f->span);
	else if (counts)
		attribution_on_run(c, e->thread, f->span, is_known);
	nesting_span(c, f)->context = spans_make_context(c);
	if (e->row->verb == VERB_OPEN && e->row->value.argument)
		set_number(nesting_span(c, f), (int64_t)r->value);
}

/* The row of the runs that this one ends; NULL: none. */
static const struct probe_row *open_row(const struct entry *e)
{
	const struct probe_row *open = NULL;

	for (unsigned i = 0; i < e->pack->n_rows; i++)
		if (row_is(&e->pack->rows[i], VERB_OPEN, WORK_RUN) &&
		    e->pack->rows[i].group == e->row->group)
			open = &e->pack->rows[i];
	return open;
}

/* Closes a run that began before the window. If another one has ended here since, records were lost
 * instead. */
static void close_begun(struct correlator *c, const struct entry *e)
{
	const struct probe_row *open = open_row(e);
	struct thread_state *s = entry_state(c, e);
	uint64_t index;

	/* A run that begins for a peer hands its work over, also outside of runs: no operation is
	 * of it. */
	if (!open || !open->of_peer)
		c->runs.begun_until_ns[e->record->head.target] = e->record->head.time;
	/* An end mark is shared by several functions: alone, it is not the end of a run. */
	if (s->run_closed || frames_count(&s->frames) || !open || !open->value.argument)
		return;
	index = nesting_add_begun(c, e, SPAN_RUN, open->event);
	if (index == NO_SPAN)
		return;
	s->run_closed = e->record->head.time;
	attribution_on_truncated_run(c, e->thread, index);
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
	if (e->row->slack && !stack_at_or_above(e->record->stack + e->row->slack,
						frames_at(&s->frames, at)->stack)) {
		nesting_pass(c, e);
		return;
	}
	span = frames_at(&s->frames, at)->span;
	/* A part of its work is handed over. */
	if (c->t->spans[span].flags & SPAN_HANDED_OVER && is_piece(frames_top(&s->frames))) {
		nesting_pass(c, e);
		return;
	}
	nesting_end(c, s, at, e->record->head.time);
	s->run_closed = e->record->head.time;
	if (e->row->usdt && !(c->t->spans[span].flags & SPAN_INNER))
		requests_note_finished(c, span);
}

/* A run of a switch that may have begun before it was seen. Runs inside of it are shown instead. */
static void add_found(struct correlator *c, const struct entry *e, uint64_t since_ns)
{
	struct thread_state *s = entry_state(c, e);
	uint64_t index;

	nesting_pass(c, e);
	nesting_end_operations(c, e, since_ns);
	if (s->run_closed > since_ns)
		return;
	index = nesting_add_begun(c, e, SPAN_RUN, e->row->event);
	if (index == NO_SPAN)
		return;
	c->t->spans[index].start_ns = since_ns;
	if (is_working(s))
		c->t->spans[index].flags |= SPAN_INNER;
	else if (!is_in_batch(s))
		attribution_on_found_run(c, e->thread, index);
	s->run_closed = e->record->head.time;
}

void runs_switch(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint64_t since_ns;
	uint32_t at;

	switch (switches_change(c, e, &since_ns)) {
	case SWITCH_BEGINS:
		runs_open(c, e);
		break;
	case SWITCH_ENDS:
		/* Without room there was none. */
		at = switches_frame(&s->frames);
		if (at != FRAME_NONE)
			nesting_end(c, s, at, e->record->head.time);
		s->run_closed = e->record->head.time;
		break;
	case SWITCH_ENDS_FOUND:
		add_found(c, e, since_ns);
		break;
	case SWITCH_REPEATS:
		nesting_pass(c, e);
		break;
	}
}

static struct links *links_of(struct correlator *c, const struct entry *e)
{
	return &c->runs.links[e->record->head.target];
}

/* Batches and marks have pieces, too, but no step that is shown. */
static bool shows_step(const struct span *s)
{
	return s->kind == SPAN_RUN && !(s->flags & SPAN_MARK);
}

/* Of a piece's start, or a piece. */
static bool has_step(const struct entry *e)
{
	return e->row->value.argument || e->record->value;
}

/* The step of the pieces of a run, batch or mark; -1: unknown. */
static int64_t step_of(const struct correlator *c, uint64_t span)
{
	const uint64_t *found;

	if (shows_step(&c->t->spans[span]))
		return c->t->spans[span].step;
	found = map_get(&c->runs.step_of, span);
	return found ? (int64_t)*found : -1;
}

static void set_step(struct correlator *c, uint64_t span, int64_t step)
{
	if (shows_step(&c->t->spans[span])) {
		c->t->spans[span].step = step;
		c->t->spans[span].flags |= SPAN_STEP_READ;
	} else {
		correlator_put(c, &c->runs.step_of, span, (uint64_t)step);
	}
}

void pieces_enqueue(struct correlator *c, const struct entry *e)
{
	uint64_t run, *other;

	nesting_pass(c, e);
	run = find_run(entry_state(c, e));
	if (entry_values(e)->value2)
		correlator_put(c, &c->runs.of_call, entry_key2(e), run);
	if (run == NO_SPAN)
		return;
	links_of(c, e)->n_starts++;
	if (step_of(c, run) < 0 && has_step(e))
		set_step(c, run, (int64_t)e->record->value);
	/* A step that several runs share identifies none of them. */
	other = map_get(&c->runs.of_step, entry_key(e));
	correlator_put(c, &c->runs.of_step, entry_key(e), other && *other != run ? NO_SPAN : run);
}

bool runs_has_ended(const struct correlator *c, uint64_t run)
{
	const struct span *s = run == NO_SPAN ? NULL : &c->t->spans[run];

	return s && s->end_ns != s->start_ns &&
	       (!(s->flags & SPAN_HANDED_OVER) || losses_within(&c->losses, s->start_ns, c->now));
}

/* Identity and number must both agree: with a wrong layout one of them differs. */
static bool has_number(const struct correlator *c, uint64_t run, uint64_t number)
{
	return run == NO_SPAN || step_of(c, run) < 0 || step_of(c, run) == (int64_t)number;
}

static void link_piece(struct correlator *c, const struct entry *e, struct frame *f)
{
	uint64_t call = entry_values(e)->value2;
	uint64_t *run = call ? map_get(&c->runs.of_call, entry_key2(e)) : NULL;

	if (run && !runs_has_ended(c, *run) && has_number(c, *run, e->record->value))
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
	uint64_t *run = e->row->last ? map_get(&c->runs.of_step, entry_key(e)) : NULL;
	struct frame *f;

	if (!e->row->last)
		nesting_maybe_idle(s);
	nesting_return(c, s, e->record->stack);
	/* A piece is entered from within another one only while that runs an operation. */
	f = frames_top(&s->frames);
	if (f && is_executor(f))
		nesting_pop(c, s, 0, false);
	f = nesting_push(c, e, e->row->last ? SPAN_DONE : SPAN_EXECUTOR);
	if (!f)
		return;
	if (has_step(e)) {
		nesting_span(c, f)->step = (int64_t)e->record->value;
		nesting_span(c, f)->flags |= SPAN_STEP_READ;
	}
	if (!e->row->last)
		link_piece(c, e, f);
	else if (run && *run != NO_SPAN)
		nesting_span(c, f)->context = c->t->spans[*run].context;
}

/* Where operations have end marks, this is nothing new; elsewhere, the last operation of the piece
 * has ended. */
void pieces_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = targets_get(&c->targets, e->record->head.target)->ops_at_entry
			      ? frames_find(&s->frames, WORK_PIECE, e->record->tag)
			      : FRAME_NONE;

	nesting_return(c, s, e->record->stack);
	if (at != FRAME_NONE)
		nesting_end_inner(c, s, at);
	nesting_touch(s, e->record->head.time);
}

/* The place of identity and number in a piece is known for some releases only. In other releases no
 * piece matches a run. */
static void check_links(struct correlator *c, unsigned target, uint32_t pid)
{
	const struct links *l = &c->runs.links[target];

	if (l->n_linked)
		return;
	/* Then the steps that were read are wrong, too. */
	for (uint64_t i = 0; i < c->t->n_spans; i++)
		if (c->t->spans[i].flags & SPAN_STEP_READ &&
		    c->t->threads[c->t->spans[i].thread].process == target)
			c->t->spans[i].step = -1;
	if (l->n_starts >= LINK_PROOFS && l->n_pieces >= LINK_PROOFS &&
	    timeline_warn(
		    c->t,
		    "Process %u: it is unknown which run an executor belongs to: this release does not keep that where known releases do.",
		    pid) < 0)
		c->error = -ENOMEM;
}

void runs_check_links(struct correlator *c)
{
	const struct correlate_target *target;

	for (unsigned i = 0; (target = targets_get(&c->targets, i)) && !c->error; i++)
		check_links(c, i, target->pid);
}

uint64_t runs_begun_until_ns(const struct correlator *c, unsigned target)
{
	return c->runs.begun_until_ns[target];
}

void runs_done(struct runs *r)
{
	map_done(&r->of_call);
	map_done(&r->of_step);
	map_done(&r->step_of);
}
