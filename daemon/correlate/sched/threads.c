/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/threads.h"

#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/sched/quotas.h"
#include "lib/base/macro.h"
#include "lib/proc/syscall_name.h"

/* task_struct.__state: an uninterruptible sleep, which disks and page faults are. */
#define TASK_UNINTERRUPTIBLE 2
#define THROTTLED_NAME "throttled"
/* 32 bytes each. */
#define SLICES_MAX (8u << 20)

void threads_init(struct correlator *c)
{
	c->sched.unknown_name = correlator_name(c, "unknown");
	c->sched.preempted_name = correlator_name(c, "preempted");
	c->sched.runnable_name = correlator_name(c, "runqueue");
}

void threads_done(struct sched *s)
{
	cpus_done(&s->cpus);
}

static void add_slice(struct correlator *c, uint32_t thread, uint64_t end, uint32_t reason)
{
	const struct thread_cpu *s = &thread_state(c, thread)->cpu;
	struct cpu_slice *slices;

	if (!shares_take(&c->sched.slice_shares, c, thread, SLICES_MAX)) {
		c->t->n_spans_left_out++;
		return;
	}
	slices = correlator_grow(c, c->t->slices, &c->sched.slices_size, c->t->n_slices,
				 sizeof(slices[0]));
	if (!slices)
		return;
	c->t->slices = slices;
	slices[c->t->n_slices++] = (struct cpu_slice){ .start_ns = s->since_ns,
						       .end_ns = end,
						       .thread = thread,
						       .cpu = s->number,
						       .reason = reason,
						       .waker = s->waker };
}

static void end_off_span(struct correlator *c, struct thread_cpu *s, uint64_t time)
{
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].end_ns = time;
	s->off_span = NO_SPAN;
}

static void off_span_begin(struct correlator *c, uint32_t thread, enum span_kind kind,
			   uint64_t time, uint32_t name)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;
	uint64_t index = spans_add(c, thread, kind, time);

	if (index == NO_SPAN)
		return;
	c->t->spans[index].name = name;
	s->off_span = index;
}

/* If the thread was throttled, and its quota has been renewed since: from then on it waited for a
 * CPU. */
static void wait_after_quota(struct correlator *c, uint32_t thread, uint64_t now)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;
	uint64_t renewed_ns;

	if (s->off_span == NO_SPAN || c->t->spans[s->off_span].kind != SPAN_THROTTLED ||
	    s->quota < 0)
		return;
	renewed_ns = quotas_renewed_ns(c, s->quota, s->number, s->renewals);
	if (!renewed_ns || renewed_ns >= now)
		return;
	end_off_span(c, s, renewed_ns);
	off_span_begin(c, thread, SPAN_RUNNABLE, renewed_ns, c->sched.runnable_name);
}

void threads_end(struct correlator *c, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct thread_cpu *s = &thread_state(c, i)->cpu;

		wait_after_quota(c, i, time);
		if (s->off_span != NO_SPAN)
			c->t->spans[s->off_span].flags |= SPAN_TRUNCATED_END;
		end_off_span(c, s, time);
		if (s->known && s->on_cpu)
			add_slice(c, i, time, c->sched.unknown_name);
		s->on_cpu = false;
	}
}

/* The first record of a thread shows where it was before. */
static void thread_was(struct correlator *c, uint32_t thread, bool on_cpu, uint16_t cpu,
		       uint64_t since)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;

	if (s->known)
		return;
	s->known = true;
	s->on_cpu = on_cpu;
	s->number = cpu;
	s->since_ns = since;
	if (on_cpu)
		return;
	off_span_begin(c, thread, SPAN_BLOCKED, since, c->sched.unknown_name);
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].flags |= SPAN_TRUNCATED_START;
}

/* Which CPU the thread has, and that it did not have it before that time. */
static void has_since(struct thread_cpu *s, uint16_t cpu, uint64_t switched)
{
	s->number = cpu;
	s->since_ns = MAX(s->since_ns, switched);
}

static uint32_t reason_of(struct correlator *c, const struct record_switch *r)
{
	const char *call = syscall_name(r->syscall);

	if (r->flags & SWITCH_THROTTLED)
		return correlator_name(c, THROTTLED_NAME);
	if (r->flags & SWITCH_PREEMPTED)
		return c->sched.preempted_name;
	if (call)
		return correlator_name(c, call);
	return correlator_name(c, r->syscall < 0 && r->state & TASK_UNINTERRUPTIBLE ? "page_fault"
										    : "sleep");
}

/* All threads that the client may not see are one. */
static void be_other_user(struct thread *t)
{
	t->tid = 0;
	t->foreign = true;
	memcpy(t->name, TIMELINE_OTHER_USER, sizeof(TIMELINE_OTHER_USER));
}

/* That thread had the CPU that this one waits for, or waited for. */
static void had_cpu(struct correlator *c, uint32_t thread, uint32_t tid)
{
	uint64_t span = thread_state(c, thread)->cpu.off_span;
	uint32_t other;

	if (span == NO_SPAN || c->t->spans[span].kind != SPAN_RUNNABLE || !tid)
		return;
	if (!thread_table_has_room(c, tid))
		return;
	other = thread_table_get(c, tid);
	if (c->error)
		return;
	if (tid == RECORD_TID_OTHER_USER)
		be_other_user(&c->t->threads[other]);
	c->t->spans[span].cpu_user = other;
}

/* The thread got a CPU: finds the thread that had it meanwhile. */
static void had_cpu_longest(struct correlator *c, uint32_t thread, uint16_t cpu, uint64_t now)
{
	uint64_t span = thread_state(c, thread)->cpu.off_span;

	if (span != NO_SPAN)
		had_cpu(c, thread,
			cpus_longest(&c->sched.cpus, cpu, c->t->spans[span].start_ns, now));
}

