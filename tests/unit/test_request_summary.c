/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in numbers. The source is included, so that its allocations can be made to fail one by
 * one. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"

static long allocations_left = -1; /* -1: no limit */

static void *test_malloc(size_t size)
{
	return allocations_left >= 0 && allocations_left-- == 0 ? NULL : malloc(size);
}

static char *test_strdup(const char *text)
{
	return allocations_left >= 0 && allocations_left-- == 0 ? NULL : strdup(text);
}

#define malloc test_malloc
#define strdup test_strdup
#include "daemon/export/summary/request_summary.c"
#undef malloc
#undef strdup

static struct request request(uint64_t latency, unsigned flags)
{
	return (struct request){ .start_ns = 1000,
				 .end_ns = 1000 + latency,
				 .flags = (uint8_t)flags,
				 .model = TEXT_NONE };
}

TEST(a_timeline_without_requests_has_a_summary_of_zeros)
{
	struct timeline t = {};
	struct request_summary s;

	CHECK_EQ(request_summary_make(&t, &s), 0);
	CHECK_EQ(s.n_whole + s.n_truncated + s.n_reset + s.n_lost + s.n_filtered + s.n_models +
			 s.n_batches,
		 0);
	CHECK_EQ(s.latency.max_ns, 0);
	request_summary_done(&s);
	request_summary_done(&s);
}

TEST(percentiles_are_nearest_rank)
{
	static const struct {
		unsigned n;
		uint64_t p50, p90, p99;
	} cases[] = { { 1, 1, 1, 1 },         { 2, 1, 2, 2 },      { 10, 5, 9, 10 },
		      { 99, 50, 90, 99 },     { 100, 50, 90, 99 }, { 101, 51, 91, 100 },
		      { 1000, 500, 900, 990 } };
	struct request requests[1000];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct timeline t = { .requests = requests, .n_requests = cases[i].n };
		struct request_summary s;

		for (unsigned j = 0; j < cases[i].n; j++)
			requests[j] = request(cases[i].n - j, 0);
		CHECK_EQ(request_summary_make(&t, &s), 0);
		CHECK_EQ(s.latency.p50_ns, cases[i].p50);
		CHECK_EQ(s.latency.p90_ns, cases[i].p90);
		CHECK_EQ(s.latency.p99_ns, cases[i].p99);
		CHECK_EQ(s.latency.max_ns, cases[i].n);
		CHECK_EQ(s.latency.sum_ns, (uint64_t)cases[i].n * (cases[i].n + 1) / 2);
		request_summary_done(&s);
	}
}

TEST(each_request_is_counted_once_and_only_whole_ones_are_ranked)
{
	struct request requests[] = {
		request(5, 0),
		request(7, REQUEST_NO_ARRIVAL),
		request(1000, REQUEST_TRUNCATED_START),
		request(1000, REQUEST_TRUNCATED_END | REQUEST_RESET | REQUEST_LOST),
		request(1000, REQUEST_RESET | REQUEST_LOST),
		request(1000, REQUEST_LOST),
		request(1000, REQUEST_FILTERED | REQUEST_TRUNCATED_END),
	};
	struct timeline t = { .requests = requests,
			      .n_requests = ARRAY_SIZE(requests),
			      .n_runs_exact = 3,
			      .n_runs_inferred = 2,
			      .n_runs_orphaned = 1 };
	struct request_summary s;

	CHECK_EQ(request_summary_make(&t, &s), 0);
	CHECK_EQ(s.n_whole, 2);
	CHECK_EQ(s.n_truncated, 2);
	CHECK_EQ(s.n_reset, 1);
	CHECK_EQ(s.n_lost, 1);
	CHECK_EQ(s.n_filtered, 1);
	CHECK_EQ(s.latency.max_ns, 7);
	CHECK_EQ(s.latency.sum_ns, 12);
	CHECK_EQ(s.n_runs_exact, 3);
	CHECK_EQ(s.n_runs_inferred, 2);
	CHECK_EQ(s.n_runs_orphaned, 1);
	request_summary_done(&s);
}

