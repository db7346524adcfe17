/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/verbs.h"

#include "daemon/correlate/attribute/answers.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/attribute/hand_overs.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/http/library_requests.h"
#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/children.h"
#include "daemon/correlate/runtime/handlers.h"
#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/models.h"
#include "daemon/correlate/runtime/ops.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/stages.h"
#include "lib/base/macro.h"

typedef void (*verb_fn)(struct correlator *c, const struct entry *e);

/* For other rows, a record only means that its thread was there. */
static const verb_fn verbs[WORK_COUNT][VERB_COUNT] = {
	[WORK_REQUEST] = { [VERB_OPEN] = handlers_open,
			   [VERB_CLOSE] = handlers_close,
			   [VERB_POINT] = attribution_point },
	[WORK_RUN] = { [VERB_OPEN] = runs_open,
		       [VERB_CLOSE] = runs_close,
		       [VERB_POINT] = models_point,
		       [VERB_SWITCH] = runs_switch,
		       [VERB_ENQUEUE] = hand_overs_enqueue,
		       [VERB_DEQUEUE] = hand_overs_dequeue },
	[WORK_PIECE] = { [VERB_ENQUEUE] = pieces_enqueue,
			 [VERB_OPEN] = pieces_open,
			 [VERB_CLOSE] = pieces_close },
	[WORK_OP] = { [VERB_OPEN] = ops_open,
		      [VERB_CLOSE] = ops_close,
		      [VERB_ENQUEUE] = ops_enqueue,
		      [VERB_FREE] = ops_free },
	[WORK_BATCH] = { [VERB_ENQUEUE] = batches_enqueue,
			 [VERB_DEQUEUE] = batches_dequeue,
			 [VERB_OPEN] = batches_open,
			 [VERB_POINT] = batches_point,
			 [VERB_FREE] = batches_free,
			 [VERB_CLOSE] = batches_close },
	[WORK_STREAM] = { [VERB_OPEN] = streams_open,
			  [VERB_POINT] = library_requests_point,
			  [VERB_ENQUEUE] = answers_enqueue,
			  [VERB_DEQUEUE] = answers_dequeue },
	[WORK_STAGE] = { [VERB_OPEN] = stages_open, [VERB_CLOSE] = stages_close },
	[WORK_LABEL] = { [VERB_OPEN] = labels_open, [VERB_CLOSE] = labels_close },
	[WORK_ALLOC] = { [VERB_OPEN] = memory_open,
			 [VERB_CLOSE] = memory_close,
			 [VERB_FREE] = memory_free,
			 [VERB_POINT] = memory_point },
	[WORK_CONTEXT] = { [VERB_ENQUEUE] = contexts_enqueue,
			   [VERB_FREE] = contexts_free,
			   [VERB_POINT] = contexts_point,
			   [VERB_OPEN] = contexts_open,
			   [VERB_CLOSE] = contexts_close },
	[WORK_CHILD] = { [VERB_ENQUEUE] = children_enqueue,
			 [VERB_OPEN] = children_open,
			 [VERB_CLOSE] = children_close },
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
	const struct correlate_target *target = targets_current(&c->targets, record->target);
	const struct pack_set *set;
	struct entry e = { .record = (const void *)record };
	verb_fn verb;

	if (!target)
		return;
	set = target->packs;
	e.row = pack_set_row(set, record->site);
	if (!e.row || !is_whole(record, e.row) || sheds_has(&c->sheds, probe_kind_of_row(e.row)))
		return;
	e.pack = set->owners[record->site];
	e.thread = thread_table_get(c, record->tid);
	if (c->error)
		return;
	c->t->threads[e.thread].process = record->target;
	threads_on_seen(c, e.thread, record->time);
	nesting_busy(entry_state(c, &e));
	answers_on_entry(c, e.thread, e.record->stack);
	verb = verbs[e.row->work][e.row->verb];
	if (verb)
		verb(c, &e);
	else
		nesting_pass(c, &e);
}

/* Notes when the thread did the first thing after it entered its top frame. */
void verbs_note_next(struct correlator *c, const struct record *r)
{
	/* Others caused the record; the thread did nothing. */
	bool is_passive = r->kind == RECORD_WAKE || r->kind == RECORD_STACK ||
			  r->kind == RECORD_KERNEL_NAME || r->kind == RECORD_SCRIPT;
	uint32_t thread = is_passive ? THREAD_NONE : thread_table_find(c, r->tid);
	struct frame *f =
		thread == THREAD_NONE ? NULL : frames_top(&thread_state(c, thread)->frames);

	if (f && !f->next_ns)
		f->next_ns = r->time;
}

static void close_thread(struct correlator *c, struct thread_state *s, uint64_t end)
{
	while (frames_count(&s->frames)) {
		const struct frame *f = frames_top(&s->frames);
		bool piece = frame_is(f, WORK_PIECE);
		/* Of an operation that another thread finishes, the span is only the launch, which
		 * ended before the thread's next record. */
		bool launch = frame_is(f, WORK_OP) && f->row->async &&
			      (f->last_ns > nesting_span(c, f)->start_ns || f->next_ns);

		nesting_maybe_idle(s);
		if (launch || nesting_span(c, f)->flags & SPAN_HANDED_OVER)
			nesting_pop(c, s, 0, false);
		else if (f->ends_at_next && threads_left_ns(&s->cpu) > nesting_span(c, f)->start_ns)
			nesting_pop(c, s, 0, false);
		else if (piece && f->last_ns > nesting_span(c, f)->start_ns && f->last_ns < end)
			nesting_pop(c, s, 0, false);
		else
			nesting_pop(c, s, MAX(end, nesting_span(c, f)->start_ns), true);
	}
}

void verbs_close(struct correlator *c)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		close_thread(c, thread_state(c, i), c->end_ns);
}

void verbs_end_thread(struct correlator *c, uint32_t thread, uint64_t time)
{
	close_thread(c, thread_state(c, thread), time);
	labels_truncate_thread(c, thread, time);
	contexts_end_thread(c, thread);
}

void verbs_end_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct frames *frames = &thread_state(c, i)->frames;

		while (c->t->threads[i].process == process && frames_count(frames))
			nesting_truncate(c, frames, frames_count(frames) - 1, time);
		if (c->t->threads[i].process == process)
			switches_interrupt(c, i);
	}
	labels_truncate_process(c, process, time);
	contexts_end_process(c, process);
}

void verbs_shed(struct correlator *c, enum probe_kind kind, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct frames *frames = &thread_state(c, i)->frames;

		for (uint32_t at = frames_count(frames); at > 0; at--)
			if (probe_kind_of_row(frames_at(frames, at - 1)->row) == kind)
				nesting_truncate(c, frames, at - 1, time);
	}
	if (kind == KIND_RUNS)
		streams_end(c, time);
	if (kind == KIND_LABELS)
		labels_truncate(c, time);
	if (kind == KIND_CONTEXTS)
		contexts_forget(c);
}
