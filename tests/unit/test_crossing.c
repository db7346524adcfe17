/* SPDX-License-Identifier: Apache-2.0 */
/* Attribution by the writer of an answer: kept if it is unambiguous, withdrawn otherwise. */
#include <stdlib.h>

#include "daemon/correlate/attribute/crossing.h"
#include "daemon/correlate/correlator.h"
#include "tests/unit/check.h"

#define THREADS 4
#define MANY 64
#define WRITER 3 /* a thread that executes no runs */

struct scene {
	struct correlator c;
	struct timeline t;
	struct span spans[4 * MANY];
	struct thread threads[THREADS];
	struct thread_habits habits[THREADS];
	struct request list[2 * MANY];
	struct request_state states[2 * MANY];
};

static struct scene *scene_new(void)
{
	struct scene *s = calloc(1, sizeof(*s));

	s->c.t = &s->t;
	s->t.spans = s->spans;
	s->t.threads = s->threads;
	s->t.n_threads = THREADS;
	s->c.requests.list = s->list;
	s->c.requests.states = s->states;
	s->c.attributions.habits = s->habits;
	s->c.attributions.habits_size = THREADS;
	return s;
}

static void scene_free(struct scene *s)
{
	claims_done(&s->c.claims);
	free(s);
}

/* A request that the writer read, and whose answer began at that time; 0: it did not. */
static uint32_t add_request(struct scene *s, uint32_t connection, uint64_t read, uint64_t write)
{
	s->list[s->c.requests.n] = (struct request){ .start_ns = read,
						     .read_end_ns = read,
						     .write_start_ns = write,
						     .read_thread = WRITER,
						     .protocol = PROTOCOL_HTTP2 };
	s->states[s->c.requests.n] =
		(struct request_state){ .connection = connection, .read = true };
	return s->c.requests.n++;
}

/* A run; id: -1 for one that produces an input; attributed to that request, or unattributed. */
static uint64_t add_run(struct scene *s, uint32_t thread, uint64_t start, uint64_t end, int64_t id,
			uint32_t request)
{
	uint64_t i = s->t.n_spans++;

	s->spans[i] = (struct span){
		.kind = SPAN_RUN, .thread = thread, .start_ns = start, .end_ns = end, .step = id
	};
	s->habits[thread].is_worker = true;
	if (request != NO_REQUEST)
		claims_add(&s->c, i, request, false);
	return i;
}

/* A thread wrote one answer, and the writer the other one; a run of another thread remains for
 * it. */
static uint64_t add_crossing(struct scene *s)
{
	uint32_t by_worker = add_request(s, 1, 1000, 2000);

	add_request(s, 1, 1000, 2010);
	add_run(s, 1, 1100, 1900, 7, NO_REQUEST);
	return add_run(s, 0, 1100, 1900, 8, by_worker);
}

TEST(an_answer_that_fits_both_requests_proves_nothing)
{
	struct scene *s = scene_new();
	uint64_t run = add_crossing(s);

	crossing_take_back(&s->c);
	CHECK(!s->spans[run].request);
	CHECK_EQ(s->list[0].n_runs, 0);
	scene_free(s);
}

TEST(workers_that_always_write_their_own_answers_are_trusted)
{
	struct scene *s = scene_new();
	uint64_t run = add_crossing(s);

	s->habits[0].n_answered = 16;
	crossing_take_back(&s->c);
	CHECK_EQ(s->spans[run].request, 1);
	scene_free(s);
}

TEST(workers_are_not_trusted_if_one_wrote_answers_of_others)
{
	struct scene *s = scene_new();
	uint64_t run = add_crossing(s);

	s->habits[0].n_answered = 1000;
	s->habits[1].writes_others = true;
	crossing_take_back(&s->c);
	CHECK(!s->spans[run].request);
	scene_free(s);
}

TEST(a_request_that_waits_much_longer_is_not_a_candidate)
{
	struct scene *s = scene_new();
	uint32_t request = add_request(s, 1, 1000, 2000), waiting = add_request(s, 1, 1000, 0);
	uint64_t run = add_run(s, 0, 1100, 1900, 8, request);

	add_run(s, 1, 1100, 1900, 7, NO_REQUEST);
	add_run(s, 0, 3000, 3100, 9, NO_REQUEST);
	/* Two answers of the connection began after the thread continued. */
	add_request(s, 1, 2500, 3200);
	add_request(s, 1, 2500, 3300);
	crossing_take_back(&s->c);
	CHECK_EQ(s->spans[run].request, request + 1);
	/* It would be possible if only one of them had begun. */
	s->list[3].write_start_ns = 2900;
	crossing_take_back(&s->c);
	CHECK(!s->spans[run].request);
	CHECK(!s->list[waiting].n_runs);
	scene_free(s);
}

TEST(runs_that_produce_an_input_belong_with_the_following_run)
{
	struct scene *s = scene_new();
	/* The writer sent the first one's answer after its thread had continued. */
	uint32_t handed_over = add_request(s, 1, 1000, 1750), own = add_request(s, 2, 1000, 2000);
	uint64_t first_input = add_run(s, 0, 1100, 1200, -1, own),
		 first = add_run(s, 0, 1300, 1500, 7, own);
	uint64_t input = add_run(s, 0, 1600, 1700, -1, own),
		 last = add_run(s, 0, 1800, 1900, 8, own);

	s->habits[0].n_answered = 16;
	crossing_take_back(&s->c);
	CHECK_EQ(s->spans[last].request, own + 1);
	CHECK_EQ(s->spans[input].request, own + 1);
	CHECK(!s->spans[first].request);
	CHECK(!s->spans[first_input].request);
	CHECK_EQ(s->list[own].n_runs, 2);
	CHECK_EQ(s->list[handed_over].n_runs, 0);
	scene_free(s);
}

TEST(an_inference_is_withdrawn_if_a_request_from_before_the_window_also_fits)
{
	struct scene *s = scene_new();
	uint32_t before = add_request(s, 2, 0, 2500), request = add_request(s, 1, 1000, 2000);
	uint64_t run = add_run(s, 0, 1100, 1900, 8, NO_REQUEST);

	claims_add(&s->c, run, request, true);
	s->list[before].write_start_ns = 1500;
	crossing_take_back(&s->c);
	CHECK_EQ(s->spans[run].request, request + 1);
	s->list[before].write_start_ns = 2500;
	crossing_take_back(&s->c);
	CHECK(!s->spans[run].request);
	CHECK(!claims_has_inferred(&s->c, request));
	scene_free(s);
}

TEST(an_aborted_search_attributes_nothing)
{
	struct scene *s = scene_new();
	unsigned n = 2 * MANY - 2, claimed = 0;

	/* Each can be withdrawn once its neighbor was: their runs can belong to each other, and to
	 * no others. */
	for (unsigned i = 0; i <= n; i++) {
		uint64_t at = 1 + i * 80;
		uint32_t request = add_request(s, 1, at, at + 200);

		add_run(s, i < n ? i % 2 : 2, at + 100, at + 101, 7, i < n ? request : NO_REQUEST);
	}
	crossing_take_back(&s->c);
	for (unsigned i = 0; i < n; i++)
		claimed += s->spans[i].request != 0;
	CHECK_EQ(claimed, 0);
	scene_free(s);
}

CHECK_MAIN()
