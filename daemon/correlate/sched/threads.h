/* SPDX-License-Identifier: Apache-2.0 */
/* When threads ran, why they left their CPU, which thread woke them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/sched/cpus.h"
#include "daemon/correlate/spans.h"
#include "include/record_types.h"

struct correlator;

/* Where a thread is. */
struct thread_cpu {
	bool known; /* whether it is on a CPU */
	bool on_cpu;
	uint16_t number;    /* of the CPU */
	uint64_t since_ns;  /* that it has the CPU */
	int32_t waker;      /* index of the thread that woke it for this time, or the next one, on
			       a CPU; -1: unknown */
	int32_t blocked_in; /* the system call that it waits in, -1: unknown */
	int64_t quota;      /* that it last waited for: index into quotas, -1: unknown */
	uint64_t renewals;  /* of the quota on the CPU, when the thread was throttled */
	uint64_t off_span;  /* the open off-CPU span, NO_SPAN: none */
	uint64_t left_ns;   /* when it last left a CPU, 0: never in the window */
};

#define THREAD_CPU_UNKNOWN                                                                         \
	((struct thread_cpu){ .waker = -1, .blocked_in = -1, .quota = -1, .off_span = NO_SPAN })

struct sched {
	struct cpus cpus;
	uint64_t slices_size;
	struct shares slice_shares;
	uint32_t unknown_name, preempted_name, runnable_name;
};

void threads_init(struct correlator *c);
void threads_done(struct sched *s);
/* Since when the thread has its CPU, 0: unknown, or it has none. */
static inline uint64_t threads_on_cpu_ns(const struct thread_cpu *cpu)
{
	return cpu->known && cpu->on_cpu ? cpu->since_ns : 0;
}

/* When the thread last left a CPU of its own will, 0: never in the window. */
static inline uint64_t threads_left_ns(const struct thread_cpu *cpu)
{
	return cpu->left_ns;
}

void threads_on_switch(struct correlator *c, const struct record_switch *record);
/* The thread did something, or was sampled: it has a CPU. If its switch to that CPU was not seen,
 * its time off the CPU ends then, SPAN_END_NOT_SEEN. */
void threads_on_seen(struct correlator *c, uint32_t thread, uint64_t time);
void threads_on_wake(struct correlator *c, const struct record_wake *record);
/* The scheduler's records end at that time: they were shed, or the window closes. */
void threads_end(struct correlator *c, uint64_t time);