/* The thread waits until its cgroup may use the CPU again. */
static void throttled_begin(struct correlator *c, uint32_t thread, uint64_t time)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;

	off_span_begin(c, thread, SPAN_THROTTLED, time, correlator_name(c, THROTTLED_NAME));
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].quota = s->quota;
	s->renewals = s->quota < 0 ? 0 : quotas_renewals(c, s->quota, s->number);
}

/* The thread gets a CPU. */
static void off_end(struct correlator *c, uint32_t thread, const struct record_switch *r)
{
	uint64_t now = r->head.time;
	struct thread_cpu *s;

	wait_after_quota(c, thread, now);
	had_cpu_longest(c, thread, r->cpu, now);
	/* Threads may have been added. */
	s = &thread_state(c, thread)->cpu;
	/* It is the first one that runs again. */
	if (s->off_span != NO_SPAN && c->t->spans[s->off_span].kind == SPAN_THROTTLED &&
	    s->quota >= 0 && r->cpu == s->number)
		quotas_renew(c, s->quota, r->cpu, now);
	end_off_span(c, s, now);
}

void threads_on_seen(struct correlator *c, uint32_t thread, uint64_t time)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;

	/* A record may come late: it is of before. */
	if (s->on_cpu || s->off_span == NO_SPAN || time < c->t->spans[s->off_span].start_ns)
		return;
	wait_after_quota(c, thread, time);
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].flags |= SPAN_END_NOT_SEEN;
	end_off_span(c, s, time);
	s->on_cpu = true;
	s->since_ns = time;
}

/* The thread has left its CPU. */
static void off_begin(struct correlator *c, uint32_t thread, const struct record_switch *r,
		      uint32_t reason)
{
	struct thread_cpu *s = &thread_state(c, thread)->cpu;
	uint64_t now = r->head.time;

	if (r->flags & SWITCH_THROTTLED) {
		s->quota = quotas_get(c, r->cgroup);
		throttled_begin(c, thread, now);
	} else if (r->flags & SWITCH_PREEMPTED) {
		off_span_begin(c, thread, SPAN_RUNNABLE, now, reason);
		had_cpu(c, thread, r->next_tid);
	} else {
		/* A preempted thread had not finished its work. */
		s->left_ns = now;
		off_span_begin(c, thread, SPAN_BLOCKED, now, reason);
	}
}

void threads_on_switch(struct correlator *c, const struct record_switch *r)
{
	uint64_t now = r->head.time;
	/* Until then the CPU was another thread's, even if its switch to this one was not seen. */
	uint64_t switched = MAX(c->start_ns, cpus_switched_ns(&c->sched.cpus, r->cpu));
	uint32_t thread;
	int k = cpus_switch(&c->sched.cpus, r->cpu, now, r->head.tid, r->next_tid,
			    r->flags & SWITCH_OUT ? CPU_HAD_UNKNOWN : r->had_ns);

	if (k < 0) {
		c->error = k;
		return;
	}
	if (r->flags & SWITCH_OUT) {
		uint32_t reason = reason_of(c, r);

		thread = thread_table_get(c, r->head.tid);
		if (c->error)
			return;
		thread_was(c, thread, true, r->cpu, switched);
		has_since(&thread_state(c, thread)->cpu, r->cpu, switched);
		if (thread_state(c, thread)->cpu.on_cpu)
			add_slice(c, thread, now, reason);
		else
			threads_on_seen(c, thread, now);
		thread_state(c, thread)->cpu.on_cpu = false;
		thread_state(c, thread)->cpu.waker = -1;
		thread_state(c, thread)->cpu.blocked_in = r->syscall;
		off_begin(c, thread, r, reason);
	}
	if (r->flags & SWITCH_IN) {
		thread = thread_table_get(c, r->next_tid);
		if (c->error)
			return;
		thread_was(c, thread, false, r->cpu, c->start_ns);
		off_end(c, thread, r);
		thread_state(c, thread)->cpu.on_cpu = true;
		thread_state(c, thread)->cpu.number = r->cpu;
		thread_state(c, thread)->cpu.since_ns = now;
	}
}

void threads_on_wake(struct correlator *c, const struct record_wake *r)
{
	uint32_t thread = thread_table_get(c, r->head.tid);
	int32_t waker = -1;
	struct thread_cpu *s;
	uint32_t found;

	if (c->error)
		return;
	found = r->waker_tid ? thread_table_find(c, r->waker_tid) : THREAD_NONE;
	if (found != THREAD_NONE &&
	    syscall_wakes(r->waker_syscall, thread_state(c, thread)->cpu.blocked_in)) {
		waker = (int32_t)found;
		nesting_woke(thread_state(c, found), r->head.time);
	}
	attribution_on_wake(c, thread, waker < 0 ? THREAD_NONE : (uint32_t)waker, r->head.time);
	thread_was(c, thread, false, 0, c->start_ns);
	s = &thread_state(c, thread)->cpu;
	if (s->on_cpu || s->off_span == NO_SPAN || c->t->spans[s->off_span].kind != SPAN_BLOCKED)
		return;
	s->waker = waker;
	c->t->spans[s->off_span].waker = waker;
	end_off_span(c, s, r->head.time);
	if (r->head.site & WAKE_THROTTLED)
		throttled_begin(c, thread, r->head.time);
	else
		off_span_begin(c, thread, SPAN_RUNNABLE, r->head.time, c->sched.runnable_name);
}
