/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/verbs.h"

#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/handlers.h"
#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/ops.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/stages.h"

typedef void (*verb_fn)(struct correlator *c, const struct entry *e);

/* What is not here says no more than that its thread was there. */
static const verb_fn verbs[WORK_COUNT][VERB_COUNT] = {
	[WORK_REQUEST] = { [VERB_OPEN] = handlers_open, [VERB_CLOSE] = handlers_close },
	[WORK_RUN] = { [VERB_OPEN] = runs_open, [VERB_CLOSE] = runs_close },
	[WORK_PIECE] = { [VERB_ENQUEUE] = pieces_enqueue,
			 [VERB_OPEN] = pieces_open,
			 [VERB_CLOSE] = pieces_close },
	[WORK_OP] = { [VERB_OPEN] = ops_open,
		      [VERB_CLOSE] = ops_close,
		      [VERB_ENQUEUE] = ops_enqueue,
		      [VERB_FREE] = ops_free },
	[WORK_BATCH] = { [VERB_ENQUEUE] = batches_enqueue,
			 [VERB_OPEN] = batches_open,
			 [VERB_POINT] = batches_point,
			 [VERB_CLOSE] = batches_close },
	[WORK_STREAM] = { [VERB_OPEN] = streams_open, [VERB_POINT] = streams_point },
	[WORK_STAGE] = { [VERB_OPEN] = stages_open, [VERB_CLOSE] = stages_close },
	[WORK_LABEL] = { [VERB_OPEN] = labels_open, [VERB_CLOSE] = labels_close },
	[WORK_ALLOC] = { [VERB_OPEN] = memory_open,
			 [VERB_CLOSE] = memory_close,
			 [VERB_FREE] = memory_free,
			 [VERB_POINT] = memory_point },
};

/* Whether the record is as long as what its row's action reads. */
static bool is_whole(const struct record *record, const struct probe_row *row)
{
	bool has_text = row->action == ACTION_TEXT || row->action == ACTION_TEXT_END ||
			row->action == ACTION_TEXT_NUL;

	if (row->action == ACTION_READ && record->size8 * 8 < (int)sizeof(struct record_probe2))
		return false;
	return record->kind != RECORD_TEXT || has_text;
}

void verbs_on_record(struct correlator *c, const struct record *record)
{
	const struct pack_set *set;
	struct entry e = { .record = (const void *)record };
	verb_fn verb;

	if (record->target >= c->n_targets || c->gone[record->target])
		return;
	set = c->targets[record->target].packs;
	e.row = pack_set_row(set, record->site);
	if (!e.row || !is_whole(record, e.row) || c->shed[probe_kind_of_row(e.row)])
		return;
	e.pack = set->owners[record->site];
	e.thread = correlator_thread(c, record->tid);
	if (c->error)
		return;
	c->t->threads[e.thread].process = record->target;
	c->idle_between = false;
	c->ops_at_entry = c->targets[record->target].ops_at_entry;
	verb = verbs[e.row->work][e.row->verb];
	if (verb)
		verb(c, &e);
	else
		nesting_pass(c, &e);
}

/* Notes when the thread did the first thing after it entered its top frame. */
void verbs_note_next(struct correlator *c, const struct record *r)
{
	uint64_t *found = r->kind == RECORD_WAKE ? NULL : map_get(&c->thread_of_tid, r->tid);
	struct frame *f = found ? frames_top(&c->states[*found].frames) : NULL;

	if (f && !f->next_ns)
		f->next_ns = r->time;
}

void verbs_close(struct correlator *c, struct thread_state *s)
{
	while (s->frames.n) {
		const struct frame *f = frames_top(&s->frames);
		bool piece = frame_is(f, WORK_PIECE);
		/* Of an operation that another thread finishes only the launch is here; what its
		 * thread did next comes after that. */
		bool launch = frame_is(f, WORK_OP) && f->row->async &&
			      (f->last_ns > nesting_span(c, f)->start_ns || f->next_ns);

		c->idle_between = true;
		if (launch)
			nesting_pop(c, s, 0, false);
		else if (nesting_ends_at_next(c, f) && s->left_ns > nesting_span(c, f)->start_ns)
			nesting_pop(c, s, 0, false);
		else if (piece && f->last_ns > nesting_span(c, f)->start_ns &&
			 f->last_ns < c->end_ns)
			nesting_pop(c, s, 0, false);
		else
			nesting_pop(c, s, c->end_ns, true);
	}
}

void verbs_end_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		while (c->t->threads[i].process == process && c->states[i].frames.n)
			nesting_cut(c, &c->states[i].frames, c->states[i].frames.n - 1, time);
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		if (c->t->threads[i].process == process)
			labels_cut(c, &c->states[i], time);
}

void verbs_shed(struct correlator *c, enum probe_kind kind, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct frames *frames = &c->states[i].frames;

		if (kind == KIND_LABELS)
			labels_cut(c, &c->states[i], time);
		for (uint32_t at = frames->n; at > 0; at--)
			if (probe_kind_of_row(frames->frames[at - 1].row) == kind)
				nesting_cut(c, frames, at - 1, time);
	}
}
