/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a capture. The source is included, so that its allocations can be made to fail one
 * by one. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/check.h"

static long allocations_left = -1; /* -1: no limit */

static void *test_malloc(size_t size)
{
	return allocations_left >= 0 && allocations_left-- == 0 ? NULL : malloc(size);
}

static void *test_calloc(size_t n, size_t size)
{
	return allocations_left >= 0 && allocations_left-- == 0 ? NULL : calloc(n, size);
}

#define malloc test_malloc
#define calloc test_calloc
#include "daemon/export/summary/summary.c"
#undef malloc
#undef calloc

static struct span run(uint64_t duration, unsigned int flags)
{
	return (struct span){ .start_ns = 1000,
			      .end_ns = 1000 + duration,
			      .kind = SPAN_RUN,
			      .flags = (uint16_t)flags };
}

static struct span op(uint32_t name, uint64_t total, uint64_t self)
{
	return (struct span){ .start_ns = 1000,
			      .end_ns = 1000 + total,
			      .self_ns = self,
			      .kind = SPAN_OP,
			      .name = name };
}

TEST(an_empty_timeline_has_a_summary_of_zeros)
{
	struct timeline t = {};
	struct summary s;

	CHECK_EQ(summary_make(&t, &s), 0);
	CHECK_EQ(s.n_runs + s.n_runs_truncated + s.n_ops + s.n_top_ops, 0);
	CHECK_EQ(s.run_p50_ns, 0);
	CHECK_EQ(s.run_p99_ns, 0);
	CHECK(s.runs_per_second == 0);
	summary_done(&s);
	summary_done(&s);
}

TEST(percentiles_are_nearest_rank_of_complete_runs_only)
{
	static const struct {
		unsigned int n;
		uint64_t p50, p99;
	} cases[] = { { 1, 1, 1 },     { 2, 1, 2 },      { 3, 2, 3 },       { 99, 50, 99 },
		      { 100, 50, 99 }, { 101, 51, 100 }, { 200, 100, 198 }, { 1000, 500, 990 } };
	struct span spans[1002];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct timeline t = { .end_ns = 1000000000,
				      .spans = spans,
				      .n_spans = cases[i].n + 2 };
		struct summary s;

		/* The durations 1 … n, the last first, and two truncated runs that must not count.
		 */
		for (unsigned int j = 0; j < cases[i].n; j++)
			spans[j] = run(cases[i].n - j, 0);
		spans[cases[i].n] = run(1000000, SPAN_TRUNCATED_START);
		spans[cases[i].n + 1] = run(1000000, SPAN_TRUNCATED_END);
		CHECK_EQ(summary_make(&t, &s), 0);
		CHECK_EQ(s.n_runs, cases[i].n);
		CHECK_EQ(s.n_runs_truncated, 2);
		CHECK_EQ(s.run_p50_ns, cases[i].p50);
		CHECK_EQ(s.run_p99_ns, cases[i].p99);
		summary_done(&s);
	}
}

TEST(the_rate_counts_runs_that_ended_in_the_window)
{
	struct span spans[] = { run(1, 0), run(1, 0), run(1, SPAN_TRUNCATED_START),
				run(1, SPAN_TRUNCATED_END),
				run(1, SPAN_TRUNCATED_START | SPAN_TRUNCATED_END) };
	struct timeline t = {
		.start_ns = 7, .end_ns = 500000007, .spans = spans, .n_spans = ARRAY_SIZE(spans)
	};
	struct summary s;

	CHECK_EQ(summary_make(&t, &s), 0);
	CHECK_EQ(s.window_ns, 500000000);
	CHECK_EQ(s.n_runs, 2);
	CHECK_EQ(s.n_runs_truncated, 3);
	CHECK(s.runs_per_second == 6);
	summary_done(&s);
}

