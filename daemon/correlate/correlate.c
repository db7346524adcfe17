/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/correlate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/http/messages.h"
#include "daemon/correlate/http/requests_finish.h"
#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/objects.h"
#include "daemon/correlate/runtime/op_bounds.h"
#include "daemon/correlate/runtime/ops.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/switches.h"
#include "daemon/correlate/runtime/verbs.h"
#include "daemon/correlate/sched/processes.h"
#include "daemon/correlate/sched/quotas.h"
#include "daemon/correlate/sched/samples.h"
#include "daemon/correlate/sched/scripts.h"
#include "daemon/correlate/sched/threads.h"
#include "daemon/timeline/lifetime.h"
#include "daemon/timeline/sample_work.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"

/* Whether the record is about a thread of its own. */
static bool has_thread(const struct record *r)
{
	return r->kind != RECORD_READY && r->kind != RECORD_ACCEPTED && r->kind != RECORD_NAME &&
	       r->kind != RECORD_OBJECT && r->kind != RECORD_UNSEEN && r->kind != RECORD_FIELD &&
	       r->kind != RECORD_QUOTA && r->kind != RECORD_DEPARTURE &&
	       r->kind != RECORD_KERNEL_NAME && r->kind != RECORD_SCRIPT;
}

static void on_record(struct correlator *c, const struct record *r)
{
	const struct correlate_target *target;

	if (has_thread(r) && !thread_table_takes(c, r)) {
		c->t->n_spans_left_out++;
		return;
	}
	switch (r->kind) {
	case RECORD_PROBE:
	case RECORD_TEXT:
		verbs_on_record(c, r);
		break;
	case RECORD_NAME:
		objects_on_name(c, (const void *)r);
		break;
	case RECORD_OBJECT:
		objects_on_object(c, (const void *)r);
		break;
	case RECORD_SWITCH:
		if (!sheds_has(&c->sheds, KIND_SWITCHES))
			threads_on_switch(c, (const void *)r);
		break;
	case RECORD_WAKE:
		if (!sheds_has(&c->sheds, KIND_SWITCHES))
			threads_on_wake(c, (const void *)r);
		break;
	case RECORD_QUOTA:
		quotas_on_record(c, (const void *)r);
		break;
	case RECORD_MESSAGE:
	case RECORD_FIELD:
	case RECORD_READY:
	case RECORD_ACCEPTED:
	case RECORD_DEPARTURE:
	case RECORD_UNSEEN:
		target = targets_current(&c->targets, r->target);
		if (!sheds_has(&c->sheds, KIND_SOCKETS) && target && !target->has_handlers)
			messages_on_record(c, r);
		break;
	case RECORD_STACK:
		if (!sheds_has(&c->sheds, KIND_STACKS))
			samples_on_stack(c, (const void *)r);
		break;
	case RECORD_KERNEL_NAME:
		samples_on_kernel_name(c, (const void *)r);
		break;
	case RECORD_SCRIPT:
		scripts_on_script(c, (const void *)r);
		break;
	case RECORD_FOREIGN:
		processes_on_foreign(c, (const void *)r);
		break;
	case RECORD_THREAD:
	case RECORD_EXEC:
		processes_on_thread(c, (const void *)r);
		break;
	case RECORD_FORK:
		processes_on_thread(c, (const void *)r);
		switches_begin_thread(c, r->tid);
		break;
	case RECORD_EXIT:
		switches_end_thread(c, r->tid);
		processes_on_thread(c, (const void *)r);
		break;
	}
}

int correlator_new(uint64_t start_ns, struct correlator **ret)
{
	struct correlator *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->start_ns = start_ns;
	c->t = calloc(1, sizeof(*c->t));
	if (c->t)
		c->t->processes = calloc(RECORD_MAX_TARGETS, sizeof(c->t->processes[0]));
	if (!c->t || !c->t->processes) {
		correlator_free(c);
		return -ENOMEM;
	}
	thread_table_init(&c->threads);
	spans_init(c);
	threads_init(c);
	*ret = c;
	return 0;
}

int correlator_add_target(struct correlator *c, const struct correlate_target *target)
{
	struct process *process = &c->t->processes[c->t->n_processes];
	int r = targets_add(&c->targets, target);

	if (r < 0)
		return r;
	process->pid = target->pid;
	process->is_child = target->is_child;
	memcpy(process->name, target->name, sizeof(process->name));
	c->t->ops_at_entry |= target->ops_at_entry;
	c->t->n_processes++;
	return 0;
}

static enum gap_of gap_of(enum probe_kind kind)
{
	return kind == KIND_OPS         ? GAP_OF_OPS
	       : kind == KIND_EXECUTORS ? GAP_OF_EXECUTORS
	       : kind == KIND_RUNS      ? GAP_OF_RUNS
					: GAP_OF_OTHERS;
}

int correlator_shed(struct correlator *c, enum probe_kind kind, uint64_t time, const char *text)
{
	struct timeline *t = c->t;
	int r = sheds_note(&c->sheds, kind, true, time);
	char *copy;

	if (r <= 0)
		return r;
	copy = strdup(text);
	if (!copy || array_reserve(&t->gaps, t->n_gaps, &c->gaps_size, sizeof(t->gaps[0]), 1) < 0) {
		free(copy);
		return -ENOMEM;
	}
	t->gaps[t->n_gaps++] = (struct gap){ .start_ns = time, .text = copy, .of = gap_of(kind) };
	return 0;
}