TEST(phases_are_ranked_each_by_itself_and_sum_up_to_the_latency)
{
	struct request requests[] = { request(10, 0), request(20, 0),
				      request(99, REQUEST_TRUNCATED_END) };
	struct timeline t = { .requests = requests, .n_requests = ARRAY_SIZE(requests) };
	struct request_summary s;
	uint64_t sum = 0;

	requests[0].phases[PHASE_READ] = 10;
	requests[1].phases[PHASE_READ] = 5;
	requests[1].phases[PHASE_EXECUTE_BLOCKED] = 15;
	requests[2].phases[PHASE_WRITE] = 99;
	CHECK_EQ(request_summary_make(&t, &s), 0);
	CHECK_EQ(s.phases[PHASE_READ].p50_ns, 5);
	CHECK_EQ(s.phases[PHASE_READ].max_ns, 10);
	CHECK_EQ(s.phases[PHASE_EXECUTE_BLOCKED].p50_ns, 0);
	CHECK_EQ(s.phases[PHASE_EXECUTE_BLOCKED].p99_ns, 15);
	CHECK_EQ(s.phases[PHASE_WRITE].max_ns, 0);
	for (unsigned i = 0; i < PHASE_COUNT; i++)
		sum += s.phases[i].sum_ns;
	CHECK_EQ(sum, s.latency.sum_ns);
	request_summary_done(&s);
}

TEST(the_models_with_the_most_requests_are_kept)
{
	enum { MODELS = REQUEST_MODELS_MAX + 3, REQUESTS = MODELS * (MODELS + 1) / 2 };
	static struct request requests[REQUESTS + 2];
	char names[MODELS][16], *texts[MODELS];
	struct timeline t = { .requests = requests, .texts = texts, .n_texts = MODELS };
	struct request_summary s;

	/* Model i has i + 1 requests of 1 … i + 1 ns. */
	for (uint32_t i = 0; i < MODELS; i++) {
		snprintf(names[i], sizeof(names[i]), "m%u", i);
		texts[i] = names[i];
		for (uint32_t j = 0; j <= i; j++) {
			requests[t.n_requests] = request(j + 1, 0);
			requests[t.n_requests++].model = i;
		}
	}
	requests[t.n_requests++] = request(9, 0);
	requests[t.n_requests] = request(9, REQUEST_TRUNCATED_END);
	requests[t.n_requests++].model = 0;
	CHECK_EQ(request_summary_make(&t, &s), 0);
	CHECK_EQ(s.n_models, REQUEST_MODELS_MAX);
	CHECK_STR(s.models[0].name, "m34");
	CHECK_EQ(s.models[0].count, 35);
	CHECK_EQ(s.models[0].p50_ns, 18);
	CHECK_EQ(s.models[0].p99_ns, 35);
	CHECK_STR(s.models[REQUEST_MODELS_MAX - 1].name, "m3");
	CHECK_EQ(s.n_models_left_out, 1 + 2 + 3);
	request_summary_done(&s);
}

TEST(truncated_batches_are_not_counted)
{
	struct batch batches[] = { { .n_tasks = 3, .size = 30, .padded = 32 },
				   { .n_tasks = 1, .flags = SPAN_END_NOT_SEEN },
				   { .n_tasks = 9, .flags = SPAN_TRUNCATED_END, .size = 9 },
				   { .n_tasks = 2, .size = 8 } };
	struct timeline t = { .batches = batches, .n_batches = ARRAY_SIZE(batches) };
	struct request_summary s;

	CHECK_EQ(request_summary_make(&t, &s), 0);
	CHECK_EQ(s.n_batches, 3);
	CHECK_EQ(s.n_batch_tasks, 6);
	CHECK_EQ(s.n_batches_sized, 2);
	CHECK_EQ(s.batch_rows, 38);
	CHECK_EQ(s.batch_padded_rows, 40);
	request_summary_done(&s);
}

TEST(every_allocation_that_fails_gives_enomem)
{
	char *texts[] = { (char *)"a", (char *)"b" };
	struct request requests[] = { request(1, 0), request(2, 0) };
	struct timeline t = { .requests = requests, .n_requests = 2, .texts = texts, .n_texts = 2 };
	struct request_summary s = {};

	requests[0].model = 0;
	requests[1].model = 1;
	for (long n = 0; n < 4; n++) {
		allocations_left = n;
		CHECK_EQ(request_summary_make(&t, &s), -ENOMEM);
	}
	allocations_left = 4;
	CHECK_EQ(request_summary_make(&t, &s), 0);
	allocations_left = -1;
	request_summary_done(&s);
}

CHECK_MAIN()
