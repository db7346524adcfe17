/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/op_bounds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"

/* latest_ns: when it, and all of its target that began before it, had ended. */
struct active_run {
	uint64_t start_ns, latest_ns;
	uint32_t target;
};

struct bounds {
	struct active_run *runs; /* by target, then start */
	uint64_t n;
	/* By target: its operations have no end mark; one of them is of a run that is not seen. */
	bool lacks_ends[RECORD_MAX_TARGETS], has_unseen[RECORD_MAX_TARGETS];
};

static bool is_before(const struct active_run *x, const struct active_run *y)
{
	return x->target != y->target ? x->target < y->target : x->start_ns < y->start_ns;
}

static int by_start(const void *a, const void *b)
{
	return is_before(b, a) - is_before(a, b);
}

/* Whether there are targets whose operations all lack end marks. */
static bool find_targets(const struct correlator *c, struct bounds *b)
{
	const struct correlate_target *target;
	bool found = false;

	for (unsigned i = 0; (target = targets_get(&c->targets, i)); i++) {
		b->lacks_ends[i] = target->packs && target->packs->n_named == 1 &&
				   target->packs->named[0]->ops_end_at_next &&
				   !target->packs->named[0]->ops_outside_runs;
		found |= b->lacks_ends[i];
	}
	return found;
}

/* Whether it is a target whose operations lack end marks. */
static bool is_bound(const struct bounds *b, uint32_t process)
{
	return process < RECORD_MAX_TARGETS && b->lacks_ends[process];
}

static int find_runs(const struct correlator *c, struct bounds *b)
{
	uint64_t n = 0;

	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN)
		n++;
	if (!n)
		return 0;
	b->runs = calloc(n, sizeof(b->runs[0]));
	if (!b->runs)
		return -ENOMEM;
	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN) {
		const struct span *s = &c->t->spans[i];
		uint32_t process = c->t->threads[s->thread].process;

		if (!(s->flags & SPAN_MARK) && is_bound(b, process))
			b->runs[b->n++] = (struct active_run){ s->start_ns, s->end_ns, process };
	}
	qsort(b->runs, b->n, sizeof(b->runs[0]), by_start);
	for (uint64_t i = 1; i < b->n; i++)
		if (b->runs[i].target == b->runs[i - 1].target)
			b->runs[i].latest_ns = MAX(b->runs[i].latest_ns, b->runs[i - 1].latest_ns);
	return 0;
}

/* When all runs of the target that were active at that time had ended; 0: none was. */
static uint64_t end_of_active(const struct bounds *b, uint32_t target, uint64_t time)
{
	const struct active_run at = { .start_ns = time, .target = target };
	size_t n = SEARCH_FIRST(b->n, i, !is_before(&at, &b->runs[i]));
	const struct active_run *last = n ? &b->runs[n - 1] : NULL;

	return last && last->target == target && last->latest_ns > time ? last->latest_ns : 0;
}

/* When the runs that were active when an operation began had ended; 0: that is unknown, or nothing
 * new. */
static uint64_t bound_of(const struct correlator *c, struct bounds *b, const struct span *s)
{
	uint32_t process = c->t->threads[s->thread].process;
	uint64_t end;

	/* An operation of a run that began before the window is known no better. */
	if (!is_bound(b, process) || b->has_unseen[process] ||
	    s->start_ns <= runs_begun_until_ns(c, process))
		return 0;
	end = end_of_active(b, process, s->start_ns);
	/* Its run began before the window, and ends after it: any other one may be that run's, too.
	 */
	b->has_unseen[process] = !end;
	return end < s->end_ns ? end : 0;
}

static void apply(struct correlator *c, struct bounds *b)
{
	/* First, whether there is a run that is not seen. */
	TIMELINE_EACH (c->t, i, 1 << SPAN_OP)
		(void)bound_of(c, b, &c->t->spans[i]);
	TIMELINE_EACH (c->t, i, 1 << SPAN_OP) {
		struct span *s = &c->t->spans[i];
		uint64_t end = bound_of(c, b, s);

		if (!end)
			continue;
		s->end_ns = end;
		s->flags = (uint16_t)((s->flags & ~SPAN_TRUNCATED_END) | SPAN_END_NOT_SEEN |
				      SPAN_END_INFERRED);
	}
}

void op_bounds_apply(struct correlator *c)
{
	struct bounds b = {};

	/* A run whose beginning was lost is none that is known to be active. */
	if (losses_within(&c->losses, 0, UINT64_MAX) || !find_targets(c, &b))
		return;
	c->error = find_runs(c, &b);
	if (b.n)
		apply(c, &b);
	free(b.runs);
}
