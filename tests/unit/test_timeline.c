/* SPDX-License-Identifier: Apache-2.0 */
/* What a timeline computes itself: the lanes of its requests. */
#include "daemon/timeline/timeline.h"

#include <stdlib.h>

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

CHECK_MAIN()
