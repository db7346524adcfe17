/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/verbs.h"
#include "daemon/correlate/sched/threads.h"
#include "lib/proc/syscall_name.h"

/* task_struct.__state: an uninterruptible sleep, which disks and page faults are. */
#define TASK_UNINTERRUPTIBLE 2

void threads_add_slice(struct correlator *c, uint32_t thread, uint64_t end, uint32_t reason)
{
	struct cpu_slice *slices = correlator_grow(c, c->t->slices, &c->slices_size, c->t->n_slices,
						   sizeof(slices[0]));
	const struct thread_state *s = &c->states[thread];

	if (!slices)
		return;
	c->t->slices = slices;
	slices[c->t->n_slices++] = (struct cpu_slice){ .start_ns = s->cpu_since,
						       .end_ns = end,
						       .thread = thread,
						       .cpu = s->cpu,
						       .reason = reason,
						       .waker = s->waker };
}

void threads_end_off_span(struct correlator *c, struct thread_state *s, uint64_t time)
{
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].end_ns = time;
	s->off_span = NO_SPAN;
}

void threads_shed(struct correlator *c, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct thread_state *s = &c->states[i];

		if (s->off_span != NO_SPAN)
			c->t->spans[s->off_span].flags |= SPAN_CUT_END;
		threads_end_off_span(c, s, time);
		if (s->seen_running && s->on_cpu)
			threads_add_slice(c, i, time, c->unknown_name);
		s->on_cpu = false;
	}
}

static void off_span_begin(struct correlator *c, uint32_t thread, enum span_kind kind,
			   uint64_t time, uint32_t name)
{
	struct thread_state *s = &c->states[thread];
	uint64_t index = correlator_add_span(c, thread, kind, time);

	if (index == NO_SPAN)
		return;
	c->t->spans[index].name = name;
	s->off_span = index;
}

/* The first that is seen of a thread says where it was since the window opened. */
static void thread_was(struct correlator *c, uint32_t thread, bool on_cpu, uint16_t cpu)
{
	struct thread_state *s = &c->states[thread];

	if (s->seen_running)
		return;
	s->seen_running = true;
	s->on_cpu = on_cpu;
	s->cpu = cpu;
	s->cpu_since = c->start_ns;
	if (on_cpu)
		return;
	off_span_begin(c, thread, SPAN_BLOCKED, c->start_ns, c->unknown_name);
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].flags |= SPAN_CUT_START;
}

static uint32_t reason_of(struct correlator *c, const struct record_switch *r)
{
	const char *call = syscall_name(r->syscall);

	if (r->flags & SWITCH_PREEMPTED)
		return c->preempted_name;
	if (call)
		return correlator_name(c, call);
	return correlator_name(c, r->syscall < 0 && r->state & TASK_UNINTERRUPTIBLE ? "page_fault"
										    : "sleep");
}

/* Who had the CPU that the thread waits for, or waited for. */
static void had_cpu(struct correlator *c, uint32_t thread, uint32_t tid)
{
	uint64_t span = c->states[thread].off_span;
	uint32_t other;

	if (span == NO_SPAN || c->t->spans[span].kind != SPAN_RUNNABLE || !tid)
		return;
	other = correlator_thread(c, tid);
	if (!c->error)
		c->t->spans[span].id = other;
}

/* It has come to a CPU: who had that one while the thread waited? */
static void had_cpu_longest(struct correlator *c, uint32_t thread, uint16_t cpu, uint64_t now)
{
	uint64_t span = c->states[thread].off_span;

	if (span != NO_SPAN)
		had_cpu(c, thread, cpus_longest(&c->cpus, cpu, c->t->spans[span].start_ns, now));
}

