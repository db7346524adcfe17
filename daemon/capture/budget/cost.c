/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/budget/cost.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/loop.h"

/* Records that were lost per record that was seen: their probes were hit, too. */
static double lost_of_seen(const struct drain_counts *counts)
{
	return counts->records ? (double)counts->dropped / (double)counts->records : 0;
}

double cost_of_probes(struct session *s, uint64_t cpu_before)
{
	uint64_t cpu = session_cpu_ns(s), cost = 0;
	struct drain_counts counts;

	session_count(s, &counts);
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		cost += session_cost_ns(s)[kind];
	return cpu > cpu_before ? 100.0 * (double)cost * (1 + lost_of_seen(&counts)) /
					  (double)(cpu - cpu_before)
				: 0;
}

unsigned cost_sampled_kinds(double max_percent, const struct forecast *forecast)
{
	/* Perf events are attached one by one, which takes longer than a slice. */
	return max_percent > 0 && !forecast->perf_events ? SAMPLED_KINDS : 0;
}

static bool is_listed(const struct capture_shed *list, unsigned n, enum probe_kind kind)
{
	for (unsigned i = 0; i < n; i++)
		if (list[i].kind == kind)
			return true;
	return false;
}

unsigned cost_add_refused(const struct session *s, struct budget *budget, uint64_t at_ns,
			  struct capture_shed list[KIND_COUNT], unsigned n)
{
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		if (!(session_refused_kinds(s) & 1u << kind) || is_listed(list, n, kind))
			continue;
		budget->shed[kind] = true;
		list[n++] = (struct capture_shed){ .kind = kind, .refused = true, .at_ns = at_ns };
	}
	return n;
}

static const char *describe(enum probe_kind kind, double overhead, double limit, char *text,
			    size_t size)
{
	snprintf(
		text, size,
		"Not captured from here on: %s. The probes cost %.1f %% of the CPU time; the budget is %.4g %%.",
		probe_kind_name(kind), overhead, limit);
	return text;
}

static int pause_kinds(struct session *s, unsigned kinds, double limit)
{
	char text[160];
	int r = 0;

	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		snprintf(text, sizeof(text),
			 "Not recorded here: %s, which are sampled to keep the budget of %.4g %%.",
			 probe_kind_name(kind), limit);
		r = session_shed(s, kind, text);
	}
	return r;
}

/* What the kinds cost until now; a bit each. */
static double cost_of_kinds(const struct session *s, unsigned kinds)
{
	struct drain_counts counts;
	double cost = 0;

	session_count(s, &counts);
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		if (kinds & 1u << kind)
			cost += (double)session_cost_ns(s)[kind] * (1 + lost_of_seen(&counts));
	return cost;
}

/* Begins or ends a slice, if it is time. */
static void sample(struct session *s, struct budget *budget, uint64_t now)
{
	struct slices *slices = &budget->slices;
	double cost = cost_of_kinds(s, budget->sampled);
	double saved = budget->max_percent / 100 * (double)session_cpu_ns(s) -
		       cost_of_kinds(s, UINT32_MAX);
	int r;

	switch (slices_check(slices, now, cost, saved)) {
	case SLICES_STAY:
		return;
	case SLICES_PAUSE:
		if (pause_kinds(s, budget->sampled, budget->max_percent) >= 0)
			slices_changed(slices, now, cost);
		return;
	case SLICES_RESUME:
		r = session_resume(s, budget->sampled);
		if (r >= 0) {
			slices_changed(slices, loop_now(), cost);
		} else if (r != -EAGAIN) {
			/* Some may be attached. There is no other slice. */
			pause_kinds(s, budget->sampled, budget->max_percent);
			slices->begun = false;
		}
	}
}

unsigned cost_keep_budget(struct session *s, struct budget *budget, uint64_t start, uint64_t now,
			  struct capture_shed *ret, unsigned max)
{
	struct drain_counts counts;
	struct budget_verdict verdict;
	unsigned n = 0;
	char text[160];

	session_count(s, &counts);
	verdict = budget_check(budget, now, session_cpu_ns(s), session_cost_ns(s),
			       lost_of_seen(&counts));
	/* From the last kind to the first, runs: the order in which they are reported. */
	for (enum probe_kind kind = KIND_COUNT; kind-- > 0 && n < max;)
		if (verdict.kinds & 1u << kind &&
		    session_shed(s, kind,
				 describe(kind, verdict.overhead, budget->max_percent, text,
					  sizeof(text))) >= 0)
			ret[n++] = (struct capture_shed){ .kind = kind,
							  .at_ns = now - start,
							  .overhead = verdict.overhead };
	if (verdict.samples && pause_kinds(s, budget->sampled, budget->max_percent) >= 0)
		slices_begin(&budget->slices, now, cost_of_kinds(s, budget->sampled), verdict.rate);
	else if (budget->slices.begun)
		sample(s, budget, now);
	return n;
}
