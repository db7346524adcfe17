/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/cpus.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

/* Threads seldom have a CPU for longer at a time if others wait for it. */
#define LONG_NS 1000000
/* In place of a thread's id: some thread that was not seen. */
#define UNSEEN 0xfffffffeu

struct stint {
	uint64_t start_ns, end_ns;
	uint32_t first, last; /* if these differ, other threads ran in between */
};

struct cpu_stints {
	struct stint list[CPU_STINTS]; /* a ring */
	uint32_t n;                    /* total */
	uint64_t since_ns;
	uint32_t tid; /* the thread that has the CPU */
	bool known;
};

/* Twice the time that a thread had, so that it can be halved. */
struct share {
	uint32_t tid;
	uint64_t twice_ns;
};

static int reserve(struct cpus *c, uint16_t cpu)
{
	if (cpu >= c->n) {
		uint32_t n = MAX(MAX(c->n * 2, 8u), cpu + 1u);
		struct cpu_stints **stints = realloc(c->stints, n * sizeof(stints[0]));

		if (!stints)
			return -ENOMEM;
		memset(stints + c->n, 0, (n - c->n) * sizeof(stints[0]));
		c->stints = stints;
		c->n = n;
	}
	if (!c->stints[cpu])
		c->stints[cpu] = calloc(1, sizeof(*c->stints[cpu]));
	return c->stints[cpu] ? 0 : -ENOMEM;
}

static void add(struct cpu_stints *s, uint64_t end, uint32_t first, uint32_t last)
{
	s->list[s->n++ % CPU_STINTS] = (struct stint){ s->since_ns, end, first, last };
	s->since_ns = end;
}

int cpus_switch(struct cpus *c, uint16_t cpu, uint64_t now, uint32_t from, uint32_t to,
		uint64_t had)
{
	struct cpu_stints *s;
	int r = reserve(c, cpu);

	if (r < 0)
		return r;
	s = c->stints[cpu];
	/* Until the first switch that is seen, only who had it in the end is known. */
	if (!s->known) {
		add(s, now, s->tid, from);
	} else if (now > s->since_ns) {
		uint64_t gap = now - s->since_ns;

		/* The two clocks differ a little. An idle CPU's time is not noted. */
		if (from && had < gap - gap / 8) {
			add(s, now - had, s->tid, UNSEEN);
			s->tid = from;
		}
		add(s, now, s->tid, from);
	}
	s->since_ns = now;
	s->tid = to;
	s->known = true;
	return 0;
}

uint64_t cpus_switched_ns(const struct cpus *c, uint16_t cpu)
{
	return cpu < c->n && c->stints[cpu] ? c->stints[cpu]->since_ns : 0;
}

static uint32_t give(struct share *shares, uint32_t n, uint32_t tid, uint64_t ns)
{
	uint32_t i = 0;

	while (i < n && shares[i].tid != tid)
		i++;
	if (i == n)
		shares[n++] = (struct share){ .tid = tid };
	shares[i].twice_ns += ns;
	return n;
}

/* The time of the kept stints in which the thread alone had the CPU. */
static uint64_t certain_ns(const struct cpu_stints *s, uint32_t tid)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < MIN(s->n, (uint32_t)CPU_STINTS); i++)
		if (s->list[i].first == tid && s->list[i].last == tid)
			sum += s->list[i].end_ns - s->list[i].start_ns;
	return sum;
}

/* Who had the CPU for the rest of a stint when a wait began within it, that long ago: the thread
 * that left it, which may have begun the wait. If it was long ago, of the two known threads the one
 * that recently had the CPU for longer. Nothing waits for an idle CPU. If an unseen thread left it,
 * the known one only if it recently had the CPU for as long. */
static uint32_t likely(const struct cpu_stints *s, const struct stint *stint, uint64_t ns)
{
	if (stint->last == UNSEEN)
		return stint->first && certain_ns(s, stint->first) >= ns ? stint->first : UNSEEN;
	return ns > LONG_NS && stint->first && stint->first != stint->last &&
			       certain_ns(s, stint->first) > certain_ns(s, stint->last)
		       ? stint->first
		       : stint->last;
}

uint32_t cpus_longest(const struct cpus *c, uint16_t cpu, uint64_t start, uint64_t end)
{
	const struct cpu_stints *s = cpu < c->n ? c->stints[cpu] : NULL;
	struct share shares[2 * CPU_STINTS];
	uint32_t n = 0, best = 0;

	for (uint32_t i = 0; s && i < MIN(s->n, (uint32_t)CPU_STINTS); i++) {
		const struct stint *stint = &s->list[(s->n - 1 - i) % CPU_STINTS];
		uint64_t from = MAX(stint->start_ns, start), to = MIN(stint->end_ns, end);

		if (stint->end_ns <= start)
			break;
		if (from >= to)
			continue;
		if (stint->start_ns < start) {
			n = give(shares, n, likely(s, stint, to - from), 2 * (to - from));
		} else if (stint->last == UNSEEN) {
			n = give(shares, n, stint->first ?: UNSEEN, 2 * (to - from));
		} else {
			n = give(shares, n, stint->last, to - from);
			n = give(shares, n, stint->first, to - from);
		}
	}
	for (uint32_t i = 1; i < n; i++)
		if (shares[i].twice_ns > shares[best].twice_ns)
			best = i;
	return n && shares[best].tid != UNSEEN ? shares[best].tid : 0;
}

void cpus_done(struct cpus *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		free(c->stints[i]);
	free(c->stints);
	*c = (struct cpus){ 0 };
}
