/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes of requests, from timelines made by hand and at random. Sources are included, so that
 * allocations can be made to fail. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/check.h"

static long allocations_left = -1; /* -1: no limit */

static bool may_allocate(void)
{
	return allocations_left < 0 || allocations_left-- != 0;
}

#define malloc(size) (may_allocate() ? malloc(size) : NULL)
#define calloc(n, size) (may_allocate() ? calloc(n, size) : NULL)
#define realloc(p, size) (may_allocate() ? realloc(p, size) : NULL)
#include "daemon/timeline/lifetime.c"
#include "daemon/timeline/span_index.c"
#undef malloc
#undef calloc
#undef realloc

static const char *const phases[PHASE_COUNT] = { "accept",  "read",    "decode",   "queue",
						 "batch",   "running", "runnable", "throttled",
						 "blocked", "execute", "handler",  "encode",
						 "write",   "held",    "unknown" };
static const char *const activities[] = { "unknown", "running", "runnable",
					  "blocked", "waiting", "throttled" };

enum { THREADS = 8 };

static struct timeline *scene_new(void)
{
	struct timeline *t = calloc(1, sizeof(*t));

	t->threads = calloc(THREADS, sizeof(t->threads[0]));
	t->n_threads = THREADS;
	return t;
}

static void add_span(struct timeline *t, struct span s)
{
	/* Sanitizers copy at each realloc. */
	if (!(t->n_spans & (t->n_spans - 1)))
		t->spans = realloc(t->spans, (t->n_spans ? 2 * t->n_spans : 1) * sizeof(s));
	t->spans[t->n_spans++] = s;
}

/* Each of them: thread, from, to. */
static void run(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, uint64_t context,
		uint32_t request)
{
	add_span(t, (struct span){ .kind = SPAN_RUN,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .context = context,
				   .request = request,
				   .step = -1 });
}

static void piece(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, uint64_t context)
{
	add_span(t, (struct span){ .kind = SPAN_EXECUTOR,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .context = context,
				   .step = -1 });
}

static void op(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, uint32_t name)
{
	add_span(t, (struct span){ .kind = SPAN_OP,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .name = name,
				   .step = -1 });
}

static void blocked(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, uint32_t name,
		    int64_t by)
{
	add_span(t, (struct span){ .kind = SPAN_BLOCKED,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .name = name,
				   .waker = by });
}

static void runnable(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, int64_t hog)
{
	add_span(t, (struct span){ .kind = SPAN_RUNNABLE,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .cpu_user = hog });
}

static void throttled(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to,
		      int64_t quota)
{
	add_span(t, (struct span){ .kind = SPAN_THROTTLED,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .quota = quota });
}

/* A batch, its span with that context, and one task. */
static void batch(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to, uint64_t context,
		  uint64_t queued, uint64_t of_run)
{
	t->batches = realloc(t->batches, (t->n_batches + 1) * sizeof(t->batches[0]));
	t->batch_tasks =
		realloc(t->batch_tasks, (t->n_batch_tasks + 1) * sizeof(t->batch_tasks[0]));
	t->batches[t->n_batches] = (struct batch){ .start_ns = from,
						   .end_ns = to,
						   .thread = thread,
						   .first_task = t->n_batch_tasks,
						   .n_tasks = 1 };
	t->batch_tasks[t->n_batch_tasks++] =
		(struct batch_task){ .queued_ns = queued, .batch = t->n_batches, .run = of_run };
	add_span(t, (struct span){ .kind = SPAN_BATCH,
				   .thread = thread,
				   .start_ns = from,
				   .end_ns = to,
				   .context = context,
				   .batch = t->n_batches++ });
}

/* Arrives at 100, is read on thread 0 from 110 to 120, answered by thread 1 from 900 to 1000. */
static struct request *request(struct timeline *t)
{
	struct request *r;

	t->requests = realloc(t->requests, (t->n_requests + 1) * sizeof(*r));
	r = &t->requests[t->n_requests++];
	*r = (struct request){ .start_ns = 100,
			       .read_start_ns = 110,
			       .read_end_ns = 120,
			       .write_start_ns = 900,
			       .end_ns = 1000,
			       .read_thread = 0,
			       .write_thread = 1,
			       .run_thread = THREAD_NONE,
			       .protocol = PROTOCOL_HTTP1 };
	return r;
}

/* What must be true for every request, whatever its records are. */
static bool is_exact(const struct timeline *t, const struct request *r)
{
	uint64_t sums[PHASE_COUNT] = {}, at = r->start_ns, sum = 0;

	if (r->end_ns < r->start_ns)
		return r->n_segments == 0;
	if (r->n_segments > PATH_SEGMENTS_MAX || r->first_segment + r->n_segments > t->n_segments)
		return false;
	for (uint64_t i = 0; i < r->n_segments; i++) {
		const struct segment *s = &t->segments[r->first_segment + i];

		if (s->start_ns != at || s->end_ns <= s->start_ns || s->phase >= PHASE_COUNT ||
		    s->activity > ACTIVITY_THROTTLED)
			return false;
		if ((s->thread != THREAD_NONE && s->thread >= t->n_threads) || s->by < -1 ||
		    s->by >= (int32_t)t->n_threads)
			return false;
		if (i && s[-1].phase == s->phase && s[-1].activity == s->activity &&
		    s[-1].thread == s->thread && s[-1].name == s->name && s[-1].by == s->by)
			return false;
		at = s->end_ns;
		sums[s->phase] += s->end_ns - s->start_ns;
	}
	for (int i = 0; i < PHASE_COUNT; i++) {
		if (sums[i] != r->phases[i] || r->phases[i] > r->end_ns - r->start_ns)
			return false;
		sum += sums[i];
	}
	return at == r->end_ns && sum == r->end_ns - r->start_ns;
}

static void make(struct timeline *t)
{
	CHECK_EQ(timeline_finish(t), 0);
	CHECK_EQ(lifetime_make(t), 0);
	for (uint32_t i = 0; i < t->n_requests; i++)
		CHECK(is_exact(t, &t->requests[i]));
}

