/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by what threads hand one another. */
#include "tests/unit/check.h"

#include <stdlib.h>

#include "lib/base/macro.h"
#include "tests/unit/played.h"

enum {
	S_RUN,
	S_RUN_END,
	S_MADE,
	S_EMPTY,
	S_ENTER,
	S_EXIT,
	S_WORK_MADE,
	S_WORK,
	S_WORK_END,
	S_HAND_OVER,
	S_HANDED_RUN,
	S_TAKE,
	S_READ,
};

static const struct probe_row rows[] = {
	[S_RUN] = { OPEN(RUN), .value = { ARGUMENT_1 }, .group = 1, .event = "Run" },
	[S_RUN_END] = { CLOSE(RUN), .group = 1 },
	[S_MADE] = { ENQUEUE(CONTEXT), .action = ACTION_READ },
	[S_EMPTY] = { FREE(CONTEXT), .action = ACTION_READ },
	[S_ENTER] = { OPEN(CONTEXT), .action = ACTION_READ },
	[S_EXIT] = { CLOSE(CONTEXT), .action = ACTION_READ },
	[S_WORK_MADE] = { .usdt = "work_made", ENQUEUE(CONTEXT) },
	[S_WORK] = { .usdt = "work_begin", OPEN(CONTEXT) },
	[S_WORK_END] = { .usdt = "work_end", CLOSE(CONTEXT) },
	[S_HAND_OVER] = { ENQUEUE(RUN), .action = ACTION_READ },
	[S_HANDED_RUN] = { OPEN(RUN), .action = ACTION_READ, .value2 = { ARGUMENT_1 }, .group = 1,
			   .event = "Run" },
	[S_TAKE] = { DEQUEUE(RUN), .action = ACTION_READ },
	[S_READ] = { POINT(CONTEXT) },
};
static const struct pack pack = { .name = "test", .rows = rows, .n_rows = ARRAY_SIZE(rows) };

#define RECORDS_MAX 256
enum { LOOP = 1, WORKER, OTHER };
enum { READER = 0x1000, TASK = 0x2000, CALL = 0x3000, OTHERS = 0x4000 };
#define TYPE 0x948340

static union {
	struct record head;
	struct record_message message;
	struct record_probe2 probe;
} space[RECORDS_MAX];
static unsigned n_records;
static uint64_t now, losses_from, losses_to;
static uint32_t ordinals[16][2];

static void *add(uint32_t tid, uint8_t kind, size_t size)
{
	struct record *r = &space[n_records++].head;

	memset(r, 0, sizeof(space[0]));
	now += 100;
	*r = (struct record){ .time = now, .tid = tid, .kind = kind, .size8 = (uint8_t)(size / 8) };
	return r;
}

static void begin(void)
{
	n_records = 0;
	now = 1000;
	losses_from = losses_to = 0;
	memset(ordinals, 0, sizeof(ordinals));
}

static void part(uint32_t tid, uint32_t socket, uint8_t direction, unsigned parts)
{
	struct record_message *m = add(tid, RECORD_MESSAGE, sizeof(*m));

	m->began = m->head.time - 10;
	m->socket = m->inode = socket;
	m->bytes = 100;
	m->local_port = 8501;
	m->peer_port = (uint16_t)(40000 + socket);
	m->part = (uint16_t)(parts | MESSAGE_SERVER);
	m->direction = direction;
	m->protocol = MESSAGE_HTTP1;
	ordinals[socket][direction] += (parts & MESSAGE_FIRST) != 0;
	m->ordinal = ordinals[socket][direction];
}

static void reads(uint32_t tid, uint32_t socket)
{
	part(tid, socket, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_LAST | MESSAGE_IS_REQUEST);
}

static void answers(uint32_t tid, uint32_t socket)
{
	part(tid, socket, MESSAGE_WRITTEN, MESSAGE_FIRST | MESSAGE_LAST);
}

static void does_as(uint32_t tid, uint8_t site, uint64_t value, uint64_t type)
{
	struct record_probe2 *r = add(tid, RECORD_PROBE, sizeof(*r));

	r->probe.head.site = site;
	r->probe.stack = 400;
	r->probe.value = value;
	r->value2 = type;
}

static void does(uint32_t tid, uint8_t site, uint64_t value)
{
	does_as(tid, site, value, TYPE);
}

static void runs(uint32_t tid)
{
	does(tid, S_RUN, 1);
	space[n_records - 1].probe.probe.stack = 500;
	does(tid, S_RUN_END, 0);
}

