/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers of a capture suggest. */
#include "daemon/export/summary/advice.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define N 20

/* Requests of 100 ns each, every one with the same pieces. */
struct scene {
	struct timeline t;
	struct request requests[N];
	struct segment segments[N * 4];
	struct span_name names[2];
	struct cpu_slice slices[2];
	struct span spans[1];
	struct advice advice;
};

struct part {
	uint64_t ns;
	uint8_t phase, activity;
	uint32_t name;
};

static void scene_start(struct scene *s, const struct part *parts, unsigned n)
{
	*s = (struct scene){ .names = { { .name = "futex" }, { .name = "read" } } };
	s->t = (struct timeline){ .end_ns = 1000,
				  .requests = s->requests,
				  .n_requests = N,
				  .segments = s->segments,
				  .names = s->names,
				  .n_names = ARRAY_SIZE(s->names),
				  .slices = s->slices,
				  .spans = s->spans };
	for (unsigned i = 0; i < N; i++) {
		uint64_t at = 1000 * i;

		s->requests[i] = (struct request){ .start_ns = at,
						   .end_ns = at + 100,
						   .first_segment = s->t.n_segments,
						   .n_segments = n };
		for (unsigned k = 0; k < n; k++, at += parts[k - 1].ns)
			s->segments[s->t.n_segments++] =
				(struct segment){ .start_ns = at,
						  .end_ns = at + parts[k].ns,
						  .phase = parts[k].phase,
						  .activity = parts[k].activity,
						  .name = parts[k].name };
	}
}

#define SCENE(s, ...)                                                                              \
	scene_start(s, (const struct part[]){ __VA_ARGS__ },                                       \
		    ARRAY_SIZE(((const struct part[]){ __VA_ARGS__ })))

TEST(the_largest_share_of_time_comes_first_and_small_shares_are_omitted)
{
	struct scene s;

	SCENE(&s, { 30, PHASE_BATCH, ACTIVITY_WAITING, TEXT_NONE },
	      { 45, PHASE_EXECUTE_RUNNABLE, ACTIVITY_RUNNABLE, TEXT_NONE },
	      { 24, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE },
	      { 1, PHASE_ENCODE, ACTIVITY_RUNNING, TEXT_NONE });
	s.t.n_slices = 2;
	s.slices[0] = (struct cpu_slice){ .start_ns = 0, .end_ns = 1000, .cpu = 0 };
	s.slices[1] = (struct cpu_slice){ .start_ns = 0, .end_ns = 1000, .cpu = 3 };
	s.t.n_spans = 1;
	s.spans[0] = (struct span){ .start_ns = 0, .end_ns = 500, .kind = SPAN_RUNNABLE };
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 2);
	CHECK(strstr(
		s.advice.texts[0],
		"45 % of the requests' time they wait for a CPU: on average 2.5 threads wanted one, and they ran on 2."));
	CHECK(strstr(s.advice.texts[1], "30 % of the requests' time they wait in a batch queue"));
}

TEST(connections_that_wait_to_be_accepted_are_distinguished_from_requests_that_wait_for_a_thread)
{
	struct scene s;

	SCENE(&s, { 60, PHASE_ACCEPT_QUEUE, ACTIVITY_WAITING, TEXT_NONE },
	      { 40, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE });
	for (unsigned i = 0; i < N; i++) {
		s.requests[i].flags = REQUEST_UNACCEPTED;
		s.requests[i].accepted_ns = s.requests[i].start_ns + 60;
	}
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 2);
	CHECK(strstr(s.advice.texts[0],
		     "60 % of the requests' time their connections wait to be accepted:"));
	CHECK(strstr(s.advice.texts[1], "40 % of the requests' time no thread has taken them up"));
	/* When they were accepted is unknown, and half of the wait is for another reason. */
	SCENE(&s, { 60, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE },
	      { 1, PHASE_READ, ACTIVITY_RUNNING, TEXT_NONE },
	      { 39, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE });
	for (unsigned i = 0; i < N; i++) {
		s.requests[i].flags = REQUEST_UNACCEPTED;
		s.requests[i].read_start_ns = s.requests[i].start_ns + 60;
	}
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 2);
	CHECK(strstr(
		s.advice.texts[0],
		"60 % of the requests' time their connections wait to be accepted, or, once they are, to be read:"));
	CHECK(strstr(s.advice.texts[1], "39 % of the requests' time no thread has taken them up"));
}

