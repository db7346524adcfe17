/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of operations that were sampled in slices. */
#include "daemon/export/summary/op_estimates.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define MS 1000000ull
#define WINDOW_MS 4000
#define SLICE_MS 100
#define SPANS_MAX 40000

static struct span spans[SPANS_MAX];
static struct gap gaps[WINDOW_MS / SLICE_MS];
static struct timeline window;

static uint64_t below(uint64_t n)
{
	return (uint64_t)random() % n;
}

/* Slices of 0.1 s, each with that probability, the first one always. */
static void look(unsigned one_in)
{
	window = (struct timeline){ .end_ns = WINDOW_MS * MS, .spans = spans, .gaps = gaps };
	for (unsigned i = 1; i < WINDOW_MS / SLICE_MS; i++)
		if (below(one_in))
			gaps[window.n_gaps++] = (struct gap){ .start_ns = i * SLICE_MS * MS,
							      .end_ns = (i + 1) * SLICE_MS * MS,
							      .of = GAP_OF_OPS };
}

static void add_op(uint64_t start, uint64_t duration)
{
	struct span *s = &spans[window.n_spans++];

	*s = (struct span){ .start_ns = start,
			    .end_ns = start + duration,
			    .self_ns = duration / 2,
			    .kind = SPAN_OP };
	CHECK(window.n_spans < SPANS_MAX);
}

TEST(slices_are_what_lies_between_the_gaps)
{
	struct gap all[] = { { .start_ns = 10, .end_ns = 20, .of = GAP_OF_OPS },
			     { .start_ns = 15, .end_ns = 60 },
			     { .start_ns = 30, .end_ns = 50, .of = GAP_OF_OPS },
			     { .start_ns = 90, .of = GAP_OF_OPS } };
	struct timeline of = { .end_ns = 100, .gaps = all, .n_gaps = ARRAY_SIZE(all) };
	struct op_slices s;

	CHECK_EQ(op_slices_find(&of, &s), 0);
	CHECK_EQ(s.n, 3);
	CHECK_EQ(s.seen_ns, 10 + 10 + 40);
	CHECK_EQ(s.longest_ns, 40);
	CHECK(s.is_part);
	CHECK_EQ(op_slices_within(&s, 0, 10), 0);
	CHECK_EQ(op_slices_within(&s, 20, 30), 1);
	CHECK_EQ(op_slices_within(&s, 50, 51), 2);
	CHECK_EQ(op_slices_within(&s, 5, 25), OP_SLICE_NONE);
	CHECK_EQ(op_slices_within(&s, 12, 18), OP_SLICE_NONE);
	CHECK_EQ(op_slices_within(&s, 80, 95), OP_SLICE_NONE);
	op_slices_done(&s);
	of.n_gaps = 0;
	CHECK_EQ(op_slices_find(&of, &s), 0);
	CHECK(s.n == 1 && !s.is_part);
	op_slices_done(&s);
}

/* Operations one after the other, whose time drifts between 1 and 3 ms: what is seen of them
 * depends on the slices. */
TEST(the_truth_lies_in_19_of_20_intervals)
{
	unsigned n = check_cases(4000, 1000), mean_within = 0, self_within = 0;
	double bias = 0;

	for (unsigned i = 0; i < n; i++) {
		const uint32_t row = 0;
		double total = 0, count = 0, level = 0;
		struct op_estimate e;
		struct op_slices s;

		look(4);
		CHECK_EQ(op_slices_find(&window, &s), 0);
		for (uint64_t at = 0; at < WINDOW_MS * MS;) {
			uint64_t duration;

			level = 0.9 * level + (double)below(2001) / 10000 - 0.1;
			duration = (uint64_t)((2 + level) * (double)MS);
			total += (double)duration;
			count++;
			if (op_slices_within(&s, at, at + duration) != OP_SLICE_NONE)
				add_op(at, duration);
			at += duration;
		}
		if (s.n >= 2) {
			CHECK_EQ(op_estimates_make(&window, &s, &row, 1, &e), 0);
			CHECK_EQ(e.seen, window.n_spans);
			mean_within += e.mean_ns - e.mean_error_ns <= total / count &&
				       total / count <= e.mean_ns + e.mean_error_ns;
			self_within += e.self_ns - e.self_error_ns <= total / 2 &&
				       total / 2 <= e.self_ns + e.self_error_ns;
			bias += e.total_ns / total - 1;
		}
		op_slices_done(&s);
	}
	printf("     the mean lies in %u of %u intervals, the self time in %u; bias %+.3f %%\n",
	       mean_within, n, self_within, 100 * bias / n);
	CHECK(mean_within > n * 0.9 && self_within > n * 0.9);
	CHECK(bias / n < 0.01 && bias / n > -0.01);
}

/* Long ones are less often whole in a slice. */
TEST(long_operations_are_not_rarer_than_they_are)
{
	double share = 0;
	unsigned n = check_cases(2000, 500);
	const uint32_t row = 0;

	for (unsigned i = 0; i < n; i++) {
		struct op_estimate e;
		struct op_slices s;
		unsigned all = 0;

		look(2);
		CHECK_EQ(op_slices_find(&window, &s), 0);
		for (uint64_t at = below(60 * MS); at < WINDOW_MS * MS; at += 60 * MS, all++)
			if (op_slices_within(&s, at, at + 50 * MS) != OP_SLICE_NONE)
				add_op(at, 50 * MS);
		CHECK_EQ(op_estimates_make(&window, &s, &row, 1, &e), 0);
		share += e.count / all / n;
		op_slices_done(&s);
	}
	printf("     %.1f %% of those that are half as long as a slice\n", 100 * share);
	CHECK(share > 0.95 && share < 1.05);
}

CHECK_MAIN()