/* The loop reads a request in a callback, and makes a task of it. */
static void reads_and_makes(uint32_t socket, uint64_t task)
{
	does(LOOP, S_ENTER, READER);
	reads(LOOP, socket);
	does(LOOP, S_MADE, task);
	does(LOOP, S_EXIT, READER);
}

/* A step of the task hands a call to a worker. */
static void calls(uint64_t task, uint64_t call)
{
	does(LOOP, S_ENTER, task);
	does(LOOP, S_MADE, call);
	does(LOOP, S_EXIT, task);
}

static void works(uint32_t tid, uint64_t call)
{
	does(tid, S_ENTER, call);
	runs(tid);
	does(tid, S_EXIT, call);
}

static struct timeline *run(void)
{
	return play(&(struct played){ .pack = &pack,
				      .n_targets = 1,
				      .records = space,
				      .size = sizeof(space[0]),
				      .n = n_records,
				      .losses_from = losses_from,
				      .losses_to = losses_to,
				      .end_ns = now + 1000 });
}

/* For each run, in order, the socket of its request; '-': it has none, '?': inferred. */
static void check_runs_are_of(const char *wanted)
{
	struct timeline *t = run();
	char found[64] = "";
	size_t n = 0;

	for (uint64_t i = 0; i < t->n_spans && n + 1 < sizeof(found); i++) {
		const struct span *s = &t->spans[i];

		if (s->kind == SPAN_RUN)
			found[n++] = !s->request ? '-'
				     : s->flags & SPAN_INFERRED
					     ? '?'
					     : (char)('0' + t->requests[s->request - 1].peer_port -
						      40000);
	}
	CHECK_STR(found, wanted);
	timeline_free(t);
}

TEST(a_context_leads_from_the_worker_to_the_request)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	reads_and_makes(3, TASK + 2);
	calls(TASK + 2, CALL + 2);
	calls(TASK, CALL);
	calls(TASK + 1, CALL + 1);
	works(WORKER, CALL);
	works(OTHER, CALL + 1);
	works(WORKER, CALL + 2);
	for (uint32_t i = 3; i > 0; i--)
		answers(LOOP, i);
	check_runs_are_of("132");
}

TEST(the_loop_itself_may_run)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	works(LOOP, TASK + 1);
	works(LOOP, TASK);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("21");
}

/* A loop that passes to a callback, in its context, what was read before. */
static void passes(uint64_t task)
{
	does(LOOP, S_READ, 0);
	calls(READER, task);
}

TEST(a_loop_that_reads_first_passes_its_request_to_the_context_that_it_enters_next)
{
	begin();
	for (uint32_t i = 1; i <= 3; i++) {
		reads(LOOP, i);
		passes(TASK + i);
	}
	for (uint32_t i = 3; i > 0; i--)
		works(WORKER, TASK + i);
	for (uint32_t i = 1; i <= 3; i++)
		answers(LOOP, i);
	check_runs_are_of("321");
}

TEST(what_a_loop_has_read_is_passed_once_and_to_no_other_context)
{
	begin();
	reads(LOOP, 1);
	/* It does not say that this one is for what was read. */
	calls(READER, TASK);
	/* Nothing was read since. */
	passes(TASK + 1);
	/* It was said before the next one was read. */
	does(LOOP, S_READ, 0);
	reads(LOOP, 2);
	calls(READER, TASK + 2);
	/* Two were read. */
	reads(LOOP, 3);
	reads(LOOP, 4);
	passes(TASK + 3);
	reads(LOOP, 5);
	passes(TASK + 4);
	/* What is read within a context is of that one. */
	does(LOOP, S_ENTER, READER);
	reads(LOOP, 6);
	does(LOOP, S_READ, 0);
	does(LOOP, S_EXIT, READER);
	calls(READER, TASK + 5);
	does(LOOP, S_ENTER, READER);
	reads(LOOP, 7);
	does(LOOP, S_EXIT, READER);
	passes(TASK + 6);
	for (uint32_t i = 0; i <= 6; i++)
		works(WORKER, TASK + i);
	for (uint32_t i = 1; i <= 7; i++)
		answers(LOOP, i);
	check_runs_are_of("----5--");
}

TEST(what_was_read_in_a_context_that_was_not_seen_is_not_passed)
{
	begin();
	/* It was entered before the window. */
	reads(LOOP, 1);
	does(LOOP, S_EXIT, READER);
	passes(TASK);
	works(WORKER, TASK);
	answers(LOOP, 1);
	check_runs_are_of("-");
}