TEST(operations_are_added_up_by_name_and_sorted_by_self_time)
{
	struct span_name names[] = {
		{ .name = (char *)"a/MatMul:MatMul", .display = (char *)"MatMul" },
		{ .name = (char *)"b:Add", .display = (char *)"Add" },
		{ .name = (char *)"a/MatMul:MatMul", .display = (char *)"MatMul" },
		{ .name = (char *)"lost: 3 of 4", .lost = true },
		{ .name = (char *)"unused:Unused" },
		{ .name = (char *)"bare", .display = (char *)"Type" },
	};
	struct span spans[] = { op(0, 10, 5), op(1, 20, 20), op(2, 30, 30), op(3, 1, 1),
				run(99, 0),   op(0, 1, 1),   op(5, 1, 1) };
	struct timeline t = { .spans = spans,
			      .n_spans = ARRAY_SIZE(spans),
			      .names = names,
			      .n_names = ARRAY_SIZE(names),
			      .running_ns = 1,
			      .runnable_ns = 2,
			      .blocked_ns = 3,
			      .n_lost_names = 4 };
	struct summary s;

	CHECK_EQ(summary_make(&t, &s), 0);
	CHECK_EQ(s.n_ops, 6);
	CHECK_EQ(s.n_top_ops, 4);
	CHECK_STR(s.top_ops[0].name, "a/MatMul");
	CHECK_STR(s.top_ops[0].type, "MatMul");
	CHECK_EQ(s.top_ops[0].count, 3);
	CHECK_EQ(s.top_ops[0].total_ns, 41);
	CHECK_EQ(s.top_ops[0].self_ns, 36);
	CHECK_STR(s.top_ops[1].name, "b");
	CHECK_STR(s.top_ops[2].name, "bare");
	CHECK_STR(s.top_ops[2].type, "Type");
	CHECK_STR(s.top_ops[3].name, "lost: 3 of 4");
	CHECK_STR(s.top_ops[3].type, "");
	CHECK_EQ(s.running_ns, 1);
	CHECK_EQ(s.runnable_ns, 2);
	CHECK_EQ(s.blocked_ns, 3);
	CHECK_EQ(s.n_lost_names, 4);
	summary_done(&s);
}

TEST(only_the_first_operations_are_kept)
{
	struct span_name names[SUMMARY_OPS_MAX + 5];
	struct span spans[SUMMARY_OPS_MAX + 5];
	char text[SUMMARY_OPS_MAX + 5][16];
	struct timeline t = { .spans = spans,
			      .n_spans = ARRAY_SIZE(spans),
			      .names = names,
			      .n_names = ARRAY_SIZE(names) };
	struct summary s;

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text[i], sizeof(text[i]), "op%u:T", i);
		names[i] = (struct span_name){ .name = text[i] };
		spans[i] = op(i, i, i);
	}
	CHECK_EQ(summary_make(&t, &s), 0);
	CHECK_EQ(s.n_top_ops, SUMMARY_OPS_MAX);
	CHECK_STR(s.top_ops[0].name, "op24");
	CHECK_STR(s.top_ops[SUMMARY_OPS_MAX - 1].name, "op5");
	summary_done(&s);
}

TEST(every_allocation_that_fails_gives_enomem)
{
	struct span_name names[] = { { .name = (char *)"a:A" }, { .name = (char *)"b:B" } };
	struct span spans[] = { op(0, 1, 1), op(1, 1, 1), run(1, 0) };
	struct timeline t = { .spans = spans, .n_spans = 3, .names = names, .n_names = 2 };
	struct summary s = {};

	for (long n = 0; n < 4; n++) {
		allocations_left = n;
		CHECK_EQ(summary_make(&t, &s), -ENOMEM);
		CHECK_EQ(s.n_top_ops, 0);
	}
	allocations_left = 4;
	CHECK_EQ(summary_make(&t, &s), 0);
	allocations_left = -1;
	summary_done(&s);
}

CHECK_MAIN()