int correlator_resume(struct correlator *c, enum probe_kind kind, uint64_t time)
{
	int r = gap_of(kind) < GAP_OF_EXECUTORS ? -EINVAL
						: sheds_note(&c->sheds, kind, false, time);

	if (r <= 0)
		return r;
	for (uint32_t i = 0; i < c->t->n_gaps; i++)
		if (c->t->gaps[i].of == gap_of(kind) && !c->t->gaps[i].end_ns)
			c->t->gaps[i].end_ns = time;
	return 0;
}

int correlator_note_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	if (!c->error)
		correlator_fail(c, losses_add(&c->losses, from, to));
	return c->error;
}

/* Ends what was shed until that time. */
static void apply_sheds(struct correlator *c, uint64_t now)
{
	struct shed_change change;

	while (sheds_pending(&c->sheds) && sheds_next(&c->sheds, now, &change)) {
		if (!change.is_shed)
			continue;
		if (change.kind == KIND_SWITCHES)
			threads_end(c, change.at_ns);
		else if (change.kind == KIND_SOCKETS)
			messages_end(c, change.at_ns, false);
		else if (change.kind == KIND_DECRYPTED)
			messages_end(c, change.at_ns, true);
		else if (change.kind != KIND_STACKS)
			verbs_shed(c, change.kind, change.at_ns);
	}
}

struct correlator *correlator_free(struct correlator *c)
{
	if (!c)
		return NULL;
	contexts_done(&c->contexts);
	writers_done(&c->writers);
	hand_overs_done(&c->hand_overs);
	streams_done(&c->streams);
	answers_done(&c->answers);
	models_done(&c->models);
	claims_done(&c->claims);
	attribution_done(&c->attributions);
	hops_done(&c->hops);
	arrivals_done(&c->arrivals);
	requests_done(&c->requests);
	connections_done(&c->connections);
	memory_done(&c->memory);
	objects_done(&c->objects);
	batches_done(&c->batches);
	children_done(&c->children);
	runs_done(&c->runs);
	samples_done(&c->samples);
	scripts_done(&c->scripts);
	threads_done(&c->sched);
	quotas_done(&c->quotas);
	thread_table_done(&c->threads);
	texts_done(&c->texts);
	names_done(&c->names);
	losses_done(&c->losses);
	sheds_done(&c->sheds);
	timeline_free(c->t);
	free(c);
	return NULL;
}

/* Whether a record is of an event at its time; the others describe what exists, also from before
 * the window. */
static bool is_event(const struct record *r)
{
	return r->kind == RECORD_PROBE || r->kind == RECORD_TEXT || r->kind == RECORD_SWITCH ||
	       r->kind == RECORD_WAKE || r->kind == RECORD_MESSAGE || r->kind == RECORD_FIELD ||
	       r->kind == RECORD_READY || r->kind == RECORD_ACCEPTED ||
	       r->kind == RECORD_DEPARTURE || r->kind == RECORD_STACK;
}

int correlator_feed(struct correlator *c, const struct record *record)
{
	if (!c->error && (record->time >= c->start_ns || !is_event(record))) {
		c->now = record->time;
		apply_sheds(c, c->now);
		verbs_note_next(c, record);
		on_record(c, record);
	}
	return c->error;
}

uint64_t correlator_oldest_open(struct correlator *c)
{
	return MIN(requests_oldest_open(&c->requests), streams_oldest_open(c));
}

int correlator_recall(struct correlator *c, const struct record *record)
{
	if (!c->error) {
		c->now = record->time;
		on_record(c, record);
	}
	return c->error;
}

int correlator_finish(struct correlator *c, uint64_t end_ns, uint64_t start_unix_ns,
		      struct timeline **ret)
{
	struct timeline *t = c->t;

	c->end_ns = end_ns;
	t->start_ns = c->start_ns;
	t->end_ns = end_ns;
	t->start_unix_ns = start_unix_ns;
	if (!c->error) {
		apply_sheds(c, end_ns);
		verbs_close(c);
		labels_truncate(c, end_ns);
		threads_end(c, end_ns);
		samples_finish(c);
	}
	if (!c->error)
		messages_close(c);
	if (!c->error)
		ops_name(c);
	if (!c->error)
		op_bounds_apply(c);
	if (!c->error)
		memory_name_ops(c);
	if (!c->error)
		runs_check_links(c);
	if (!c->error)
		children_finish(c);
	for (uint32_t i = 0; i < t->n_threads; i++)
		if (t->threads[i].process == UINT32_MAX)
			t->threads[i].process = 0;
	if (!c->error)
		c->error = batches_finish(c);
	if (!c->error)
		c->error = timeline_finish(t);
	if (!c->error)
		c->error = requests_finish(t, finished_filter(c), &c->losses);
	if (!c->error)
		c->error = lifetime_make(t);
	if (!c->error)
		c->error = timeline_assign_lanes(t);
	if (!c->error)
		c->error = sample_work_find(t);
	if (c->error)
		return c->error;
	t->names = names_take(&c->names, &t->n_names);
	*ret = TAKE_PTR(c->t);
	return 0;
}