/* Segments from the time on until the other, as "start phase activity tTHREAD nNAME byTHREAD|…". */
static const char *story(const struct timeline *t, uint32_t index, uint64_t from, uint64_t to)
{
	static char text[4096];
	const struct request *r = &t->requests[index];
	size_t n = 0;

	text[0] = 0;
	for (uint64_t i = 0; i < r->n_segments && n < sizeof(text) - 100; i++) {
		const struct segment *s = &t->segments[r->first_segment + i];

		if (s->end_ns <= from || s->start_ns >= to)
			continue;
		n += (size_t)sprintf(text + n, "%s%llu %s %s", n ? "|" : "",
				     (unsigned long long)s->start_ns, phases[s->phase],
				     activities[s->activity]);
		if (s->thread != THREAD_NONE)
			n += (size_t)sprintf(text + n, " t%u", s->thread);
		if (s->name != TEXT_NONE)
			n += (size_t)sprintf(text + n, " n%u", s->name);
		if (s->by >= 0)
			n += (size_t)sprintf(text + n, " by%d", s->by);
	}
	return text;
}

/* Makes and compares what lies within the request's runs, from 200 to 800, or all of it; then frees
 * the timeline. */
static void check_execution(struct timeline *t, const char *want)
{
	make(t);
	CHECK_STR(story(t, 0, 200, 800), want);
	timeline_free(t);
}

static void check_all(struct timeline *t, const char *want)
{
	make(t);
	CHECK_STR(story(t, 0, 0, UINT64_MAX), want);
	timeline_free(t);
}

TEST(an_empty_timeline_has_no_lifetimes)
{
	struct timeline *t = scene_new();

	make(t);
	CHECK_EQ(t->n_segments, 0);
	timeline_free(t);
}

TEST(every_boundary_of_a_request_at_a_socket_starts_its_phase)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 500, 1, 1);
	run(t, 1, 600, 800, 2, 1);
	blocked(t, 1, 50, 150, 9, 0);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 queue blocked t1 n9 by0|150 decode running t1|200 running running t1|"
		"500 unknown running t1|600 running running t1|800 encode running t1|900 write running t1");
}

TEST(what_its_own_thread_does_between_two_runs_is_the_handlers_work)
{
	struct timeline *t = scene_new();

	request(t)->attribution = ATTRIBUTION_EXACT;
	run(t, 1, 200, 500, 1, 1);
	run(t, 1, 600, 700, 2, 1);
	/* On a thread that may have worked for others meanwhile. */
	run(t, 2, 750, 780, 3, 1);
	run(t, 2, 790, 800, 4, 1);
	blocked(t, 1, 550, 580, 9, 0);
	make(t);
	CHECK_STR(
		story(t, 0, 500, 800),
		"500 handler running t1|550 handler blocked t1 n9 by0|580 handler running t1|600 running running t1|700 unknown running t1|"
		"750 running running t2|780 unknown running t2|790 running running t2");
	timeline_free(t);
}

TEST(a_request_waits_in_the_accept_queue_and_then_for_a_thread)
{
	struct timeline *t = scene_new();

	request(t)->accepted_ns = 105;
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 50, 150, 9, 0);
	check_all(
		t,
		"100 accept waiting|105 queue waiting t0|110 read running t0|120 queue blocked t1 n9 by0|150 decode running t1|200 running running t1|"
		"800 encode running t1|900 write running t1");
}

TEST(an_accept_after_the_first_read_is_clamped)
{
	struct timeline *t = scene_new();

	request(t)->accepted_ns = 115;
	make(t);
	CHECK_STR(story(t, 0, 0, 120), "100 accept waiting|110 read unknown t0");
	timeline_free(t);
}

TEST(the_first_run_names_the_run_thread_and_a_request_without_runs_has_none)
{
	struct timeline *t = scene_new();

	request(t);
	request(t)->run_thread = 7;
	run(t, 3, 600, 800, 2, 1);
	run(t, 2, 200, 500, 1, 1);
	make(t);
	CHECK_EQ(t->requests[0].run_thread, 2);
	CHECK_EQ(t->requests[1].run_thread, THREAD_NONE);
	timeline_free(t);
}

TEST(a_request_without_a_run_is_unknown_between_reading_and_writing)
{
	struct timeline *t = scene_new();

	request(t);
	blocked(t, 1, 500, 600, 4, 2);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 unknown running t1|500 unknown blocked t1 n4 by2|600 unknown running t1|"
		"900 write running t1");
}

/* Read and answered by one thread. */
static struct request *served(struct timeline *t, uint32_t thread)
{
	struct request *r = request(t);

	r->read_thread = r->write_thread = thread;
	return r;
}

TEST(a_request_without_a_run_is_its_threads_own_work_while_that_has_no_other_request)
{
	struct timeline *t = scene_new();
	struct request *other;

	served(t, 1);
	/* One before, one after, and one of another thread. */
	other = served(t, 1);
	other->start_ns = other->read_start_ns = 10;
	other->read_end_ns = 15;
	other->write_start_ns = 50;
	other->end_ns = 118;
	other = served(t, 1);
	other->start_ns = 200;
	other->read_start_ns = 950;
	other->read_end_ns = 960;
	other->write_start_ns = 970;
	other->end_ns = 980;
	served(t, 2);
	make(t);
	CHECK_STR(
		story(t, 0, 0, 1000),
		"100 queue waiting t1|110 read unknown t1|120 handler unknown t1|900 write unknown t1");
	CHECK_EQ(t->requests[3].phases[PHASE_HANDLER], 780);
	timeline_free(t);
}

TEST(of_requests_that_a_thread_has_at_once_none_is_known_to_have_its_work)
{
	static const struct {
		uint64_t read_ns, end_ns;
	} others[] = { { 105, 1100 }, { 105, 500 }, { 300, 500 }, { 300, 1100 } };

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		struct timeline *t = scene_new();
		struct request *other;

		served(t, 1);
		other = request(t);
		other->read_thread = 1;
		other->write_thread = 3;
		other->read_start_ns = other->read_end_ns = others[i].read_ns;
		other->end_ns = others[i].end_ns;
		other->write_start_ns = MIN(other->write_start_ns, other->end_ns);
		make(t);
		CHECK_EQ(t->requests[0].phases[PHASE_HANDLER], 0);
		CHECK_EQ(t->requests[0].phases[PHASE_UNKNOWN], 780);
		timeline_free(t);
	}
}

