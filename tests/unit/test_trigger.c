/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of triggers, with times that the tests choose. */
#include "daemon/recorder/trigger.h"

#include "tests/unit/check.h"

#define MS 1000000ull
#define SECOND 1000000000ull

static char reason[TRIGGER_REASON_SIZE];

static struct finished_request request_at(uint64_t end, uint64_t latency)
{
	return (struct finished_request){ .start_ns = end - latency,
					  .end_ns = end,
					  .model = "m1",
					  .status = 200,
					  .grpc_status = -1 };
}

static bool fires(const struct trigger_rule *rule, struct trigger_state *state, uint64_t end,
		  uint64_t latency)
{
	struct finished_request q = request_at(end, latency);

	*reason = 0;
	return trigger_on_request(rule, state, &q, reason);
}

TEST(one_request_above_the_latency_suffices_and_none_at_it)
{
	const struct trigger_rule rule = { .condition = TRIGGER_LATENCY,
					   .latency_ns = 50 * MS,
					   .requests = 1,
					   .window_ns = 10 * SECOND };
	struct trigger_state state = {};

	CHECK(!fires(&rule, &state, 100 * SECOND, 50 * MS));
	CHECK(fires(&rule, &state, 101 * SECOND, 203 * MS));
	CHECK_STR(reason, "model m1: a request took 203 ms, above 50.0 ms");
	CHECK(!fires(&rule, &state, 102 * SECOND, MS));
	CHECK(fires(&rule, &state, 103 * SECOND, 51 * MS));
}

TEST(so_many_requests_must_be_slow_within_the_window)
{
	const struct trigger_rule rule = { .condition = TRIGGER_LATENCY,
					   .latency_ns = 50 * MS,
					   .requests = 3,
					   .window_ns = 16 * SECOND };
	struct trigger_state state = {};

	CHECK(!fires(&rule, &state, 100 * SECOND, 60 * MS));
	CHECK(!fires(&rule, &state, 101 * SECOND, 60 * MS));
	/* The first two are not in its window any more. */
	CHECK(!fires(&rule, &state, 118 * SECOND, 70 * MS));
	CHECK(!fires(&rule, &state, 119 * SECOND, 60 * MS));
	for (uint64_t i = 0; i < 100; i++)
		CHECK(!fires(&rule, &state, 120 * SECOND + i * MS, MS));
	CHECK(fires(&rule, &state, 133 * SECOND, 60 * MS));
	CHECK_STR(
		reason,
		"model m1: 3 requests within 16.0 s took longer than 50.0 ms, the slowest 70.0 ms");
	/* It begins anew. */
	CHECK(!fires(&rule, &state, 134 * SECOND, 60 * MS));
	CHECK(!fires(&rule, &state, 134 * SECOND, 60 * MS));
	CHECK(fires(&rule, &state, 134 * SECOND, 60 * MS));
}

TEST(the_99th_percentile_is_above_a_latency_if_more_than_a_hundredth_is)
{
	const struct trigger_rule rule = { .condition = TRIGGER_P99,
					   .latency_ns = 20 * MS,
					   .requests = 100,
					   .window_ns = 10 * SECOND };
	struct trigger_state state = {};

	/* Few requests have no percentile. */
	for (unsigned i = 0; i < 98; i++)
		CHECK(!fires(&rule, &state, SECOND, i ? MS : 90 * MS));
	CHECK(!fires(&rule, &state, SECOND, MS));
	/* One of a hundred is not more than a hundredth. */
	CHECK(!fires(&rule, &state, SECOND, MS));
	CHECK(fires(&rule, &state, SECOND, 30 * MS));
	CHECK_STR(
		reason,
		"model m1: the 99th percentile of 101 requests within 10.0 s is above 20.0 ms, the slowest took 90.0 ms");
	/* The slow ones come first, and the number is reached by a quick one. */
	for (unsigned i = 0; i < 99; i++)
		CHECK(!fires(&rule, &state, 20 * SECOND, i < 50 ? 30 * MS : MS));
	CHECK(fires(&rule, &state, 20 * SECOND, MS));
}

static bool fails(const struct trigger_rule *rule, struct trigger_state *state, int status,
		  int grpc_status)
{
	struct finished_request q = request_at(SECOND, MS);

	q.model = NULL;
	q.status = status;
	q.grpc_status = grpc_status;
	return trigger_on_request(rule, state, &q, reason);
}

TEST(the_rate_of_errors_counts_what_the_server_failed_at)
{
	static const int failures[] = { 2, 4, 12, 13, 14, 15 };
	const struct trigger_rule rule = {
		.condition = TRIGGER_ERRORS, .percent = 50, .requests = 4, .window_ns = 10 * SECOND
	};
	struct trigger_state state = {};

	/* Of the client's own mistakes there may be any number. */
	for (int grpc = -1; grpc < 20; grpc++)
		if (grpc < 0 || (grpc != 2 && grpc != 4 && (grpc < 12 || grpc > 15)))
			CHECK(!fails(&rule, &state, 200, grpc));
	CHECK(!fails(&rule, &state, 404, -1));
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		state = (struct trigger_state){};
		CHECK(!fails(&rule, &state, 200, failures[i]));
		CHECK(!fails(&rule, &state, 500, -1));
		CHECK(!fails(&rule, &state, 200, 0));
		CHECK(fails(&rule, &state, 503, -1));
	}
	CHECK_STR(reason, "3 of 4 requests within 10.0 s failed, above 50 %");
	/* Half of them are not more than half. */
	state = (struct trigger_state){};
	for (unsigned i = 0; i < 20; i++)
		CHECK(!fails(&rule, &state, i % 2 ? 500 : 200, -1));
}

TEST(a_trigger_of_a_model_ignores_other_models_and_unknown_ones)
{
	const struct trigger_rule rule = { .condition = TRIGGER_LATENCY,
					   .model = "m*1",
					   .latency_ns = MS,
					   .requests = 1,
					   .window_ns = SECOND };
	struct finished_request q = request_at(SECOND, 2 * MS);
	struct trigger_state state = {};

	q.model = "n1";
	CHECK(!trigger_on_request(&rule, &state, &q, reason));
	q.model = NULL;
	CHECK(!trigger_on_request(&rule, &state, &q, reason));
	q.model = "m01";
	CHECK(trigger_on_request(&rule, &state, &q, reason));
}

TEST(a_queue_that_stays_long_is_reported_once)
{
	const struct trigger_rule rule = { .condition = TRIGGER_QUEUE, .queue = 8 };
	struct trigger_state state = {};

	CHECK(!trigger_on_queue(&rule, &state, 8, reason));
	CHECK(trigger_on_queue(&rule, &state, 9, reason));
	CHECK_STR(reason, "9 requests are in progress, above 8");
	CHECK(!trigger_on_queue(&rule, &state, 20, reason));
	CHECK(!trigger_on_queue(&rule, &state, 3, reason));
	CHECK(trigger_on_queue(&rule, &state, 9, reason));
	CHECK(!fires(&rule, &state, SECOND, SECOND));
}

TEST(requests_that_come_late_or_after_a_long_time_are_counted_in_bounds)
{
	const struct trigger_rule rule = {
		.condition = TRIGGER_LATENCY, .latency_ns = MS, .requests = 2, .window_ns = 1
	};
	struct trigger_state state = {};

	CHECK(!fires(&rule, &state, UINT64_MAX, 2 * MS));
	CHECK(fires(&rule, &state, SECOND, 2 * MS));
	CHECK(!fires(&rule, &state, 2 * SECOND, 2 * MS));
}

CHECK_MAIN()
