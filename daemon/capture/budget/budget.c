/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/budget/budget.h"

#include <string.h>

/* Long enough for a stable rate, short enough to react at once. */
#define INTERVAL_NS 20000000ull
/* The CPU time of the targets in it: the kernel's figure can be a tick old. */
#define INTERVAL_CPU_NS 5000000ull
/* If records are read late, the counted hits can belong to a longer time than the measured CPU
 * time. */
#define LONG_INTERVAL_NS 100000000ull
/* Detaching takes at most this long, and until then the probes are still hit. */
#define SETTLE_NS 100000000ull
/* While some kinds are sampled, the others leave a part of the budget to them. */
#define OTHERS_SHARE 0.75

static void remember(struct budget *b, uint64_t now, uint64_t cpu_ns,
		     const uint64_t cost_ns[KIND_COUNT])
{
	b->begun = true;
	b->at_ns = now;
	b->cpu_ns = cpu_ns;
	memcpy(b->cost_ns, cost_ns, sizeof(b->cost_ns));
}

/*
 * The most expensive kind that is still attached; runs only if nothing else is. A kind that costs
 * nothing at the moment, but did in this window, is shed before runs. KIND_COUNT: none.
 */
static enum probe_kind most_expensive(const struct budget *b, const double cost[KIND_COUNT])
{
	enum probe_kind found = KIND_COUNT;

	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++)
		if (kind != KIND_RUNS && !b->shed[kind] && b->cost_ns[kind] &&
		    (found == KIND_COUNT || cost[kind] > cost[found]))
			found = kind;
	return found == KIND_COUNT && !b->shed[KIND_RUNS] ? KIND_RUNS : found;
}

struct budget_verdict budget_check(struct budget *b, uint64_t now, uint64_t cpu_ns,
				   const uint64_t cost_ns[KIND_COUNT], double lost)
{
	struct budget_verdict verdict = {};
	double cost[KIND_COUNT], all = 0, limit, interval;

	if (!b->begun || now < b->ignore_until_ns) {
		remember(b, now, cpu_ns, cost_ns);
		return verdict;
	}
	if (now - b->at_ns < INTERVAL_NS || cpu_ns < b->cpu_ns + INTERVAL_CPU_NS)
		return verdict;
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		cost[kind] = (double)(cost_ns[kind] - b->cost_ns[kind]) * (1 + lost);
		/* What slices cost is limited by their number. */
		if (!(b->sampled & 1u << kind))
			all += cost[kind];
	}
	/* The cost cannot exceed the CPU time: the next reading is more accurate. */
	if (all > (double)(cpu_ns - b->cpu_ns) && now - b->at_ns < LONG_INTERVAL_NS)
		return verdict;
	/* Probes cannot use all of the time: a limit of 100 means no limit, whatever the
	 * estimate. */
	limit = b->max_percent >= 100 ? all : b->max_percent / 100 * (double)(cpu_ns - b->cpu_ns);
	if (b->sampled)
		limit *= OTHERS_SHARE;
	verdict.overhead = 100 * all / (double)(cpu_ns - b->cpu_ns);
	interval = (double)(now - b->at_ns);
	remember(b, now, cpu_ns, cost_ns);
	while (all > limit) {
		enum probe_kind kind = most_expensive(b, cost);

		if (kind == KIND_COUNT)
			break;
		if (b->may_sample & 1u << kind) {
			verdict.samples |= 1u << kind;
			verdict.rate += cost[kind] / interval;
		} else {
			verdict.kinds |= 1u << kind;
		}
		b->shed[kind] = true;
		all -= cost[kind];
	}
	b->sampled |= verdict.samples;
	if (verdict.kinds || verdict.samples)
		b->ignore_until_ns = now + SETTLE_NS;
	return verdict;
}