TEST(without_the_scheduler_execution_is_one_phase_but_for_batches)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 2, 300, 500, 1);
	batch(t, 3, 450, 700, 5, 400, 1);
	check_all(
		t,
		"100 queue waiting t0|110 read unknown t0|120 unknown unknown t1|200 execute unknown t1|400 batch waiting t3|"
		"450 execute unknown t3|700 execute unknown t1|800 encode unknown t1|900 write unknown t1");
}

TEST(throttled_time_is_a_phase_of_execution_and_names_the_cgroup)
{
	struct timeline *t = scene_new();

	request(t);
	t->quotas[0] = (struct quota){ .name = 5 };
	t->quotas[1] = (struct quota){ .name = TEXT_NONE };
	t->n_quotas = 2;
	run(t, 1, 200, 800, 1, 1);
	throttled(t, 1, 115, 150, 0);
	throttled(t, 1, 300, 400, 0);
	throttled(t, 1, 500, 550, 1);
	throttled(t, 1, 600, 610, 2);
	throttled(t, 1, 850, 870, -1);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 queue throttled t1 n5|150 decode running t1|200 running running t1|"
		"300 throttled throttled t1 n5|400 running running t1|500 throttled throttled t1|550 running running t1|600 throttled throttled t1|"
		"610 running running t1|800 encode running t1|850 encode throttled t1|870 encode running t1|900 write running t1");
}

TEST(of_concurrent_batches_the_one_that_ends_last_counts)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	batch(t, 3, 300, 700, 5, 250, 1);
	batch(t, 4, 400, 450, 6, 250, 1);
	check_execution(
		t,
		"200 execute unknown t1|250 batch waiting t3|300 execute unknown t3|700 execute unknown t1");
}

/* The scheduler's probes were disabled. */
static void gap(struct timeline *t)
{
	t->gaps = calloc(1, sizeof(t->gaps[0]));
	CHECK(t->gaps != NULL);
	t->n_gaps = 1;
}

TEST(time_after_the_last_scheduler_record_is_not_taken_for_running)
{
	struct timeline *t = scene_new();

	request(t);
	gap(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 400, 4, -1);
	check_execution(t,
			"200 running running t1|300 blocked blocked t1 n4|400 execute unknown t1");
	t = scene_new();
	request(t);
	gap(t);
	run(t, 1, 200, 300, 1, 1);
	blocked(t, 1, 400, 500, 4, -1);
	check_execution(
		t,
		"200 running running t1|300 encode running t1|400 encode blocked t1 n4|500 encode unknown t1");
}

TEST(unknown_boundaries_make_no_phase)
{
	struct timeline *t = scene_new();
	struct request *r = request(t);

	r->read_start_ns = r->read_end_ns = r->write_start_ns = 0;
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 5, 1, 2, 0, -1);
	check_all(t, "100 unknown running t1|200 running running t1|800 unknown running t1");
	t = scene_new();
	r = request(t);
	r->read_start_ns = 0;
	r->write_thread = THREAD_NONE;
	blocked(t, 5, 1, 2, 0, -1);
	check_all(t, "100 read running t0|120 unknown running t0|900 write unknown");
}

TEST(without_an_arrival_a_request_begins_where_it_is_read)
{
	struct timeline *t = scene_new();

	request(t)->flags = REQUEST_NO_ARRIVAL;
	run(t, 0, 200, 800, 1, 1);
	make(t);
	CHECK_STR(story(t, 0, 0, 200), "100 read unknown t0|120 decode unknown t0");
	timeline_free(t);
}

TEST(a_request_truncated_at_the_end_ends_in_its_current_phase)
{
	struct timeline *t = scene_new();
	struct request *r = request(t);

	r->read_end_ns = r->write_start_ns = 0;
	r->flags = REQUEST_TRUNCATED_END;
	blocked(t, 5, 1, 2, 0, -1);
	check_all(t, "100 queue waiting t0|110 read running t0");
	t = scene_new();
	r = request(t);
	r->write_start_ns = 0;
	r->flags = REQUEST_TRUNCATED_END;
	run(t, 0, 200, 1100, 1, 1);
	blocked(t, 5, 1, 2, 0, -1);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 decode running t0|200 running running t0");
	t = scene_new();
	r = request(t);
	r->write_start_ns = 0;
	r->flags = REQUEST_TRUNCATED_END;
	run(t, 0, 200, 800, 1, 1);
	blocked(t, 5, 1, 2, 0, -1);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 decode running t0|200 running running t0|800 encode running t0");
}

TEST(times_out_of_order_are_clamped)
{
	struct timeline *t = scene_new();
	struct request *r = request(t);

	*r = (struct request){ .start_ns = 500,
			       .read_start_ns = 900,
			       .read_end_ns = 100,
			       .write_start_ns = 50,
			       .end_ns = 1000,
			       .read_thread = 0,
			       .write_thread = 99,
			       .run_thread = THREAD_NONE };
	run(t, 1, 200, 600, 1, 1);
	run(t, 1, 1200, 1300, 2, 1);
	blocked(t, 5, 1, 2, 0, -1);
	check_all(t, "500 running running t1|600 write unknown");
	t = scene_new();
	r = request(t);
	r->end_ns = 50;
	make(t);
	CHECK_EQ(t->n_segments, 0);
	timeline_free(t);
}

TEST(an_inexact_end_is_replaced_by_the_answer)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 950, 1, 1);
	t->spans[0].flags = SPAN_END_NOT_SEEN;
	blocked(t, 1, 120, 150, 3, -1);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 queue blocked t1 n3|150 decode running t1|200 running running t1|"
		"900 write running t1");
}