TEST(tasks_within_another_context_are_of_what_their_own_was_made_for)
{
	begin();
	reads(LOOP, 1);
	passes(TASK + 1);
	/* A connection has ended: nothing is entered for it. */
	does(LOOP, S_READ, 0);
	does(LOOP, S_ENTER, READER + 1);
	calls(TASK + 1, CALL + 1);
	does(LOOP, S_MADE, TASK + 2);
	does(LOOP, S_EXIT, READER + 1);
	works(WORKER, CALL + 1);
	works(WORKER, TASK + 2);
	answers(LOOP, 1);
	check_runs_are_of("1-");
}

TEST(the_next_request_of_a_connection_may_be_served_in_a_context_of_the_one_before)
{
	begin();
	reads_and_makes(1, TASK);
	works(WORKER, TASK);
	reads_and_makes(1, TASK + 1);
	works(WORKER, TASK);
	works(WORKER, TASK + 1);
	answers(LOOP, 1);
	answers(LOOP, 1);
	check_runs_are_of("1-1");
}

/* What a connection's task does, in its own context or in one that it has made. */
static void steps(uint64_t task, uint64_t in)
{
	does(LOOP, S_ENTER, task);
	if (in)
		does(LOOP, S_ENTER, in);
}

static void stops(uint64_t task, uint64_t in)
{
	if (in)
		does(LOOP, S_EXIT, in);
	does(LOOP, S_EXIT, task);
}

static void reads_only(uint32_t socket)
{
	does(LOOP, S_ENTER, READER + socket);
	reads(LOOP, socket);
	does(LOOP, S_EXIT, READER + socket);
}

static void answers_in(uint64_t task, uint64_t in, uint32_t socket)
{
	steps(task, in);
	answers(LOOP, socket);
	stops(task, in);
}

TEST(a_run_is_of_the_request_that_is_answered_in_a_context_made_for_it)
{
	begin();
	for (uint32_t i = 1; i <= 2; i++) {
		reads_only(i);
		does(LOOP, S_ENTER, TASK + i);
		does(LOOP, S_MADE, OTHERS + i);
		does(LOOP, S_ENTER, OTHERS + i);
		does(LOOP, S_MADE, CALL + i);
		stops(TASK + i, OTHERS + i);
	}
	works(WORKER, CALL + 2);
	works(OTHER, CALL + 1);
	/* The loop's own thread. */
	steps(TASK + 1, OTHERS + 1);
	runs(LOOP);
	stops(TASK + 1, OTHERS + 1);
	for (uint32_t i = 1; i <= 2; i++)
		answers_in(TASK + i, OTHERS + i, i);
	check_runs_are_of("121");
}

/* What its task does after an answer looks like what it does for the next request. */
TEST(a_context_that_lasts_for_a_connection_leads_to_no_request)
{
	begin();
	for (uint32_t round = 0; round < 2; round++) {
		reads_only(1);
		calls(TASK, CALL);
		works(WORKER, CALL);
		answers_in(TASK, 0, 1);
	}
	check_runs_are_of("--");
}

TEST(a_context_that_answers_several_connections_leads_to_no_request)
{
	begin();
	for (uint32_t i = 1; i <= 2; i++)
		reads_only(i);
	for (uint32_t i = 1; i <= 2; i++)
		calls(TASK, CALL + i);
	works(WORKER, CALL + 2);
	works(WORKER, CALL + 1);
	for (uint32_t i = 1; i <= 2; i++)
		answers_in(TASK, 0, i);
	check_runs_are_of("--");
}

TEST(a_context_made_for_a_request_that_answers_another_one_leads_to_none)
{
	begin();
	reads_only(1);
	calls(TASK, OTHERS);
	calls(OTHERS, CALL);
	works(WORKER, CALL);
	answers_in(OTHERS, 0, 1);
	reads_only(1);
	calls(OTHERS, CALL);
	works(WORKER, CALL);
	answers_in(OTHERS, 0, 1);
	check_runs_are_of("--");
}

TEST(a_client_that_does_not_wait_for_its_answers_has_runs_only_by_their_contexts)
{
	begin();
	reads_only(1);
	reads_only(1);
	calls(TASK, CALL);
	works(WORKER, CALL);
	answers_in(TASK, 0, 1);
	answers_in(TASK, 0, 1);
	check_runs_are_of("-");
}

/* Such as what empties a queue, set up when the first request came. */
TEST(what_goes_on_after_the_answer_has_no_request)
{
	begin();
	reads_only(1);
	calls(TASK, OTHERS);
	calls(OTHERS, OTHERS + 1);
	for (uint32_t i = 0; i < 2; i++) {
		calls(OTHERS + 1, CALL + i);
		works(WORKER, CALL + i);
	}
	answers_in(TASK, OTHERS, 1);
	/* That it was made for the first one is known also when that one's context has ended. */
	does(LOOP, S_EMPTY, OTHERS);
	reads_only(2);
	calls(OTHERS + 1, CALL);
	works(WORKER, CALL);
	check_runs_are_of("---");
}

