/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/op_estimates.h"

#include <errno.h>
#include <math.h>

#include "lib/base/macro.h"

/* What one slice has of one row. */
struct cell {
	double count, total_ns, self_ns;
};

/* For 95 %: Student's t, by degrees of freedom from 1. */
static double student(uint32_t freedom)
{
	static const double values[] = { 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
					 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
					 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080,
					 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048 };

	return freedom <= ARRAY_SIZE(values) ? values[freedom - 1] : 1.96 + 2.5 / freedom;
}

static void add_spans(const struct timeline *t, const struct op_slices *slices,
		      const uint32_t *rows, uint32_t n, struct cell *cells, struct op_estimate *ret)
{
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *op = &t->spans[i];
		uint32_t row = op->kind == SPAN_OP ? rows[op->name] : n, slice;
		uint64_t length, duration = op->end_ns - op->start_ns;
		struct cell *cell;
		double weight;

		if (row >= n || op->flags & SPAN_NOT_WHOLE)
			continue;
		slice = op_slices_within(slices, op->start_ns, op->end_ns);
		if (slice == OP_SLICE_NONE)
			continue;
		length = slices->list[slice].end_ns - slices->list[slice].start_ns;
		weight = (double)length / (double)MAX(length - duration, 1u);
		cell = &cells[(size_t)row * slices->n + slice];
		cell->count += weight;
		cell->total_ns += weight * (double)duration;
		cell->self_ns += weight * (double)op->self_ns;
		ret[row].seen++;
	}
}

/* Half of the interval of a ratio, from the sum of squares of what the slices differ by. */
static double error_of(double squares, double divisor, uint32_t n)
{
	return divisor > 0 ? student(n - 1) * sqrt(squares * n / (n - 1)) / divisor : 0;
}

/* How much of the window each slice is. */
struct sizes {
	double *of, seen, window;
};

static void sizes_by_time(const struct timeline *t, const struct op_slices *slices,
			  struct sizes *sizes)
{
	for (uint32_t i = 0; i < slices->n; i++)
		sizes->of[i] = (double)(slices->list[i].end_ns - slices->list[i].start_ns);
	sizes->seen = (double)slices->seen_ns;
	sizes->window = (double)(t->end_ns - t->start_ns);
}

/* By the ends of runs. False: they are not known in all of the window, or too few in slices. */
static bool sizes_by_runs(const struct timeline *t, const struct op_slices *slices,
			  struct sizes *sizes)
{
	for (uint32_t i = 0; i < t->n_gaps; i++)
		if (t->gaps[i].of == GAP_OF_RUNS)
			return false;
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *run = &t->spans[i];
		uint32_t slice;

		if (run->kind != SPAN_RUN || run->flags & (SPAN_INNER | SPAN_TRUNCATED_END))
			continue;
		sizes->window++;
		slice = op_slices_within(slices, run->end_ns, run->end_ns);
		if (slice == OP_SLICE_NONE)
			continue;
		sizes->of[slice]++;
		sizes->seen++;
	}
	return sizes->seen >= 10 * slices->n;
}

static void estimate(const struct sizes *sizes, uint32_t n, const struct cell *cells,
		     struct op_estimate *e)
{
	double count = 0, total = 0, self = 0, share = sizes->window / sizes->seen;
	double mean_squares = 0, self_squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		count += cells[i].count;
		total += cells[i].total_ns;
		self += cells[i].self_ns;
	}
	e->count = count * share;
	e->total_ns = total * share;
	e->self_ns = self * share;
	e->mean_ns = count > 0 ? total / count : 0;
	for (uint32_t i = 0; i < n; i++) {
		double mean_by = cells[i].total_ns - e->mean_ns * cells[i].count;
		double self_by = cells[i].self_ns - self / sizes->seen * sizes->of[i];

		mean_squares += mean_by * mean_by;
		self_squares += self_by * self_by;
	}
	e->mean_error_ns = error_of(mean_squares, count, n);
	e->self_error_ns = error_of(self_squares, sizes->seen, n) * sizes->window;
}

int op_estimates_make(const struct timeline *t, const struct op_slices *slices,
		      const uint32_t *rows, uint32_t n, struct op_estimate *ret)
{
	_cleanup_free_ struct cell *cells = calloc((size_t)n * slices->n + 1, sizeof(cells[0]));
	_cleanup_free_ double *of = calloc(slices->n, sizeof(of[0]));
	struct sizes sizes = { .of = of };

	if (!cells || !of)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		ret[i] = (struct op_estimate){};
	add_spans(t, slices, rows, n, cells, ret);
	if (!sizes_by_runs(t, slices, &sizes))
		sizes_by_time(t, slices, &sizes);
	for (uint32_t i = 0; i < n; i++)
		estimate(&sizes, slices->n, &cells[(size_t)i * slices->n], &ret[i]);
	return 0;
}