TEST(a_handler_decodes_before_its_first_run_and_encodes_after_its_last)
{
	struct timeline *t = scene_new();
	struct request *r = request(t);

	*r = (struct request){ .start_ns = 100,
			       .end_ns = 1000,
			       .read_thread = THREAD_NONE,
			       .write_thread = THREAD_NONE,
			       .run_thread = 1,
			       .protocol = PROTOCOL_HANDLER };
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 120, 180, 3, -1);
	check_all(
		t,
		"100 decode running t1|120 decode blocked t1 n3|180 decode running t1|200 running running t1|800 encode running t1");
	t = scene_new();
	r = request(t);
	*r = (struct request){ .start_ns = 100,
			       .end_ns = 1000,
			       .read_thread = THREAD_NONE,
			       .write_thread = THREAD_NONE,
			       .run_thread = 1,
			       .protocol = PROTOCOL_MARK };
	blocked(t, 1, 120, 180, 3, -1);
	check_all(t, "100 unknown running t1|120 unknown blocked t1 n3|180 unknown running t1");
}

TEST(a_sleep_in_decode_is_a_blocked_segment_of_decode)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 700, 800, 1, 1);
	blocked(t, 1, 10, 125, 8, 0);
	runnable(t, 1, 125, 130, 5);
	blocked(t, 1, 140, 640, 7, -1);
	runnable(t, 1, 640, 650, 6);
	make(t);
	CHECK_STR(
		story(t, 0, 120, 700),
		"120 queue blocked t1 n8 by0|125 queue runnable t1 by5|130 decode running t1|140 decode blocked t1 n7|"
		"640 decode runnable t1 by6|650 decode running t1");
	timeline_free(t);
}

TEST(a_thread_takes_up_a_request_when_it_has_finished_the_previous_one)
{
	struct timeline *t = scene_new();
	struct request *r;

	request(t);
	r = request(t); /* whose answer thread 1 wrote until 300 */
	*r = (struct request){ .start_ns = 10,
			       .write_start_ns = 250,
			       .end_ns = 300,
			       .read_thread = 0,
			       .write_thread = 1 };
	run(t, 1, 20, 200, 2, 2);
	run(t, 1, 400, 800, 1, 1);
	blocked(t, 5, 1, 2, 0, -1);
	make(t);
	CHECK_STR(story(t, 0, 120, 400), "120 queue waiting t1|300 decode running t1");
	timeline_free(t);
	/* Its own run is not an earlier one, even without a duration. */
	t = scene_new();
	request(t);
	run(t, 1, 400, 400, 1, 1);
	make(t);
	CHECK_STR(story(t, 0, 120, 900), "120 unknown unknown t1|400 encode unknown t1");
	timeline_free(t);
	/* Without a known end of its answer it is the run's. */
	t = scene_new();
	request(t);
	r = request(t);
	*r = (struct request){
		.start_ns = 10, .end_ns = 300, .read_thread = 0, .write_thread = THREAD_NONE
	};
	run(t, 1, 20, 200, 2, 2);
	run(t, 1, 400, 800, 1, 1);
	make(t);
	CHECK_STR(story(t, 0, 120, 400), "120 queue waiting t1|200 unknown unknown t1");
	timeline_free(t);
}

TEST(an_answer_that_another_thread_sends_waits_in_a_queue_until_then)
{
	struct timeline *t = scene_new();
	struct request *r = request(t);

	/* Thread 1 makes it until 600, and then waits for its next work; thread 0 sends it. */
	r->write_thread = 0;
	run(t, 1, 200, 500, 1, 1);
	blocked(t, 1, 600, 850, 0, 0);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000),
		  "500 encode running t1|600 queue waiting t0|900 write running t0");
	timeline_free(t);
	/* It is unknown since when, if it is not known when threads ran. */
	t = scene_new();
	r = request(t);
	r->write_thread = 0;
	run(t, 1, 200, 500, 1, 1);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000), "500 unknown unknown t1|900 write unknown t0");
	timeline_free(t);
}

/* A request that gRPC's library has shown: 100 to 1000. */
static struct request *library_request(struct timeline *t)
{
	struct request *r = request(t);

	r->flags |= REQUEST_AT_LIBRARY | REQUEST_NO_ARRIVAL;
	r->accepted_ns = r->read_start_ns = r->read_end_ns = r->write_start_ns = 0;
	r->read_thread = r->write_thread = THREAD_NONE;
	return r;
}

TEST(an_answer_that_another_thread_passes_to_the_library_waits_in_a_queue_until_then)
{
	struct timeline *t = scene_new();

	/* Thread 1 makes it until 600, and then waits; thread 0, an event loop, is busy. */
	library_request(t)->write_thread = 0;
	run(t, 1, 200, 500, 1, 1);
	blocked(t, 1, 600, 1200, 0, 0);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000), "500 encode running t1|600 queue waiting t0");
	timeline_free(t);
	t = scene_new();
	library_request(t)->write_thread = 0;
	run(t, 1, 200, 500, 1, 1);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000), "500 unknown unknown t1");
	timeline_free(t);
	/* It passes it itself. */
	t = scene_new();
	library_request(t)->write_thread = 1;
	run(t, 1, 200, 500, 1, 1);
	blocked(t, 1, 1100, 1200, 0, 0);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000), "500 encode running t1");
	timeline_free(t);
	/* Without an answer, nobody is known to have made one. */
	t = scene_new();
	library_request(t)->flags |= REQUEST_RESET;
	run(t, 1, 200, 500, 1, 1);
	blocked(t, 1, 1100, 1200, 0, 0);
	make(t);
	CHECK_STR(story(t, 0, 500, 1000), "500 unknown running t1");
	timeline_free(t);
}

TEST(a_thread_about_to_wait_takes_up_the_request_that_its_reader_wakes_it_for)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 400, 800, 1, 1);
	blocked(t, 1, 130, 300, 3, 0);
	blocked(t, 1, 320, 350, 4, 2);
	make(t);
	CHECK_STR(
		story(t, 0, 120, 400),
		"120 queue waiting t1|130 queue blocked t1 n3 by0|300 decode running t1|320 decode blocked t1 n4 by2|"
		"350 decode running t1");
	timeline_free(t);
}

TEST(the_thread_that_reads_a_request_has_taken_it_up)
{
	struct timeline *t = scene_new();

	request(t)->read_thread = 1;
	run(t, 1, 400, 800, 1, 1);
	blocked(t, 1, 120, 300, 3, 0);
	make(t);
	CHECK_STR(story(t, 0, 120, 400), "120 decode blocked t1 n3 by0|300 decode running t1");
	timeline_free(t);
}

