/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/summary.h"

#include <errno.h>
#include <string.h>

#include "daemon/export/summary/op_category.h"
#include "lib/base/macro.h"

/* What one name's operations add up to. */
struct total {
	const struct span_name *name;
	uint64_t count, total_ns, self_ns;
};

static int compare_durations(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_names(const void *a, const void *b)
{
	const struct total *x = a, *y = b;

	return strcmp(x->name->name, y->name->name);
}

/* The largest first; equal ones by name, so that the result does not depend on the order of
 * capture. */
static int compare_self(const void *a, const void *b)
{
	const struct total *x = a, *y = b;

	if (x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	return compare_names(a, b);
}

static int summarise_runs(const struct timeline *t, struct summary *s)
{
	_cleanup_free_ uint64_t *durations = NULL;
	uint64_t n_ended = 0, n = 0;

	TIMELINE_EACH (t, i, 1 << SPAN_RUN) {
		const struct span *run = &t->spans[i];

		if (run->flags & SPAN_INNER)
			continue;
		if (run->flags & SPAN_NOT_WHOLE)
			s->n_runs_truncated++;
		else
			s->n_runs++;
		n_ended += !(run->flags & SPAN_TRUNCATED_END);
	}
	s->runs_per_second = s->window_ns ? (double)n_ended * 1e9 / (double)s->window_ns : 0;

	durations = malloc((s->n_runs + 1) * sizeof(*durations));
	if (!durations)
		return -ENOMEM;
	TIMELINE_EACH (t, i, 1 << SPAN_RUN) {
		const struct span *run = &t->spans[i];

		if (!(run->flags & (SPAN_NOT_WHOLE | SPAN_INNER)))
			durations[n++] = run->end_ns - run->start_ns;
	}
	qsort(durations, n, sizeof(*durations), compare_durations);
	s->run_p50_ns = percentile(durations, n, 50);
	s->run_p99_ns = percentile(durations, n, 99);
	return 0;
}

/* Adds up entries whose names are equal, such as those of two processes. Returns how many are left,
 * sorted by name. */
static uint32_t merge_equal(struct total *totals, uint32_t n)
{
	uint32_t kept = 0;

	qsort(totals, n, sizeof(*totals), compare_names);
	for (uint32_t i = 0; i < n; i++) {
		struct total *last = kept ? &totals[kept - 1] : NULL;

		if (last && !compare_names(last, &totals[i])) {
			last->count += totals[i].count;
			last->total_ns += totals[i].total_ns;
			last->self_ns += totals[i].self_ns;
		} else {
			totals[kept++] = totals[i];
		}
	}
	return kept;
}

static int fill_op(const struct total *total, struct summary_op *ret)
{
	const char *text = total->name->name, *display = total->name->display ?: "",
		   *type = op_type(total->name);
	size_t length = strlen(text);
	char *name = malloc(length + 1 + strlen(display) + 1);

	if (!name)
		return -ENOMEM;
	memcpy(name, text, length + 1);
	strcpy(name + length + 1, display);
	*ret = (struct summary_op){ .name = name,
				    .type = name + length + 1,
				    .count = total->count,
				    .total_ns = total->total_ns,
				    .self_ns = total->self_ns };
	if (type) {
		ret->type = name + (type - text);
		name[type - text - 1] = 0;
	}
	return 0;
}

static uint64_t to_integer(double value)
{
	return (uint64_t)(value + 0.5);
}

/* Puts estimates into the table of operations, whose rows are made of these totals. */
static int estimate_ops(const struct timeline *t, const struct op_slices *slices,
			const struct total *totals, struct summary *s)
{
	_cleanup_free_ uint32_t *rows = malloc(((size_t)t->n_names + 1) * sizeof(rows[0]));
	struct op_estimate estimates[SUMMARY_OPS_MAX];
	int r;

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_names; i++)
		for (rows[i] = 0;
		     rows[i] < s->n_top_ops && strcmp(t->names[i].name, totals[rows[i]].name->name);
		     rows[i]++)
			;
	r = op_estimates_make(t, slices, rows, s->n_top_ops, estimates);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < s->n_top_ops; i++) {
		struct summary_op *op = &s->top_ops[i];

		op->estimate = estimates[i];
		op->count = to_integer(estimates[i].count);
		op->total_ns = to_integer(estimates[i].total_ns);
		op->self_ns = to_integer(estimates[i].self_ns);
	}
	return 0;
}

static int summarise_sampling(const struct timeline *t, const struct total *totals,
			      struct summary *s)
{
	_cleanup_(op_slices_done) struct op_slices slices = {};
	int r = op_slices_find(t, &slices);

	if (r < 0 || !slices.is_part)
		return r;
	s->sampling = (struct op_sampling){ .is_part = true,
					    .n_slices = slices.n,
					    .seen_ns = slices.seen_ns };
	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];

		if (q->flags & REQUEST_NOT_WHOLE)
			continue;
		s->sampling.n_requests_within +=
			op_slices_within(&slices, q->start_ns, q->end_ns) != OP_SLICE_NONE;
		s->sampling.n_requests_longer += q->end_ns - q->start_ns > slices.longest_ns;
	}
	/* From one slice nothing follows for the rest. */
	return slices.n >= 2 ? estimate_ops(t, &slices, totals, s) : 0;
}

static int summarise_ops(const struct timeline *t, struct summary *s)
{
	_cleanup_free_ struct total *totals = calloc((size_t)t->n_names + 1, sizeof(*totals));
	uint32_t n = 0;

	if (!totals)
		return -ENOMEM;
	TIMELINE_EACH (t, i, 1 << SPAN_OP) {
		const struct span *op = &t->spans[i];

		totals[op->name].count++;
		totals[op->name].total_ns += op->end_ns - op->start_ns;
		totals[op->name].self_ns += op->self_ns;
		s->n_ops++;
	}
	for (uint32_t i = 0; i < t->n_names; i++) {
		struct total total = totals[i];

		total.name = &t->names[i];
		if (total.count)
			totals[n++] = total;
	}
	n = merge_equal(totals, n);
	qsort(totals, n, sizeof(*totals), compare_self);
	for (; s->n_top_ops < MIN(n, (uint32_t)SUMMARY_OPS_MAX); s->n_top_ops++) {
		int r = fill_op(&totals[s->n_top_ops], &s->top_ops[s->n_top_ops]);

		if (r < 0)
			return r;
	}
	return summarise_sampling(t, totals, s);
}

int summary_make(const struct timeline *t, struct summary *ret)
{
	_cleanup_(summary_done) struct summary s = {
		.window_ns = t->end_ns - t->start_ns,
		.running_ns = t->running_ns,
		.runnable_ns = t->runnable_ns,
		.throttled_ns = t->throttled_ns,
		.blocked_ns = t->blocked_ns,
		.n_lost_names = t->n_lost_names,
	};
	int r = summarise_runs(t, &s);

	if (r < 0)
		return r;
	memory_use_make(t, PROCESS_ANY, s.memory);
	r = summarise_ops(t, &s);
	if (r >= 0)
		r = request_summary_make(t, &s.requests);
	if (r >= 0)
		r = hot_places_make(t, &s.hot);
	if (r < 0)
		return r;
	*ret = s;
	s = (struct summary){}; /* now the caller's */
	return 0;
}

void summary_done(struct summary *s)
{
	for (unsigned int i = 0; i < s->n_top_ops; i++)
		free(s->top_ops[i].name);
	request_summary_done(&s->requests);
	hot_places_done(&s->hot);
	*s = (struct summary){};
}
