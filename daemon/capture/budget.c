#include "daemon/capture/budget.h"

#include <string.h>

/* Long enough for a rate, short enough to be at once. */
#define INTERVAL_NS 40000000ull
/* Taking probes away takes so long at the most, and until then they are hit. */
#define SETTLE_NS 100000000ull

static void remember(struct budget *b, uint64_t now, uint64_t cpu_ns, const uint64_t cost_ns[KIND_COUNT])
{
	b->begun = true;
	b->at_ns = now;
	b->cpu_ns = cpu_ns;
	memcpy(b->cost_ns, cost_ns, sizeof(b->cost_ns));
}

struct budget_verdict budget_check(struct budget *b, uint64_t now, uint64_t cpu_ns, const uint64_t cost_ns[KIND_COUNT], double lost)
{
	struct budget_verdict verdict = {};
	double cost[KIND_COUNT], all = 0, cpu;
	bool found = false;

	if (!b->begun || now < b->ignore_until_ns) {
		remember(b, now, cpu_ns, cost_ns);
		return verdict;
	}
	if (now - b->at_ns < INTERVAL_NS || cpu_ns <= b->cpu_ns)
		return verdict;
	cpu = (double)(cpu_ns - b->cpu_ns);
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		cost[kind] = (double)(cost_ns[kind] - b->cost_ns[kind]) * (1 + lost);
		all += cost[kind];
		if (b->shed[kind] || cost[kind] <= 0 || kind == KIND_RUNS)
			continue;
		if (!found || cost[kind] > cost[verdict.kind])
			verdict.kind = kind;
		found = true;
	}
	if (!found)
		verdict.kind = KIND_RUNS;
	verdict.overhead = 100 * all / cpu;
	verdict.exceeded = verdict.overhead > b->max_percent && !b->shed[verdict.kind];
	remember(b, now, cpu_ns, cost_ns);
	if (verdict.exceeded) {
		b->shed[verdict.kind] = true;
		b->ignore_until_ns = now + SETTLE_NS;
	}
	return verdict;
}