TEST(a_slow_reader_of_the_answer_is_found_in_write)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 400, 800, 1, 1);
	blocked(t, 1, 910, 990, 6, -1);
	make(t);
	CHECK_STR(story(t, 0, 900, 1000),
		  "900 write running t1|910 write blocked t1 n6|990 write running t1");
	timeline_free(t);
}

TEST(running_segments_name_the_innermost_operation)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 1, 250, 750, 1);
	op(t, 1, 300, 600, 11);
	op(t, 1, 350, 450, 12);
	op(t, 1, 610, 700, 13);
	blocked(t, 1, 400, 420, 5, -1);
	check_execution(
		t,
		"200 running running t1|300 running running t1 n11|350 running running t1 n12|400 blocked blocked t1 n5|"
		"420 running running t1 n12|450 running running t1 n11|600 running running t1|610 running running t1 n13|"
		"700 running running t1");
}

TEST(work_that_waits_for_a_throttled_thread_is_throttled)
{
	struct timeline *t = scene_new();

	/* Thread 3 has other work until 350, and is throttled before it takes this work up. */
	request(t);
	t->quotas[0] = (struct quota){ .name = 5 };
	t->n_quotas = 1;
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	throttled(t, 3, 250, 320, 0);
	piece(t, 3, 330, 350, 7);
	throttled(t, 3, 360, 450, 0);
	runnable(t, 3, 450, 470, -1);
	piece(t, 3, 500, 700, 1);
	check_execution(
		t,
		"200 running running t1|300 throttled throttled t3 n5|320 queue waiting t3|360 throttled throttled t3 n5|450 queue waiting t3|"
		"500 running running t3|700 running running t1");
}

TEST(of_two_parallel_operations_the_one_that_ends_last_counts_once)
{
	struct timeline *t = scene_new();

	/* Thread 1 makes 2 and 3 ready at 300 and waits for both; 2 runs until 400, 3 until 600. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 310, 610, 9, 3);
	runnable(t, 1, 610, 620, -1);
	blocked(t, 2, 10, 300, 9, 1);
	piece(t, 2, 320, 400, 1);
	op(t, 2, 320, 400, 12);
	blocked(t, 3, 10, 305, 9, 1);
	runnable(t, 3, 305, 315, 7);
	piece(t, 3, 330, 615, 1);
	op(t, 3, 340, 600, 13);
	check_execution(
		t,
		"200 running running t1|305 runnable runnable t3 by7|315 running running t3|340 running running t3 n13|"
		"600 running running t3|610 runnable runnable t1|620 running running t1");
}

TEST(a_chain_over_three_threads_is_followed_by_its_wake_ups)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 4);
	blocked(t, 2, 10, 290, 9, 1);
	piece(t, 2, 310, 400, 1);
	op(t, 2, 320, 395, 12);
	blocked(t, 3, 10, 390, 9, 2);
	runnable(t, 3, 390, 410, 5);
	piece(t, 3, 420, 550, 1);
	op(t, 3, 420, 540, 13);
	blocked(t, 4, 10, 545, 9, 3);
	piece(t, 4, 560, 705, 1);
	op(t, 4, 560, 690, 14);
	blocked(t, 4, 600, 620, 8, -1);
	check_execution(
		t,
		"200 running running t1|290 running running t2|320 running running t2 n12|390 runnable runnable t3 by5|"
		"410 running running t3|420 running running t3 n13|540 running running t3|545 running running t4|"
		"560 running running t4 n14|600 blocked blocked t4 n8|620 running running t4 n14|690 running running t4|"
		"700 running running t1");
}

TEST(a_piece_without_a_wake_up_waited_since_the_latest_moment_of_the_run)
{
	struct timeline *t = scene_new();

	/* Thread 3 was on its CPU all the time; the run's thread waits from 300 on, thread 2's
	 * piece ends at 400. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	blocked(t, 2, 10, 290, 9, 1);
	piece(t, 2, 290, 400, 1);
	piece(t, 3, 500, 700, 1);
	check_execution(
		t,
		"200 running running t1|290 running running t2|400 queue waiting t3|500 running running t3|700 running running t1");
	/* Without thread 2 the latest moment is that at which the run's thread went to wait. */
	t = scene_new();
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	piece(t, 3, 500, 700, 1);
	check_execution(
		t,
		"200 running running t1|300 queue waiting t3|500 running running t3|700 running running t1");
}

TEST(a_wake_up_after_the_moment_at_hand_is_not_followed)
{
	struct timeline *t = scene_new();

	/* At 500, where thread 3 begins, thread 2 was waiting: what thread 4 will wake it for came
	 * too late. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	blocked(t, 2, 10, 290, 9, 1);
	piece(t, 2, 290, 800, 1);
	blocked(t, 2, 350, 650, 8, 4);
	piece(t, 4, 320, 660, 1);
	piece(t, 3, 500, 700, 1);
	check_execution(
		t,
		"200 running running t1|290 running running t2|350 blocked blocked t2 n8 by4|500 running running t3|"
		"700 running running t1");
}

TEST(a_thread_busy_with_another_run_was_not_woken_for_this_one)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	run(t, 4, 100, 600, 2, 0);
	blocked(t, 3, 10, 290, 9, 1);
	piece(t, 3, 310, 480, 2);
	piece(t, 3, 500, 700, 1);
	check_execution(
		t,
		"200 running running t1|300 queue waiting t3|500 running running t3|700 running running t1");
}

TEST(what_a_thread_does_right_after_its_piece_belongs_to_it)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	blocked(t, 3, 10, 280, 9, 1);
	piece(t, 3, 290, 650, 1);
	check_execution(t, "200 running running t1|280 running running t3|700 running running t1");
	/* So does what it does between two pieces. */
	t = scene_new();
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	blocked(t, 3, 10, 280, 9, 1);
	piece(t, 3, 290, 400, 1);
	piece(t, 3, 410, 700, 1);
	check_execution(t, "200 running running t1|280 running running t3|700 running running t1");
	/* Unless it left its CPU in between. */
	t = scene_new();
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 3);
	piece(t, 3, 290, 650, 1);
	blocked(t, 3, 660, 670, 9, -1);
	check_execution(
		t, "200 running running t1|300 blocked blocked t1 n9 by3|700 running running t1");
}