TEST(a_context_whose_maker_has_ended_is_not_of_the_one_at_its_address)
{
	begin();
	reads_only(1);
	calls(TASK, OTHERS);
	calls(OTHERS, CALL);
	calls(TASK + 1, OTHERS);
	works(WORKER, CALL);
	answers_in(OTHERS, 0, 1);
	check_runs_are_of("-");
}

TEST(an_address_that_is_used_again_is_a_new_context)
{
	begin();
	reads_and_makes(1, TASK);
	calls(TASK, CALL);
	works(WORKER, CALL);
	answers(LOOP, 1);
	reads_and_makes(2, TASK);
	reads_and_makes(3, TASK + 1);
	calls(TASK, CALL);
	works(WORKER, CALL);
	does(OTHER, S_EMPTY, CALL);
	works(OTHER, CALL);
	answers(LOOP, 3);
	answers(LOOP, 2);
	check_runs_are_of("12-");
}

TEST(where_two_requests_were_read_a_context_has_none)
{
	begin();
	does(LOOP, S_ENTER, READER);
	reads(LOOP, 1);
	reads(LOOP, 2);
	does(LOOP, S_MADE, TASK);
	does(LOOP, S_EXIT, READER);
	calls(TASK, CALL);
	works(WORKER, CALL);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("-");
}

TEST(contexts_that_outlive_their_request_have_none)
{
	begin();
	reads_and_makes(1, TASK);
	calls(TASK, CALL);
	reads_and_makes(2, TASK + 1);
	works(WORKER, CALL);
	answers(LOOP, 1);
	calls(TASK, CALL + 1);
	works(WORKER, CALL + 1);
	answers(LOOP, 2);
	check_runs_are_of("--");
}

TEST(contexts_of_a_process_that_leaves_others_than_it_entered_are_not_used)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	calls(TASK, CALL);
	works(WORKER, CALL);
	does(OTHER, S_ENTER, TASK);
	does(OTHER, S_EXIT, TASK + 1);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("-");
}

TEST(what_is_of_another_type_is_no_context)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	calls(TASK, CALL);
	works(WORKER, CALL);
	does_as(OTHER, S_MADE, CALL + 5, TYPE + 1);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("-");
}

TEST(a_run_after_a_loss_has_no_request_by_its_context)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	losses_from = losses_to = now + 1;
	calls(TASK, CALL);
	works(WORKER, CALL);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("-");
}

TEST(marked_work_is_of_the_request_that_was_read_last)
{
	begin();
	reads(LOOP, 1);
	does(LOOP, S_WORK_MADE, CALL);
	reads(LOOP, 2);
	does(LOOP, S_WORK_MADE, CALL + 1);
	does(OTHER, S_WORK, CALL + 1);
	/* Work that it makes is of the same request. */
	does(OTHER, S_WORK_MADE, CALL + 2);
	runs(OTHER);
	does(OTHER, S_WORK_END, CALL + 1);
	does(WORKER, S_WORK, CALL);
	runs(WORKER);
	does(WORKER, S_WORK_END, CALL);
	does(WORKER, S_WORK, CALL + 2);
	runs(WORKER);
	does(WORKER, S_WORK_END, CALL + 2);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("212");
}

TEST(marked_work_that_was_made_after_two_requests_has_none)
{
	begin();
	reads(LOOP, 1);
	reads(LOOP, 2);
	does(LOOP, S_WORK_MADE, CALL);
	does(LOOP, S_WORK_MADE, CALL + 1);
	reads(LOOP, 3);
	does(LOOP, S_WORK_MADE, CALL + 2);
	for (uint64_t i = 0; i < 3; i++) {
		does(OTHER, S_WORK, CALL + i);
		runs(OTHER);
		does(OTHER, S_WORK_END, CALL + i);
	}
	for (uint32_t i = 1; i <= 3; i++)
		answers(LOOP, i);
	/* Nobody waits any more for work of those. */
	reads(LOOP, 4);
	does(LOOP, S_WORK_MADE, CALL + 3);
	does(LOOP, S_WORK_MADE, CALL + 4);
	for (uint64_t i = 3; i < 5; i++) {
		does(OTHER, S_WORK, CALL + i);
		runs(OTHER);
		does(OTHER, S_WORK_END, CALL + i);
	}
	answers(LOOP, 4);
	check_runs_are_of("---4-");
}

enum { OBJECT = 0x4000 };