void threads_on_switch(struct correlator *c, const struct record_switch *r)
{
	uint64_t now = r->head.time;
	uint32_t thread;
	int k = cpus_switch(&c->cpus, r->cpu, now, r->head.tid, r->next_tid);

	if (k < 0) {
		c->error = k;
		return;
	}
	if (r->flags & SWITCH_OUT) {
		uint32_t reason = reason_of(c, r);
		bool preempted = r->flags & SWITCH_PREEMPTED;

		thread = correlator_thread(c, r->head.tid);
		if (c->error)
			return;
		thread_was(c, thread, true, r->cpu);
		if (c->states[thread].on_cpu)
			threads_add_slice(c, thread, now, reason);
		threads_end_off_span(c, &c->states[thread], now);
		c->states[thread].on_cpu = false;
		/* Who was preempted was not done. */
		if (!preempted)
			c->states[thread].left_ns = now;
		c->states[thread].waker = -1;
		c->states[thread].blocked_in = r->syscall;
		off_span_begin(c, thread, preempted ? SPAN_RUNNABLE : SPAN_BLOCKED, now,
			       preempted ? c->preempted_name : reason);
		if (preempted)
			had_cpu(c, thread, r->next_tid);
	}
	if (r->flags & SWITCH_IN) {
		thread = correlator_thread(c, r->next_tid);
		if (c->error)
			return;
		thread_was(c, thread, false, r->cpu);
		had_cpu_longest(c, thread, r->cpu, now);
		threads_end_off_span(c, &c->states[thread], now);
		c->states[thread].on_cpu = true;
		c->states[thread].cpu = r->cpu;
		c->states[thread].cpu_since = now;
	}
}

void threads_on_wake(struct correlator *c, const struct record_wake *r)
{
	uint32_t thread = correlator_thread(c, r->head.tid);
	int32_t waker = -1;
	struct thread_state *s;
	uint64_t *found;

	if (c->error)
		return;
	found = r->waker_tid ? map_get(&c->thread_of_tid, r->waker_tid) : NULL;
	if (found && syscall_wakes(r->waker_syscall, c->states[thread].blocked_in)) {
		struct frame *f = frames_top(&c->states[*found].frames);

		waker = (int32_t)*found;
		/* The callback that ends a run is little else than waking its caller, and a launch
		 * that does nothing itself hands its work on. */
		if (f && (f->row->last || (f->row->async && !f->next_ns)))
			f->last_ns = r->head.time;
	}
	attribution_on_wake(c, thread, waker < 0 ? THREAD_NONE : (uint32_t)waker, r->head.time);
	thread_was(c, thread, false, 0);
	s = &c->states[thread];
	if (s->on_cpu || s->off_span == NO_SPAN || c->t->spans[s->off_span].kind != SPAN_BLOCKED)
		return;
	s->waker = waker;
	c->t->spans[s->off_span].id = waker;
	threads_end_off_span(c, s, r->head.time);
	off_span_begin(c, thread, SPAN_RUNNABLE, r->head.time, c->runnable_name);
}

void threads_on_thread(struct correlator *c, const struct record_thread *r)
{
	uint32_t thread;

	for (unsigned i = 0; i < c->n_targets; i++) {
		if (c->targets[i].pid != r->pid ||
		    (r->head.kind == RECORD_EXEC && r->head.time < c->targets[i].since_ns))
			continue;
		thread = correlator_thread(c, r->head.tid);
		if (c->error)
			return;
		/* Threads that nobody else claims are still of that process. */
		if (c->gone[i] && c->t->threads[thread].process != UINT32_MAX)
			continue;
		c->t->threads[thread].process = i;
		memcpy(c->t->threads[thread].name, r->comm, sizeof(r->comm));
		c->t->threads[thread].name[sizeof(r->comm) - 1] = 0;
		if (c->gone[i])
			continue;
		/* The thread group's first thread goes last. */
		if ((r->head.kind == RECORD_EXIT && r->head.tid == r->pid) ||
		    r->head.kind == RECORD_EXEC) {
			c->t->processes[i].ended = true;
			memory_end_process(c, i, r->head.time);
		}
		if (r->head.kind == RECORD_EXEC) {
			verbs_end_process(c, i, r->head.time);
			c->gone[i] = true;
		}
	}
}

void threads_on_foreign(struct correlator *c, const struct record_thread *r)
{
	uint32_t thread = correlator_thread(c, r->head.tid);
	struct thread *t;

	if (c->error)
		return;
	t = &c->t->threads[thread];
	if (t->process != UINT32_MAX)
		return;
	t->foreign = true;
	memcpy(t->name, r->comm, sizeof(r->comm));
	t->name[sizeof(r->comm) - 1] = 0;
}