TEST(a_wait_for_a_lock_is_blocked_and_names_the_thread_that_woke_it)
{
	struct timeline *t = scene_new();

	/* Thread 6 is in a run too, but in another one. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 1, 210, 790, 1);
	op(t, 1, 300, 700, 11);
	blocked(t, 1, 350, 600, 9, 6);
	run(t, 6, 100, 900, 2, 0);
	piece(t, 6, 100, 900, 2);
	check_execution(
		t,
		"200 running running t1|300 running running t1 n11|350 blocked blocked t1 n9 by6|600 running running t1 n11|"
		"700 running running t1");
}

TEST(a_hog_on_the_same_cpu_is_named_by_the_run_queue)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	op(t, 1, 300, 700, 11);
	runnable(t, 1, 400, 500, 7);
	runnable(t, 1, 500, 600, 6);
	check_execution(
		t,
		"200 running running t1|300 running running t1 n11|400 runnable runnable t1 by7|500 runnable runnable t1 by6|"
		"600 running running t1 n11|700 running running t1");
}

TEST(a_thread_that_waits_for_a_cpu_while_others_execute_its_run_waits_for_them_first)
{
	struct timeline *t = scene_new();

	/* Thread 1 hands its run to 2 and is preempted before it can wait for it. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	runnable(t, 1, 310, 700, 7);
	blocked(t, 2, 10, 300, 9, 1);
	piece(t, 2, 320, 500, 1);
	op(t, 2, 320, 480, 12);
	runnable(t, 2, 350, 450, 7);
	check_execution(
		t,
		"200 running running t1|300 running running t2|320 running running t2 n12|350 runnable runnable t2 by7|"
		"450 running running t2 n12|480 running running t2|500 runnable runnable t1 by7|700 running running t1");
}

TEST(a_piece_with_an_inexact_end_is_over_when_its_thread_starts_to_wait)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	runnable(t, 1, 310, 700, 7);
	blocked(t, 2, 10, 300, 9, 1);
	piece(t, 2, 320, 690, 1);
	t->spans[t->n_spans - 1].flags = SPAN_END_NOT_SEEN;
	op(t, 2, 320, 480, 12);
	blocked(t, 2, 500, 750, 9, 3);
	check_execution(
		t,
		"200 running running t1|300 running running t2|320 running running t2 n12|480 running running t2|"
		"500 runnable runnable t1 by7|700 running running t1");
}

TEST(a_thread_preempted_within_its_own_piece_waits_only_for_a_cpu)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 1, 250, 750, 1);
	op(t, 1, 300, 720, 11);
	runnable(t, 1, 310, 700, 7);
	blocked(t, 2, 10, 300, 9, 1);
	piece(t, 2, 320, 760, 1);
	check_execution(
		t,
		"200 running running t1|300 running running t1 n11|310 runnable runnable t1 by7|700 running running t1 n11|"
		"720 running running t1");
}

TEST(a_batch_that_is_processed_while_its_runs_thread_waits_for_a_cpu_is_execution)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	runnable(t, 1, 260, 700, 7);
	batch(t, 5, 400, 600, 9, 250, 1);
	check_execution(
		t,
		"200 running running t1|250 batch waiting t5|400 running running t5|600 runnable runnable t1 by7|"
		"700 running running t1");
}

TEST(a_batch_that_a_child_executes_goes_on_there_until_that_has_answered)
{
	struct timeline *t = scene_new();

	/* Thread 4 is another process's: it wakes thread 3 with the answer, and waits until that is
	 * taken. Thread 3 is preempted before that. */
	request(t);
	run(t, 1, 200, 250, 1, 1);
	t->spans[t->n_spans - 1].flags = SPAN_HANDED_OVER;
	blocked(t, 3, 10, 300, 9, 1);
	batch(t, 3, 310, 790, 50, 250, 1);
	blocked(t, 3, 350, 600, 9, 4);
	runnable(t, 3, 620, 700, 7);
	blocked(t, 4, 10, 345, 9, 3);
	piece(t, 4, 360, 760, 50);
	t->spans[t->n_spans - 1].flags = SPAN_CHILD;
	op(t, 4, 370, 580, 14);
	blocked(t, 4, 605, 750, 9, 3);
	check_execution(
		t,
		"200 running running t1|250 batch waiting t3|310 running running t3|345 running running t4|"
		"370 running running t4 n14|580 running running t4|600 running running t3|620 runnable runnable t3 by7|"
		"700 running running t3|790 encode running t3");
}

TEST(a_task_waits_in_its_batch_and_the_batchs_own_work_is_execution)
{
	struct timeline *t = scene_new();

	/*
	 * Thread 1 waits for the answer of its run, thread 2 puts a task into the batch of thread
	 * 3, which has its work done by thread 4 in a run of its own and wakes thread 2 for the
	 * rest.
	 */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 260, 780, 9, 2);
	blocked(t, 2, 10, 250, 9, 1);
	piece(t, 2, 255, 300, 1);
	blocked(t, 3, 10, 285, 9, 1);
	batch(t, 3, 400, 700, 50, 290, 1);
	run(t, 3, 410, 650, 60, 0);
	blocked(t, 3, 430, 600, 9, 4);
	blocked(t, 4, 10, 425, 9, 3);
	runnable(t, 4, 425, 440, 5);
	piece(t, 4, 440, 610, 60);
	op(t, 4, 440, 590, 14);
	blocked(t, 2, 310, 690, 9, 3);
	piece(t, 2, 700, 785, 1);
	check_execution(
		t,
		"200 running running t1|250 running running t2|290 batch waiting t3|400 running running t3|425 runnable runnable t4 by5|"
		"440 running running t4 n14|590 running running t4|600 running running t3|690 running running t2|780 running running t1");
}

