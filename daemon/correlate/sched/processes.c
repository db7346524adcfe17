/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/processes.h"

#include <string.h>

#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/verbs.h"
#include "daemon/correlate/targets.h"

static void set_name(struct thread *t, const struct record_thread *r)
{
	memcpy(t->name, r->comm, sizeof(r->comm));
	t->name[sizeof(r->comm) - 1] = 0;
}

/* A process has ended, or become another program. */
static void end_process(struct correlator *c, unsigned target, const struct record_thread *r)
{
	if (c->t->processes[target].ended && r->head.kind == RECORD_EXIT)
		return;
	c->t->processes[target].ended = true;
	memory_end_process(c, target, r->head.time);
	streams_end_process(c, target, r->head.time);
	if (r->head.kind == RECORD_EXEC) {
		verbs_end_process(c, target, r->head.time);
		targets_replace(&c->targets, target);
	}
}

/* The last thread may be any. */
static bool ends_process(const struct record_thread *r)
{
	if (r->head.kind != RECORD_EXIT)
		return r->head.kind == RECORD_EXEC;
	return r->exit == EXIT_UNKNOWN ? r->head.tid == r->pid : r->exit == EXIT_LAST;
}

void processes_on_thread(struct correlator *c, const struct record_thread *r)
{
	const struct correlate_target *target;
	uint32_t thread;

	for (unsigned i = 0; (target = targets_get(&c->targets, i)); i++) {
		bool current = targets_current(&c->targets, i);

		if (target->pid != r->pid ||
		    (r->head.kind == RECORD_EXEC && r->head.time < target->since_ns))
			continue;
		thread = thread_table_get(c, r->head.tid);
		if (c->error)
			return;
		/* Threads that no other target claims are still of that process. */
		if (!current && c->t->threads[thread].process != UINT32_MAX)
			continue;
		c->t->threads[thread].process = i;
		set_name(&c->t->threads[thread], r);
		if (r->head.kind == RECORD_EXIT) {
			verbs_end_thread(c, thread, r->head.time);
			thread_table_ended(c, thread);
		}
		if (current && ends_process(r))
			end_process(c, i, r);
	}
}

void processes_on_foreign(struct correlator *c, const struct record_thread *r)
{
	uint32_t thread = thread_table_get(c, r->head.tid);
	struct thread *t;

	if (c->error)
		return;
	t = &c->t->threads[thread];
	if (t->process != UINT32_MAX)
		return;
	t->foreign = true;
	set_name(t, r);
}