TEST(the_system_call_that_blocks_longest_is_named)
{
	struct scene s;

	SCENE(&s, { 40, PHASE_DECODE, ACTIVITY_BLOCKED, 0 },
	      { 20, PHASE_EXECUTE_BLOCKED, ACTIVITY_BLOCKED, 1 },
	      { 40, PHASE_ENCODE, ACTIVITY_RUNNING, TEXT_NONE });
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 1);
	CHECK(strstr(
		s.advice.texts[0],
		"60 % of the requests' time their thread is blocked while it works for them, most of it in futex:"));
}

TEST(the_cgroup_whose_quota_is_waited_for_is_named)
{
	struct scene s;

	SCENE(&s, { 61, PHASE_EXECUTE_THROTTLED, ACTIVITY_THROTTLED, 1 },
	      { 10, PHASE_DECODE, ACTIVITY_THROTTLED, 0 },
	      { 29, PHASE_ENCODE, ACTIVITY_RUNNING, TEXT_NONE });
	s.names[1].name = (char *)"/serving/model";
	s.t.quotas[0] = (struct quota){ .name = 0, .quota_ns = 1, .period_ns = 1 };
	s.t.quotas[1] = (struct quota){ .name = 1, .quota_ns = 20000000, .period_ns = 100000000 };
	s.t.n_quotas = 2;
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 1);
	CHECK(strstr(
		s.advice.texts[0],
		"71 % of the requests' time they are throttled: cgroup /serving/model has a quota of 20 % of a CPU, 20.0 ms per 100 ms. A higher quota "
		"(cpu.max, or cpu.cfs_quota_us) or fewer threads"));
}

TEST(a_sentence_with_a_long_cgroup_is_complete)
{
	char path[700];
	struct scene s;

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = 0;
	SCENE(&s, { 100, PHASE_EXECUTE_THROTTLED, ACTIVITY_THROTTLED, 1 });
	s.names[1].name = path;
	s.t.quotas[0] =
		(struct quota){ .name = 1, .quota_ns = UINT64_MAX - 1, .period_ns = UINT64_MAX };
	s.t.n_quotas = 1;
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 1);
	CHECK(strstr(s.advice.texts[0], "cgroup …xxx"));
	CHECK(strstr(s.advice.texts[0], "would shorten it."));
}

TEST(each_kind_of_waiting_has_its_sentence)
{
	static const struct {
		struct part part;
		const char *says;
	} cases[] = {
		{ { 100, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE },
		  "no thread has taken them up" },
		{ { 100, PHASE_QUEUE, ACTIVITY_BLOCKED, 0 }, "no thread has taken them up" },
		{ { 100, PHASE_QUEUE, ACTIVITY_RUNNING, TEXT_NONE },
		  "no thread has taken them up" },
		{ { 100, PHASE_QUEUE, ACTIVITY_RUNNABLE, TEXT_NONE }, "wait for a CPU" },
		{ { 100, PHASE_READ, ACTIVITY_BLOCKED, 1 }, "the rest of them is awaited" },
		{ { 100, PHASE_WRITE, ACTIVITY_BLOCKED, 1 }, "their answer waits for the socket" },
		{ { 100, PHASE_READ, ACTIVITY_RUNNABLE, TEXT_NONE }, "wait for a CPU" },
		{ { 100, PHASE_QUEUE, ACTIVITY_THROTTLED, TEXT_NONE },
		  "they are throttled: cgroup unknown has a quota of unknown" },
		{ { 100, PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, TEXT_NONE }, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scene s;

		scene_start(&s, &cases[i].part, 1);
		advice_make(&s.t, &s.advice);
		CHECK_EQ(s.advice.n, cases[i].says != NULL);
		CHECK(!s.advice.n || strstr(s.advice.texts[0], cases[i].says));
	}
}

TEST(few_or_incomplete_requests_give_no_advice)
{
	struct scene s;

	SCENE(&s, { 100, PHASE_QUEUE, ACTIVITY_WAITING, TEXT_NONE });
	s.requests[3].flags = REQUEST_TRUNCATED_END;
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 0);
	s.t.n_requests = 0;
	advice_make(&s.t, &s.advice);
	CHECK_EQ(s.advice.n, 0);
}

CHECK_MAIN()
