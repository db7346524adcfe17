/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines as XSpaces: the curves of how many were active over time. */
#include "tests/unit/exported.h"

#define START 7000000
#define MANY 10000

static const struct thread threads[] = { { .tid = 51, .name = "a" }, { .tid = 52, .name = "b" } };
static const struct process processes[] = { { .pid = 50, .name = "server" } };
static const struct span_name names[] = { { .name = (char *)"runnable" } };

static struct request request(uint64_t start, uint64_t end)
{
	return (struct request){ .start_ns = START + start,
				 .end_ns = START + end,
				 .method = TEXT_NONE,
				 .path = TEXT_NONE,
				 .model = TEXT_NONE,
				 .version = TEXT_NONE,
				 .status = -1,
				 .grpc_status = -1 };
}

static struct timeline timeline(struct request *requests, uint32_t n_requests)
{
	return (struct timeline){ .start_ns = START,
				  .end_ns = START + 1000000,
				  .threads = (struct thread *)threads,
				  .n_threads = ARRAY_SIZE(threads),
				  .processes = (struct process *)processes,
				  .n_processes = 1,
				  .names = (struct span_name *)names,
				  .n_names = ARRAY_SIZE(names),
				  .requests = requests,
				  .n_requests = n_requests,
				  .n_lanes = 1 };
}

/* The next sample of a counter, from *at on; NULL: there is none. */
static const XEvent *sample(const XPlane *plane, const char *counter, size_t *at)
{
	for (size_t i = 0, n = 0; i < plane->n_lines; i++)
		for (size_t k = 0;
		     k < plane->lines[i]->n_events && !strcmp(plane->lines[i]->name, "_counters_");
		     k++)
			if (!strcmp(event_name(plane, plane->lines[i]->events[k]), counter) &&
			    n++ == *at) {
				(*at)++;
				return plane->lines[i]->events[k];
			}
	return NULL;
}

struct expected {
	uint64_t at_ns;
	int64_t value;
};

static void check_samples(const XPlane *plane, const char *counter, const char *series,
			  const struct expected *expected, size_t n)
{
	const XEvent *event;
	size_t at = 0;

	while ((event = sample(plane, counter, &at))) {
		CHECK(at <= n);
		CHECK_EQ(event->offset_ps / 1000, expected[at - 1].at_ns);
		CHECK_EQ(event->duration_ps, 0);
		CHECK(has_int(plane, event, series, expected[at - 1].value));
	}
	CHECK_EQ(at, n);
}

TEST(a_counter_has_a_sample_wherever_it_changes_and_one_where_the_window_begins)
{
	struct request requests[] = { request(100, 500), request(300, 700), request(700, 800),
				      request(900, 2000000) };
	static const struct expected expected[] = { { 0, 0 },      { 100, 1 }, { 300, 2 },
						    { 500, 1 },    { 800, 0 }, { 900, 1 },
						    { 1000000, 0 } };
	struct timeline t = timeline(requests, ARRAY_SIZE(requests));
	XSpace *space = export_at(&t, 1);

	/* At 700 one ends and one begins: nothing changes. */
	check_samples(find_plane(space, "/host:CPU"), "requests in flight", "requests", expected,
		      ARRAY_SIZE(expected));
	space_free(space);
}

TEST(filtered_requests_are_not_counted_and_a_counter_that_stays_0_is_omitted)
{
	struct request requests[] = { request(0, 500), request(300, 700) };
	static const struct expected expected[] = { { 0, 1 }, { 500, 0 } };
	struct timeline t = timeline(requests, ARRAY_SIZE(requests));
	size_t at = 0;
	XSpace *space;

	requests[1].flags = REQUEST_FILTERED;
	space = export_at(&t, 3);
	check_samples(find_plane(space, "/host:CPU"), "requests in flight", "requests", expected,
		      ARRAY_SIZE(expected));
	CHECK(!sample(find_plane(space, "/host:CPU"), "requests queued", &at));
	CHECK(!sample(find_plane(space, "/host:CPU"), "runnable threads", &at));
	space_free(space);
}

TEST(queue_lengths_come_from_critical_paths_and_tasks_of_batches)
{
	struct request requests[] = { request(0, 900) };
	struct segment segments[] = { { START, START + 200, 0, TEXT_NONE, -1, PHASE_READ,
					ACTIVITY_RUNNING, 0 },
				      { START + 200, START + 300, THREAD_NONE, TEXT_NONE, -1,
					PHASE_QUEUE, ACTIVITY_WAITING, 0 },
				      { START + 300, START + 900, 0, TEXT_NONE, -1,
					PHASE_EXECUTE_RUNNING, ACTIVITY_RUNNING, 0 } };
	struct batch batches[] = {
		{ .start_ns = START + 600, .end_ns = START + 800, .n_tasks = 2 }
	};
	struct batch_task tasks[] = { { .queued_ns = START + 400 },
				      { .queued_ns = START + 500 },
				      { .queued_ns = START + 700, .batch = UINT32_MAX } };
	static const struct expected queued[] = { { 0, 0 }, { 200, 1 }, { 300, 0 } };
	static const struct expected in_batches[] = {
		{ 0, 0 }, { 400, 1 }, { 500, 2 }, { 600, 0 }
	};
	struct timeline t = timeline(requests, ARRAY_SIZE(requests));
	XSpace *space;

	requests[0].n_segments = ARRAY_SIZE(segments);
	t.segments = segments;
	t.n_segments = ARRAY_SIZE(segments);
	t.batches = batches;
	t.n_batches = ARRAY_SIZE(batches);
	t.batch_tasks = tasks;
	t.n_batch_tasks = ARRAY_SIZE(tasks);
	space = export_at(&t, 1);
	check_samples(find_plane(space, "/host:CPU"), "requests queued", "requests", queued,
		      ARRAY_SIZE(queued));
	check_samples(find_plane(space, "/host:CPU"), "tasks in batch queues", "tasks", in_batches,
		      ARRAY_SIZE(in_batches));
	space_free(space);
}

