/* SPDX-License-Identifier: Apache-2.0 */
/* What a timeline computes itself: the order of its spans, and the lanes of its requests. */
#include "daemon/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

static struct request lasting(uint64_t start_ns, uint64_t end_ns)
{
	return (struct request){ .start_ns = start_ns, .end_ns = end_ns, .lane = 99 };
}

TEST(a_request_has_the_lowest_lane_that_is_free_when_it_starts)
{
	struct request requests[] = { lasting(10, 100), lasting(20, 30),   lasting(25, 40),
				      lasting(50, 60),  lasting(101, 110), lasting(102, 103) };
	static const uint32_t lanes[] = { 0, 1, 2, 1, 0, 1 };
	struct timeline t = { .requests = requests, .n_requests = ARRAY_SIZE(requests) };

	CHECK_EQ(timeline_assign_lanes(&t), 0);
	CHECK_EQ(t.n_lanes, 3);
	for (uint32_t i = 0; i < t.n_requests; i++)
		CHECK_EQ(requests[i].lane, lanes[i]);
}

TEST(adjacent_requests_are_on_two_lanes_and_filtered_ones_on_none)
{
	struct request requests[] = { lasting(10, 20), lasting(12, 500), lasting(20, 20),
				      lasting(20, 30) };
	struct timeline t = { .requests = requests, .n_requests = ARRAY_SIZE(requests) };

	requests[1].flags = REQUEST_FILTERED;
	CHECK_EQ(timeline_assign_lanes(&t), 0);
	CHECK_EQ(t.n_lanes, 3);
	CHECK_EQ(requests[0].lane, 0);
	CHECK_EQ(requests[2].lane, 1);
	CHECK_EQ(requests[3].lane, 2);
}

TEST(no_requests_need_no_lane)
{
	struct timeline t = { .n_lanes = 5 };

	CHECK_EQ(timeline_assign_lanes(&t), 0);
	CHECK_EQ(t.n_lanes, 0);
}

TEST(a_hundred_thousand_requests_at_once_have_a_lane_each_and_ten_at_a_time_have_ten)
{
	enum { MANY = 100000 };
	struct request *requests = calloc(MANY, sizeof(requests[0]));
	struct timeline t = { .requests = requests, .n_requests = MANY };

	for (uint32_t i = 0; i < MANY; i++)
		requests[i] = lasting(i, 2 * MANY);
	CHECK_EQ(timeline_assign_lanes(&t), 0);
	CHECK_EQ(t.n_lanes, MANY);
	CHECK_EQ(requests[MANY - 1].lane, MANY - 1);
	for (uint32_t i = 0; i < MANY; i++)
		requests[i] = lasting(i * 10, i * 10 + 99);
	CHECK_EQ(timeline_assign_lanes(&t), 0);
	CHECK_EQ(t.n_lanes, 10);
	for (uint32_t i = 10; i < MANY; i++)
		CHECK_EQ(requests[i].lane, requests[i - 10].lane);
	free(requests);
}

/* How many spans of these kinds are found, if each is where one that looks at all finds it. */
static uint64_t count_found(const struct timeline *t, unsigned kinds)
{
	uint64_t n = 0, expected = 0;

	TIMELINE_EACH (t, i, kinds) {
		while (expected < i)
			CHECK(!(kinds >> t->spans[expected++].kind & 1));
		CHECK(kinds >> t->spans[i].kind & 1);
		expected = i + 1;
		n++;
	}
	while (expected < t->n_spans)
		CHECK(!(kinds >> t->spans[expected++].kind & 1));
	return n;
}

TEST(spans_are_sorted_by_thread_and_start_and_found_by_their_kinds)
{
	static const struct span spans[] = {
		{ .thread = 2, .start_ns = 10, .end_ns = 90, .kind = SPAN_EXECUTOR },
		{ .thread = 0, .start_ns = 11, .end_ns = 80, .kind = SPAN_RUN },
		{ .thread = 2, .start_ns = 40, .end_ns = 50, .kind = SPAN_BLOCKED },
		{ .thread = 2, .start_ns = 20, .end_ns = 30, .kind = SPAN_OP },
		{ .thread = 0, .start_ns = 12, .end_ns = 20, .kind = SPAN_OP },
		{ .thread = 2, .start_ns = 20, .end_ns = 35, .kind = SPAN_OP },
	};
	static const uint64_t starts[] = { 11, 12, 10, 20, 20, 40 };
	struct timeline *t = calloc(1, sizeof(*t));

	CHECK(t);
	t->spans = malloc(sizeof(spans));
	t->threads = calloc(3, sizeof(t->threads[0]));
	CHECK(t->spans && t->threads);
	memcpy(t->spans, spans, sizeof(spans));
	t->n_spans = ARRAY_SIZE(spans);
	t->n_threads = 3;
	CHECK_EQ(count_found(t, 1 << SPAN_OP), 3);
	CHECK_EQ(timeline_finish(t), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(starts); i++)
		CHECK_EQ(t->spans[i].start_ns, starts[i]);
	CHECK_EQ(t->spans[3].end_ns, 35); /* the longer one first */
	CHECK_EQ(count_found(t, 1 << SPAN_OP), 3);
	CHECK_EQ(count_found(t, 1 << SPAN_RUN | 1 << SPAN_BLOCKED), 2);
	CHECK_EQ(count_found(t, 1 << SPAN_LABEL), 0);
	CHECK_EQ(timeline_next(t, t->n_spans, ~0u), t->n_spans);
	timeline_free(t);
}

CHECK_MAIN()