/* A run that was handed over with that object. */
static void runs_with(uint32_t tid, uint64_t object)
{
	does_as(tid, S_HANDED_RUN, 0, object);
	space[n_records - 1].probe.probe.stack = 500;
	does(tid, S_RUN_END, 0);
}

TEST(a_run_that_is_handed_over_is_of_its_makers_request)
{
	begin();
	for (uint32_t i = 1; i <= 3; i++) {
		reads(OTHER + i, i);
		does(OTHER + i, S_HAND_OVER, OBJECT + i);
	}
	runs_with(WORKER, OBJECT + 3);
	runs_with(WORKER, OBJECT + 1);
	/* Of the runs with an object, only the next one was handed over. */
	runs_with(WORKER, OBJECT + 1);
	runs_with(WORKER, OBJECT + 2);
	runs_with(WORKER, OBJECT + 4);
	for (uint32_t i = 1; i <= 3; i++)
		answers(OTHER + i, i);
	check_runs_are_of("31-2-");
}

TEST(a_run_that_is_handed_over_again_before_it_begins_has_no_request)
{
	begin();
	reads(OTHER, 1);
	does(OTHER, S_HAND_OVER, OBJECT);
	/* The runtime refuses this one. */
	reads(OTHER + 1, 2);
	does(OTHER + 1, S_HAND_OVER, OBJECT);
	does(OTHER + 1, S_HAND_OVER, OBJECT);
	runs_with(WORKER, OBJECT);
	does(OTHER + 1, S_HAND_OVER, OBJECT);
	runs_with(WORKER, OBJECT);
	answers(OTHER, 1);
	answers(OTHER + 1, 2);
	check_runs_are_of("-2");
}

TEST(a_thread_that_serves_a_request_runs_for_that_one)
{
	begin();
	reads(OTHER, 1);
	/* It is cancelled. */
	does(OTHER, S_HAND_OVER, OBJECT);
	reads(OTHER + 1, 2);
	runs_with(OTHER + 1, OBJECT);
	answers(OTHER + 1, 2);
	runs_with(WORKER, OBJECT);
	answers(OTHER, 1);
	check_runs_are_of("2-");
}

TEST(a_run_that_a_thread_takes_up_is_its_next_one)
{
	begin();
	reads(OTHER, 1);
	does(OTHER, S_HAND_OVER, OBJECT);
	/* The maker looks at the number, too, and runs nothing. */
	does(OTHER, S_TAKE, OBJECT);
	reads(OTHER + 1, 2);
	does(OTHER + 1, S_HAND_OVER, OBJECT + 1);
	does(WORKER, S_TAKE, OBJECT + 1);
	runs(WORKER);
	runs(WORKER);
	does(WORKER, S_TAKE, OBJECT);
	runs(WORKER);
	answers(OTHER, 1);
	answers(OTHER + 1, 2);
	check_runs_are_of("2-1");
}

TEST(a_run_that_is_handed_over_in_a_context_is_of_that_ones_request)
{
	begin();
	reads_and_makes(1, TASK);
	reads_and_makes(2, TASK + 1);
	for (uint64_t i = 0; i < 2; i++) {
		does(LOOP, S_ENTER, TASK + i);
		does(LOOP, S_HAND_OVER, OBJECT + i);
		does(LOOP, S_EXIT, TASK + i);
	}
	runs_with(WORKER, OBJECT + 1);
	runs_with(OTHER, OBJECT);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("21");
}

TEST(a_run_that_is_handed_over_by_a_thread_that_serves_several_has_none)
{
	begin();
	reads(LOOP, 1);
	does(LOOP, S_HAND_OVER, OBJECT + 1);
	reads(LOOP, 2);
	does(LOOP, S_HAND_OVER, OBJECT + 2);
	runs_with(WORKER, OBJECT + 1);
	runs_with(WORKER, OBJECT + 2);
	answers(LOOP, 1);
	answers(LOOP, 2);
	check_runs_are_of("--");
	/* Another thread answers. */
	begin();
	reads(OTHER, 1);
	does(OTHER, S_HAND_OVER, OBJECT);
	reads(OTHER + 1, 2);
	runs_with(WORKER, OBJECT);
	answers(LOOP, 2);
	answers(LOOP, 1);
	check_runs_are_of("-");
}

TEST(a_run_after_a_loss_is_of_no_request_though_it_was_handed_over)
{
	begin();
	reads(OTHER, 1);
	does(OTHER, S_HAND_OVER, OBJECT);
	losses_from = losses_to = now + 1;
	runs_with(WORKER, OBJECT);
	answers(OTHER, 1);
	check_runs_are_of("-");
}

CHECK_MAIN()
