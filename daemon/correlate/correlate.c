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
#include "daemon/correlate/runtime/ops.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/verbs.h"
#include "daemon/correlate/sched/threads.h"
#include "daemon/timeline/lifetime.h"
#include "lib/base/macro.h"

static void on_record(struct correlator *c, const struct record *r)
{
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
		if (!c->shed[KIND_SWITCHES])
			threads_on_switch(c, (const void *)r);
		break;
	case RECORD_WAKE:
		if (!c->shed[KIND_SWITCHES])
			threads_on_wake(c, (const void *)r);
		break;
	case RECORD_MESSAGE:
	case RECORD_FIELD:
	case RECORD_READY:
	case RECORD_UNSEEN:
		if (!c->shed[KIND_SOCKETS] && r->target < c->n_targets && !c->gone[r->target] &&
		    !c->targets[r->target].has_handlers)
			messages_on_record(c, r);
		break;
	case RECORD_FOREIGN:
		threads_on_foreign(c, (const void *)r);
		break;
	case RECORD_THREAD:
	case RECORD_EXIT:
	case RECORD_EXEC:
	case RECORD_FORK:
		threads_on_thread(c, (const void *)r);
		break;
	}
}
static void close_window(struct correlator *c)
{
	uint64_t end = c->end_ns;

	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct thread_state *s = &c->states[i];
		uint32_t process = c->t->threads[i].process;

		c->ops_at_entry = process < c->n_targets && c->targets[process].ops_at_entry;
		verbs_close(c, s);
		labels_cut(c, s, end);
		if (s->off_span != NO_SPAN)
			c->t->spans[s->off_span].flags |= SPAN_CUT_END;
		threads_end_off_span(c, s, end);
		if (s->seen_running && s->on_cpu)
			threads_add_slice(c, i, end, c->unknown_name);
	}
}

int correlator_new(uint64_t start_ns, struct correlator **ret)
{
	struct correlator *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->start_ns = start_ns;
	c->next_context = 1;
	c->waiting_tail = &c->waiting;
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		c->shed_ns[kind] = UINT64_MAX;
	c->t = calloc(1, sizeof(*c->t));
	if (c->t)
		c->t->processes = calloc(RECORD_MAX_TARGETS, sizeof(c->t->processes[0]));
	if (!c->t || !c->t->processes || requests_new(&c->requests) < 0) {
		correlator_free(c);
		return -ENOMEM;
	}
	c->unknown_name = correlator_name(c, "unknown");
	c->preempted_name = correlator_name(c, "preempted");
	c->runnable_name = correlator_name(c, "runqueue");
	*ret = c;
	return 0;
}

int correlator_add_target(struct correlator *c, const struct correlate_target *target)
{
	struct process *process = &c->t->processes[c->n_targets];

	if (c->n_targets == RECORD_MAX_TARGETS)
		return -E2BIG;
	process->pid = target->pid;
	memcpy(process->name, target->name, sizeof(process->name));
	c->targets[c->n_targets++] = *target;
	c->t->ops_at_entry |= target->ops_at_entry;
	c->t->n_processes = c->n_targets;
	return 0;
}

int correlator_shed(struct correlator *c, enum probe_kind kind, uint64_t time, const char *text)
{
	struct gap *gap = &c->t->gaps[c->t->n_gaps];

	if (c->shed_ns[kind] != UINT64_MAX || c->t->n_gaps == TIMELINE_GAPS_MAX)
		return 0;
	gap->text = strdup(text);
	if (!gap->text)
		return -ENOMEM;
	gap->start_ns = time;
	c->t->n_gaps++;
	c->shed_ns[kind] = time;
	return 0;
}

int correlator_note_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	if (!c->error)
		correlator_fail(c, losses_add(&c->losses, from, to));
	return c->error;
}

void correlator_set_filter(struct correlator *c, const struct request_filter *filter)
{
	c->filter = *filter;
}

void correlator_on_finished(struct correlator *c, correlator_finished_fn fn, void *data)
{
	c->on_finished = fn;
	c->on_finished_data = data;
}

uint64_t correlator_n_finished(const struct correlator *c)
{
	return c->n_finished;
}

/* What was shed until that time ends. */
static void apply_sheds(struct correlator *c, uint64_t now)
{
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		if (c->shed[kind] || c->shed_ns[kind] > now)
			continue;
		c->shed[kind] = true;
		if (kind == KIND_SWITCHES)
			threads_shed(c, c->shed_ns[kind]);
		else if (kind == KIND_SOCKETS)
			messages_end(c, c->shed_ns[kind]);
		else
			verbs_shed(c, kind, c->shed_ns[kind]);
	}
}

struct correlator *correlator_free(struct correlator *c)
{
	if (!c)
		return NULL;
	for (uint32_t i = 0; c->t && i < c->t->n_threads; i++)
		frames_done(&c->states[i].frames);
	for (struct waiting_object *w = c->waiting, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	free(c->states);
	cpus_done(&c->cpus);
	losses_done(&c->losses);
	if (c->requests)
		streams_done(&c->requests->streams);
	requests_free(c->requests);
	map_done(&c->thread_of_tid);
	map_done(&c->run_of_call);
	map_done(&c->run_of_step);
	map_done(&c->text_of_hash);
	map_done(&c->blocks);
	batches_done(&c->batches);
	names_done(&c->names);
	timeline_free(c->t);
	free(c);
	return NULL;
}

/* What happened at its time; the others tell what there is, from before the window, too. */
static bool is_event(const struct record *r)
{
	return r->kind == RECORD_PROBE || r->kind == RECORD_TEXT || r->kind == RECORD_SWITCH ||
	       r->kind == RECORD_WAKE || r->kind == RECORD_MESSAGE || r->kind == RECORD_FIELD ||
	       r->kind == RECORD_READY;
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
		close_window(c);
	}
	if (!c->error)
		messages_close(c);
	if (!c->error)
		ops_name(c);
	if (!c->error)
		memory_name_ops(c);
	if (!c->error)
		runs_check_links(c);
	for (uint32_t i = 0; i < t->n_threads; i++)
		if (t->threads[i].process == UINT32_MAX)
			t->threads[i].process = 0;
	if (!c->error)
		c->error = batches_finish(c);
	if (!c->error)
		c->error = timeline_finish(t);
	if (!c->error)
		c->error = requests_finish(t, &c->filter, &c->losses);
	if (!c->error)
		c->error = lifetime_make(t);
	if (!c->error)
		c->error = timeline_assign_lanes(t);
	if (c->error)
		return c->error;
	for (uint32_t i = 0; i < t->n_threads; i++)
		frames_done(&c->states[i].frames);
	/* The names go over to the timeline; the rest of their table is only for finding them. */
	t->names = TAKE_PTR(c->names.names);
	t->n_names = c->names.n;
	c->names.n = 0;
	*ret = TAKE_PTR(c->t);
	return 0;
}