TEST(a_batch_whose_callback_continues_the_run_on_its_own_thread_is_followed)
{
	struct timeline *t = scene_new();

	/* The run's piece on the batch thread lies within the batch; the context of a run within
	 * the run is the run's. */
	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 1, 210, 300, 1);
	run(t, 1, 220, 300, 2, 0);
	batch(t, 3, 500, 750, 50, 290, 2);
	blocked(t, 1, 310, 720, 9, 3);
	piece(t, 3, 700, 730, 1);
	check_execution(
		t,
		"200 running running t1|290 batch waiting t3|500 running running t3|720 running running t1");
}

TEST(work_after_a_batch_without_a_wake_up_waited_since_the_batchs_end)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 1, 210, 300, 1);
	batch(t, 3, 400, 600, 50, 290, 1);
	blocked(t, 1, 310, 720, 9, 2);
	piece(t, 2, 650, 730, 1);
	check_execution(
		t,
		"200 running running t1|290 batch waiting t3|400 running running t3|600 queue waiting t2|650 running running t2|"
		"720 running running t1");
}

/* A run that hands its work over. */
static void handed_over(struct timeline *t, uint32_t thread, uint64_t from, uint64_t to)
{
	run(t, thread, from, to, 1, 1);
	t->spans[t->n_spans - 1].flags |= SPAN_HANDED_OVER;
}

TEST(work_that_goes_on_in_a_batch_after_its_run_returned_is_followed)
{
	struct timeline *t = scene_new();

	served(t, 0);
	handed_over(t, 0, 200, 210);
	batch(t, 3, 400, 700, 5, 205, 1);
	blocked(t, 0, 250, 890, 9, 3);
	blocked(t, 3, 500, 600, 8, -1);
	blocked(t, 3, 720, 1100, 8, -1);
	check_all(
		t,
		"100 queue waiting t0|110 read running t0|120 decode running t0|200 running running t0|205 batch waiting t3|"
		"400 running running t3|500 blocked blocked t3 n8|600 running running t3|700 encode running t3|"
		"720 queue blocked t0 n9 by3|890 queue waiting t0|900 write running t0");
}

TEST(a_batch_in_progress_when_its_runs_answer_is_sent_is_execution_until_then)
{
	struct timeline *t = scene_new();

	served(t, 0);
	handed_over(t, 0, 200, 210);
	batch(t, 3, 400, 1100, 5, 205, 1);
	check_all(
		t,
		"100 queue waiting t0|110 read unknown t0|120 decode unknown t0|200 execute unknown t0|205 batch waiting t3|"
		"400 execute unknown t3|900 write unknown t0");
}

TEST(work_that_was_handed_over_and_not_seen_again_is_unknown)
{
	struct timeline *t = scene_new();

	served(t, 0);
	handed_over(t, 0, 200, 210);
	check_all(
		t,
		"100 queue waiting t0|110 read unknown t0|120 decode unknown t0|200 execute unknown t0|210 unknown unknown t0|"
		"900 write unknown t0");
}

TEST(another_runs_batch_is_not_followed)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	run(t, 2, 200, 800, 2, 0);
	batch(t, 3, 500, 750, 50, 290, 2);
	blocked(t, 1, 310, 720, 9, 3);
	check_execution(
		t, "200 running running t1|310 blocked blocked t1 n9 by3|720 running running t1");
}

TEST(pieces_of_a_run_within_a_run_are_the_outer_ones)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	blocked(t, 1, 300, 700, 9, 2);
	blocked(t, 2, 10, 290, 9, 1);
	piece(t, 2, 295, 705, 1);
	run(t, 2, 320, 650, 2, 0);
	blocked(t, 2, 330, 640, 9, 3);
	blocked(t, 3, 10, 325, 9, 2);
	piece(t, 3, 328, 642, 2);
	op(t, 3, 400, 600, 13);
	check_execution(
		t,
		"200 running running t1|290 running running t2|325 running running t3|400 running running t3 n13|"
		"600 running running t3|640 running running t2|700 running running t1");
}

TEST(a_cycle_of_wake_ups_ends)
{
	struct timeline *t = scene_new();

	request(t);
	run(t, 1, 200, 800, 1, 1);
	piece(t, 2, 200, 800, 1);
	blocked(t, 1, 300, 700, 9, 2);
	blocked(t, 2, 300, 700, 9, 1);
	make(t);
	CHECK_EQ(t->requests[0].phases[PHASE_EXECUTE_BLOCKED], 400);
	timeline_free(t);
}

TEST(time_beyond_a_requests_segments_is_unknown)
{
	struct timeline *t = scene_new();

	request(t)->end_ns = 1000000;
	t->requests[0].write_start_ns = 1000000;
	run(t, 1, 200, 900000, 1, 1);
	for (uint64_t i = 0; i < 50000; i++)
		blocked(t, 1, 10000 + 10 * i, 10005 + 10 * i, 9, -1);
	make(t);
	CHECK_EQ(t->n_segments, PATH_SEGMENTS_MAX);
	CHECK_EQ(t->segments[0].phase, PHASE_UNKNOWN);
	CHECK_EQ(t->segments[0].start_ns, 100);
	CHECK_EQ(t->segments[1].phase, PHASE_EXECUTE_BLOCKED);
	timeline_free(t);
}

TEST(without_segments_left_each_request_has_one_unknown_segment)
{
	struct timeline *t = scene_new();

	for (int i = 0; i < 10; i++)
		request(t);
	for (uint32_t i = 1; i <= 10; i++)
		run(t, 1, 200, 800, i, i);
	CHECK_EQ(timeline_finish(t), 0);
	CHECK_EQ(make_all(t, 20), 0);
	CHECK(t->n_segments <= 20);
	for (uint32_t i = 0; i < t->n_requests; i++) {
		CHECK(is_exact(t, &t->requests[i]));
		CHECK(t->requests[i].n_segments >= 1);
	}
	CHECK_EQ(t->requests[9].phases[PHASE_UNKNOWN], 900);
	timeline_free(t);
}