TEST(threads_that_run_or_wait_for_a_cpu_are_counted_from_level_2_on_and_waiting_and_throttled_ones_too)
{
	struct cpu_slice slices[] = {
		{ .start_ns = START + 100, .end_ns = START + 600 },
		{ .start_ns = START + 300, .end_ns = START + 400, .thread = 1, .cpu = 1 }
	};
	struct span spans[] = { { .start_ns = START + 200,
				  .end_ns = START + 300,
				  .kind = SPAN_RUNNABLE,
				  .thread = 1,
				  .cpu_user = -1 },
				{ .start_ns = START + 400,
				  .end_ns = START + 500,
				  .kind = SPAN_BLOCKED,
				  .thread = 1,
				  .waker = -1 },
				{ .start_ns = START + 600,
				  .end_ns = START + 700,
				  .kind = SPAN_THROTTLED,
				  .quota = -1 } };
	static const struct expected runnable[] = {
		{ 0, 0 }, { 100, 1 }, { 200, 2 }, { 400, 1 }, { 600, 0 }
	};
	static const struct expected waiting[] = { { 0, 0 }, { 200, 1 }, { 300, 0 } };
	static const struct expected throttled[] = { { 0, 0 }, { 600, 1 }, { 700, 0 } };
	struct timeline t = timeline(NULL, 0);
	size_t at = 0;
	XSpace *space;

	t.slices = slices;
	t.n_slices = ARRAY_SIZE(slices);
	t.spans = spans;
	t.n_spans = ARRAY_SIZE(spans);
	space = export_at(&t, 2);
	check_samples(find_plane(space, "/host:CPU"), "runnable threads", "threads", runnable,
		      ARRAY_SIZE(runnable));
	check_samples(find_plane(space, "/host:CPU"), "threads waiting for a CPU", "threads",
		      waiting, ARRAY_SIZE(waiting));
	check_samples(find_plane(space, "/host:CPU"), "throttled threads", "threads", throttled,
		      ARRAY_SIZE(throttled));
	space_free(space);
	space = export_at(&t, 1);
	CHECK(!sample(find_plane(space, "/host:CPU"), "runnable threads", &at));
	space_free(space);
}

TEST(curves_stop_where_a_kind_was_shed)
{
	struct request requests[] = { request(100, 400), request(300, 700) };
	static const struct expected expected[] = { { 0, 0 }, { 100, 1 }, { 300, 2 }, { 400, 1 } };
	struct timeline t = timeline(requests, ARRAY_SIZE(requests));
	XSpace *space;
	struct gap gaps[] = {
		{ .start_ns = START + 200,
		  .end_ns = START + 250,
		  .text = (char *)"sampled",
		  .of = GAP_OF_OPS },
		{ .start_ns = START + 500, .text = (char *)"disabled" },
	};

	t.gaps = gaps;
	t.n_gaps = ARRAY_SIZE(gaps);
	space = export_at(&t, 1);
	check_samples(find_plane(space, "/host:CPU"), "requests in flight", "requests", expected,
		      ARRAY_SIZE(expected));
	space_free(space);
}

/* The value that a curve has at a time: that of the last sample until then. */
static int64_t value_at(const XPlane *plane, const char *counter, uint64_t at_ns)
{
	const XEvent *event;
	int64_t value = -1;
	size_t at = 0;

	while ((event = sample(plane, counter, &at)) && (uint64_t)event->offset_ps / 1000 <= at_ns)
		value = find_stat(plane, event, "requests")->int64_value;
	return value;
}

TEST(a_counter_with_too_many_changes_shows_the_highest_value_of_each_part_of_the_window)
{
	static struct request requests[MANY + 2];
	struct timeline t = timeline(requests, MANY + 2);
	const uint64_t part = 1000000 / COUNTER_SAMPLES + 1;
	uint64_t n = 0;
	const XPlane *plane;
	XSpace *space;
	size_t at = 0;

	/* Short ones one after the other in the first half; a long one over some of them; one that
	 * is alone. */
	for (uint64_t i = 0; i < MANY; i++)
		requests[i] = request(i * 50, i * 50 + 10);
	requests[MANY] = request(100000, 200000);
	requests[MANY + 1] = request(700000, 700001);
	space = export_at(&t, 1);
	plane = find_plane(space, "/host:CPU");
	while (sample(plane, "requests in flight", &at))
		n++;
	CHECK(n > 4 && n < 20);
	CHECK_EQ(value_at(plane, "requests in flight", 50000), 1);
	CHECK_EQ(value_at(plane, "requests in flight", 150000), 2);
	CHECK_EQ(value_at(plane, "requests in flight", 300000), 1);
	CHECK_EQ(value_at(plane, "requests in flight", 600000), 0);
	CHECK_EQ(value_at(plane, "requests in flight", 700000), 1);
	CHECK_EQ(value_at(plane, "requests in flight", 700000 + part), 0);
	space_free(space);
}

CHECK_MAIN()