TEST(the_result_is_reproducible)
{
	struct timeline *t = scene_new();
	uint64_t n;

	request(t);
	run(t, 1, 200, 800, 1, 1);
	make(t);
	n = t->n_segments;
	CHECK_EQ(lifetime_make(t), 0);
	CHECK_EQ(t->n_segments, n);
	CHECK(is_exact(t, &t->requests[0]));
	timeline_free(t);
}

TEST(segments_of_many_requests_are_in_their_order)
{
	struct timeline *t = scene_new();
	uint64_t n = 0;

	for (uint32_t i = 1; i <= 3 * PORTION_REQUESTS; i++) {
		request(t);
		run(t, 1, 200, 800, i, i);
	}
	make(t);
	for (uint32_t i = 0; i < t->n_requests; i++) {
		CHECK_EQ(t->requests[i].first_segment, n);
		CHECK(is_exact(t, &t->requests[i]));
		n += t->requests[i].n_segments;
	}
	CHECK_EQ(t->n_segments, n);
	timeline_free(t);
}

TEST(each_allocation_may_fail)
{
	struct timeline *t = scene_new();
	int r = -ENOMEM;

	request(t);
	run(t, 1, 200, 800, 1, 1);
	batch(t, 3, 400, 700, 50, 290, 1);
	CHECK_EQ(timeline_finish(t), 0);
	for (long n = 0; r < 0 && n < 100; n++) {
		allocations_left = n;
		r = lifetime_make(t);
		allocations_left = -1;
		CHECK(r == 0 || r == -ENOMEM);
		CHECK(n > 10 || r < 0);
	}
	CHECK_EQ(r, 0);
	timeline_free(t);
}

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed * 0x2545f4914f6cdd1dULL >> 20) % n;
}

static uint64_t random_time(uint64_t span)
{
	switch (random_below(12)) {
	case 0:
		return 0;
	case 1:
		return random_below(4) ? random_below(2 * span) : UINT64_MAX - random_below(3);
	default:
		return random_below(span);
	}
}

/* Whatever spans: in any order, over one another, of threads that woke themselves, with ends before
 * their starts now and then. */
static void random_spans(struct timeline *t, uint64_t n, uint64_t span, bool orderly)
{
	uint64_t free_from[THREADS] = {};

	for (uint64_t i = 0; i < n; i++) {
		struct span s = { .start_ns = random_below(span),
				  .thread = (uint32_t)random_below(THREADS),
				  .kind = (uint8_t)random_below(SPAN_KIND_COUNT),
				  .name = (uint32_t)random_below(5),
				  .flags = (uint8_t)random_below(256) };

		s.end_ns = s.start_ns + random_below(random_below(3) ? span / 8 + 1 : span);
		if (random_below(3))
			s.kind = (uint8_t)(SPAN_BLOCKED + random_below(3));
		if (orderly && s.kind >= SPAN_BLOCKED && s.kind <= SPAN_THROTTLED) {
			s.start_ns = free_from[s.thread] + random_below(3) * random_below(20);
			s.end_ns = free_from[s.thread] = s.start_ns + random_below(50);
		}
		s.context = random_below(6);
		s.step = (int64_t)random_below(THREADS + 3) - 1;
		if (s.kind == SPAN_RUN)
			s.request = (uint32_t)random_below(t->n_requests + 2);
		if (!orderly && !random_below(50))
			s.end_ns = random_time(span);
		if (!orderly && !random_below(50))
			s.context = UINT64_MAX - random_below(2);
		if (!orderly && !random_below(50))
			s.step = random_below(2) ? INT64_MAX : INT64_MIN;
		add_span(t, s);
	}
}

static struct timeline *random_timeline(void)
{
	struct timeline *t = scene_new();
	bool orderly = random_below(2);
	uint64_t span = random_below(2) ? 40 : 2000;

	for (uint64_t n = random_below(6); n > 0; n--) {
		struct request *r = request(t);

		*r = (struct request){ .start_ns = random_time(span),
				       .read_start_ns = random_time(span),
				       .read_end_ns = random_time(span),
				       .write_start_ns = random_time(span),
				       .end_ns = random_time(span),
				       .read_thread = (uint32_t)random_below(THREADS + 1),
				       .write_thread = random_below(4)
							       ? (uint32_t)random_below(THREADS)
							       : THREAD_NONE,
				       .run_thread = THREAD_NONE,
				       .protocol = (uint8_t)random_below(5),
				       .flags = (uint8_t)random_below(256) };
		if (random_below(3))
			r->end_ns = r->start_ns + random_below(span);
	}
	for (uint64_t n = random_below(4); n > 0; n--) {
		uint64_t from = random_time(span);

		batch(t, (uint32_t)random_below(THREADS), from,
		      orderly ? from + random_below(span) : random_time(span), random_below(6),
		      random_time(span), random_below(6));
		if (!random_below(8))
			t->batches[t->n_batches - 1].thread = 1000;
		if (!random_below(8))
			t->batch_tasks[t->n_batch_tasks - 1].batch =
				random_below(2) ? UINT32_MAX : (uint32_t)random_below(4);
	}
	random_spans(t, random_below(100), span, orderly);
	if (!random_below(10))
		for (uint64_t i = 0; i < t->n_spans; i++)
			if (t->spans[i].kind >= SPAN_BLOCKED)
				t->spans[i].kind = SPAN_OP;
	if (!random_below(10)) {
		gap(t);
	}
	return t;
}

TEST(phases_are_exact_whatever_the_timeline)
{
	uint64_t n_segments = 0, n_wrong = 0, n = check_cases(40000, 4000), first = check_seed();

	for (uint64_t i = 1; i <= n; i++) {
		struct timeline *t;

		seed = (first + i) * 0x9e3779b97f4a7c15ULL;
		t = random_timeline();
		if (timeline_finish(t) < 0 || lifetime_make(t) < 0)
			n_wrong++;
		for (uint32_t k = 0; k < t->n_requests; k++)
			if (!is_exact(t, &t->requests[k]) && n_wrong++ < 3)
				fprintf(stderr, "  not exact: case %llu, request %u\n",
					(unsigned long long)i, k);
		n_segments += t->n_segments;
		timeline_free(t);
	}
	CHECK_EQ(n_wrong, 0);
	CHECK(n_segments > 5 * n);
}

CHECK_MAIN()
