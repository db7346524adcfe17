/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs a batch belongs to, and which handler a thread is in: by objects and by nesting. */
#include <stdlib.h>

#include "lib/base/macro.h"
#include "tests/unit/fed.h"
#include "tests/unit/nested.h"

enum {
	S_RUN,
	S_RUN_END,
	S_START,
	S_WORK,
	S_ADD,
	S_BATCH,
	S_SIZE,
	S_PADDED,
	S_BATCH_END,
	S_REST,
	S_GRPC,
	S_ANSWERED,
	S_MARK,
	S_HAND_OVER,
	S_TAKE_UP,
	S_TASK_GONE,
	N_SITES
};

static const struct probe_row probes[N_SITES] = {
	[S_RUN] = { OPEN(RUN), .group = 1, .event = "Run" },
	[S_RUN_END] = { CLOSE(RUN), .group = 1 },
	[S_START] = { ENQUEUE(PIECE), .action = ACTION_READ },
	[S_WORK] = { OPEN(PIECE), .action = ACTION_READ, .event = "Work" },
	[S_ADD] = { ENQUEUE(BATCH) },
	[S_BATCH] = { OPEN(BATCH), .action = ACTION_READ, .event = "Batch" },
	[S_SIZE] = { POINT(BATCH) },
	[S_PADDED] = { POINT(BATCH), .action = ACTION_READ, .value2 = { ARGUMENT_2 } },
	[S_BATCH_END] = { CLOSE(BATCH) },
	[S_REST] = { OPEN(REQUEST), .slack = 1024, .action = ACTION_TEXT, .group = 2,
		     .event = "Rest" },
	[S_GRPC] = { OPEN(REQUEST), .slack = 1024, .group = 2, .event = "Grpc" },
	[S_ANSWERED] = { CLOSE(REQUEST), .action = ACTION_TEXT, .group = 2, .event = "Answered" },
	[S_MARK] = { OPEN(RUN), .usdt = "request_begin", .value = { ARGUMENT_1 },
		     .event = "Request" },
	[S_HAND_OVER] = { ENQUEUE(BATCH), .action = ACTION_READ, .value2 = { ARGUMENT_2 } },
	[S_TAKE_UP] = { DEQUEUE(BATCH), .action = ACTION_READ, .value2 = { ARGUMENT_2 } },
	[S_TASK_GONE] = { FREE(BATCH), .action = ACTION_READ, .value2 = { ARGUMENT_1 } },
};

TEST_PACK(probes, N_SITES);

static void begin(void)
{
	begin_with(&pack);
}

static struct record head(uint64_t time, uint32_t tid, uint8_t kind, uint8_t site, size_t size)
{
	return (struct record){
		.time = time, .tid = tid, .kind = kind, .site = site, .size8 = (uint8_t)(size / 8)
	};
}

/* Stack pointers grow downwards: 100 is inside 200. */
static void feed2(uint64_t time, uint32_t tid, uint8_t site, uint32_t stack, uint64_t value,
		  uint64_t value2)
{
	struct record_probe2 r = { .probe = { .head = head(time, tid, RECORD_PROBE, site,
							   sizeof(r)),
					      .stack = stack,
					      .value = value },
				   .value2 = value2 };

	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static void feed(uint64_t time, uint32_t tid, uint8_t site, uint32_t stack, uint64_t value)
{
	feed2(time, tid, site, stack, value, 0);
}

static void feed_of(uint8_t target, uint64_t time, uint32_t tid, uint8_t site, uint32_t stack,
		    uint64_t value)
{
	struct record_probe2 r = { .probe = {
					   .head = head(time, tid, RECORD_PROBE, site, sizeof(r)),
					   .stack = stack,
					   .value = value } };

	r.probe.head.target = target;
	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static void feed_text(uint64_t time, uint32_t tid, uint8_t site, uint32_t stack, const char *text,
		      uint32_t size)
{
	struct record_text r = { .probe = { .head = head(time, tid, RECORD_TEXT, site, sizeof(r)),
					    .stack = stack },
				 .size = size };

	memcpy(r.text, text, MIN(strlen(text), sizeof(r.text)));
	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static const struct span *find(const struct timeline *t, enum span_kind kind, unsigned which)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == kind && !which--)
			return &t->spans[i];
	return NULL;
}

static uint64_t run_of_task(const struct timeline *t, unsigned batch, unsigned task)
{
	return batch < t->n_batches && task < t->batches[batch].n_tasks
		       ? t->batch_tasks[t->batches[batch].first_task + task].run
		       : 0;
}

/* The batch span identifies the batch, and that one refers to its span. */
static void check_batches(const struct timeline *t)
{
	unsigned n = 0;

	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];

		if (s->kind != SPAN_BATCH)
			continue;
		n++;
		CHECK(s->batch >= 0 && s->batch < t->n_batches);
		CHECK(s->context > 0);
		if (s->batch < 0 || s->batch >= t->n_batches)
			continue;
		CHECK_EQ(t->batches[s->batch].start_ns, s->start_ns);
		CHECK_EQ(t->batches[s->batch].end_ns, s->end_ns);
		CHECK_EQ(t->batches[s->batch].thread, s->thread);
	}
	CHECK_EQ(n, t->n_batches);
	for (uint32_t i = 0; i + 1 < t->n_batches; i++)
		CHECK(t->batches[i].start_ns <= t->batches[i + 1].start_ns);
	for (uint64_t i = 0; i < t->n_batch_tasks; i++) {
		uint32_t batch = t->batch_tasks[i].batch;

		if (batch == UINT32_MAX)
			continue;
		CHECK(batch < t->n_batches && i >= t->batches[batch].first_task &&
		      i < t->batches[batch].first_task + t->batches[batch].n_tasks);
	}
}

TEST(a_batch_belongs_to_the_runs_whose_threads_added_to_it)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_RUN, 500, 0);
	feed(1110, 2, S_RUN, 500, 0);
	feed(1200, 1, S_ADD, 400, 0xb0);
	feed(1210, 2, S_ADD, 400, 0xb0);
	feed(1300, 9, S_BATCH, 300, 0xb0);
	feed(1310, 9, S_SIZE, 200, 2);
	feed2(1340, 9, S_PADDED, 250, 0xb0, 4);
	feed(1350, 9, S_BATCH_END, 320, 0xb0);
	feed(1400, 1, S_RUN_END, 450, 0);
	feed(1410, 2, S_RUN_END, 450, 0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 1);
	CHECK_EQ(t->batches[0].start_ns, 1300);
	CHECK_EQ(t->batches[0].end_ns, 1350);
	CHECK_EQ(t->batches[0].size, 2);
	CHECK_EQ(t->batches[0].padded, 4);
	CHECK_EQ(t->batches[0].flags, 0);
	CHECK_EQ(t->batches[0].n_tasks, 2);
	CHECK_EQ(run_of_task(t, 0, 0), find(t, SPAN_RUN, 0)->context);
	CHECK_EQ(run_of_task(t, 0, 1), find(t, SPAN_RUN, 1)->context);
	CHECK_EQ(t->batch_tasks[1].queued_ns, 1210);
	CHECK_EQ(t->n_runs, 2);
	timeline_free(t);
}

TEST(an_executor_that_a_batch_starts_belongs_to_the_batch)
{
	struct timeline *t;

	begin();
	feed(1300, 9, S_BATCH, 300, 0xb0);
	feed2(1310, 9, S_START, 200, 5, 0xf00);
	feed2(1320, 3, S_WORK, 300, 5, 0xf00);
	feed(1330, 3, S_SIZE, 200, 7); /* of no batch: that one is on another thread */
	feed(1340, 3, S_RUN, 100, 0);
	feed(1345, 3, S_RUN_END, 90, 0);
	feed(1350, 9, S_BATCH_END, 320, 0xb0);
	feed2(1360, 3, S_WORK, 300, 5, 0xf00); /* its call's address has been reused by now */
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 1);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 0)->context, find(t, SPAN_BATCH, 0)->context);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 1)->context, 0);
	CHECK_EQ(t->batches[0].size, 0);
	CHECK_EQ(t->batches[0].n_tasks, 0);
	timeline_free(t);
}

TEST(pieces_within_a_mark_are_linked_to_it_by_their_step_whatever_its_request_id)
{
	struct timeline *t;

	begin();
	feed(1300, 9, S_MARK, 300, 77);
	feed2(1310, 9, S_START, 200, 5, 0xf00);
	feed2(1320, 3, S_WORK, 300, 5, 0xf00);
	feed2(1330, 4, S_WORK, 300, 6, 0xf00); /* of another run: the step differs */
	t = finish();
	CHECK(find(t, SPAN_RUN, 0)->flags & SPAN_MARK);
	CHECK_EQ(find(t, SPAN_RUN, 0)->request_id, 77);
	CHECK(find(t, SPAN_RUN, 0)->context);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 0)->context, find(t, SPAN_RUN, 0)->context);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 0)->step, 5);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 1)->context, 0);
	timeline_free(t);
}

TEST(after_a_loss_a_batch_that_was_being_filled_may_be_another_one)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_RUN, 500, 0);
	feed(1110, 2, S_RUN, 500, 0);
	feed(1200, 1, S_ADD, 400, 0xb0);
	/* It began and ended, among what was lost. */
	CHECK_EQ(correlator_note_loss(c, 1250, 1300), 0);
	feed(1310, 2, S_ADD, 400, 0xb0);
	feed(1400, 9, S_BATCH, 300, 0xb0);
	feed(1450, 9, S_BATCH_END, 320, 0xb0);
	t = finish();
	/* Of the first one nothing is known. */
	CHECK_EQ(t->n_batches, 1);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	timeline_free(t);
}

TEST(a_reused_address_is_another_batch)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_RUN, 500, 0);
	feed(1110, 2, S_RUN, 500, 0);
	feed(1200, 1, S_ADD, 400, 0xb0);
	feed(1300, 9, S_BATCH, 300, 0xb0);
	/* While that one is processed the scheduler fills the next; one whose end was lost counts
	 * likewise. */
	feed(1310, 2, S_ADD, 400, 0xb8);
	feed(1350, 9, S_BATCH_END, 320, 0xb0);
	feed(1360, 1, S_ADD, 400, 0xb0);
	feed(1400, 8, S_BATCH, 300, 0xb0);
	feed(1410, 2, S_ADD, 400, 0xb0);
	feed(1500, 9, S_BATCH, 300, 0xb0);
	feed(1510, 7, S_BATCH, 300, 0xb8);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 4);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(t->batches[i].n_tasks, 1);
	CHECK_EQ(run_of_task(t, 0, 0), run_of_task(t, 1, 0));
	CHECK_EQ(run_of_task(t, 2, 0), run_of_task(t, 3, 0));
	CHECK(run_of_task(t, 0, 0) != run_of_task(t, 2, 0));
	CHECK_EQ(t->batches[3].flags & SPAN_TRUNCATED_END, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(batches_of_two_processes_are_distinguished)
{
	struct timeline *t;

	begin();
	feed_of(0, 1100, 1, S_RUN, 500, 0);
	feed_of(1, 1110, 2, S_RUN, 500, 0);
	feed_of(0, 1200, 1, S_ADD, 400, 0xb0);
	feed_of(1, 1210, 2, S_ADD, 400, 0xb0);
	feed_of(1, 1300, 9, S_BATCH, 300, 0xb0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 1);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	CHECK_EQ(t->batch_tasks[0].queued_ns, 1210);
	CHECK_EQ(t->n_batch_tasks, 2);
	CHECK_EQ(t->batch_tasks[1].batch, UINT32_MAX);
	timeline_free(t);
}

TEST(batches_are_in_order_of_their_processing_and_tasks_in_order_of_the_batches)
{
	struct timeline *t;

	begin();
	for (unsigned i = 0; i < 6; i++)
		feed(1100 + i, 1 + i, S_RUN, 500, 0);
	/* Opened in one order, processed in the other, and two never within the window. */
	for (unsigned i = 0; i < 6; i++)
		feed(1200 + i, 1 + i, S_ADD, 400, 0xb0 + i);
	for (unsigned i = 0; i < 6; i++)
		feed(1210 + i, 1 + i, S_ADD, 400, 0xb0 + i);
	for (unsigned i = 0; i < 4; i++)
		feed(1300 + i, 20 + i, S_BATCH, 300, 0xb5 - i);
	for (unsigned i = 0; i < 4; i++)
		feed2(1400 + i, 40, S_PADDED, 250, 0xb5 - i, 10 + i);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 4);
	CHECK_EQ(t->n_batch_tasks, 12);
	for (unsigned i = 0; i < 4; i++) {
		CHECK_EQ(t->batches[i].start_ns, 1300 + i);
		CHECK_EQ(t->batches[i].padded, 10 + i);
		CHECK_EQ(t->batches[i].n_tasks, 2);
		CHECK_EQ(run_of_task(t, i, 0), find(t, SPAN_RUN, 5 - i)->context);
		CHECK_EQ(run_of_task(t, i, 1), find(t, SPAN_RUN, 5 - i)->context);
	}
	for (unsigned i = 8; i < 12; i++)
		CHECK_EQ(t->batch_tasks[i].batch, UINT32_MAX);
	timeline_free(t);
}

TEST(a_batch_that_is_never_processed_is_not_reported)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_RUN, 500, 0);
	feed(1200, 1, S_ADD, 400, 0xb0);
	feed(1210, 9, S_BATCH_END, 400, 0xb0);
	feed(1220, 9, S_BATCH_END, 400, 0xb8);
	/* The next one at its address has no tasks of it. */
	feed(1300, 1, S_ADD, 400, 0xb0);
	feed(1400, 9, S_BATCH, 300, 0xb0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 1);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	CHECK_EQ(t->n_batch_tasks, 2);
	CHECK_EQ(t->batch_tasks[0].queued_ns, 1300);
	CHECK_EQ(t->batch_tasks[1].batch, UINT32_MAX);
	timeline_free(t);
}

TEST(tasks_that_a_thread_takes_up_are_of_the_batch_that_it_begins_next)
{
	struct timeline *t;

	begin();
	for (unsigned i = 0; i < 4; i++) {
		feed(1100 + i * 10, 1, S_RUN, 500, 0);
		feed2(1102 + i * 10, 1, S_HAND_OVER, 400, 0, 0xa0 + i);
		feed(1105 + i * 10, 1, S_RUN_END, 450, 0);
	}
	/* Two threads at the same time; one task was handed over before the window. */
	feed2(1300, 8, S_TAKE_UP, 300, 0, 0xa0);
	feed2(1301, 9, S_TAKE_UP, 300, 0, 0xa3);
	feed2(1302, 8, S_TAKE_UP, 300, 0, 0xa2);
	feed2(1303, 8, S_TAKE_UP, 300, 0, 0xaf);
	feed(1310, 9, S_BATCH, 300, 0);
	feed(1311, 8, S_BATCH, 300, 0);
	feed(1320, 8, S_BATCH_END, 310, 0);
	feed(1330, 9, S_BATCH_END, 310, 0);
	/* Taken up for a batch that does not begin. */
	feed2(1340, 9, S_TAKE_UP, 300, 0, 0xa1);
	feed(1350, 9, S_BATCH_END, 310, 0);
	/* A task at the address of one that is done, and one that is never taken up. */
	feed2(1400, 1, S_HAND_OVER, 400, 0, 0xa0);
	feed2(1401, 1, S_HAND_OVER, 400, 0, 0xa1);
	feed2(1410, 9, S_TAKE_UP, 300, 0, 0xa0);
	feed2(1411, 9, S_TAKE_UP, 300, 0, 0xa0);
	feed(1420, 9, S_BATCH, 300, 0);
	feed(1430, 9, S_BATCH_END, 310, 0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 3);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	CHECK_EQ(t->batches[0].end_ns, 1330);
	CHECK_EQ(run_of_task(t, 0, 0), find(t, SPAN_RUN, 3)->context);
	CHECK_EQ(find(t, SPAN_RUN, 3)->flags, SPAN_HANDED_OVER);
	CHECK_EQ(t->batches[1].n_tasks, 2);
	CHECK_EQ(t->batches[1].end_ns, 1320);
	CHECK_EQ(run_of_task(t, 1, 0), find(t, SPAN_RUN, 0)->context);
	CHECK_EQ(run_of_task(t, 1, 1), find(t, SPAN_RUN, 2)->context);
	CHECK_EQ(t->batch_tasks[t->batches[1].first_task].queued_ns, 1102);
	CHECK_EQ(t->batches[2].n_tasks, 1);
	CHECK_EQ(run_of_task(t, 2, 0), 0);
	CHECK_EQ(t->batch_tasks[t->batches[2].first_task].queued_ns, 1400);
	timeline_free(t);
}

TEST(after_a_loss_a_piece_may_be_of_another_run_than_one_that_handed_its_work_over)
{
	struct timeline *t;

	for (unsigned lost = 0; lost < 2; lost++) {
		begin();
		feed(1100, 1, S_RUN, 500, 0);
		feed2(1101, 1, S_HAND_OVER, 450, 0, 0xe0);
		feed2(1102, 1, S_START, 440, 0, 0xc0);
		feed(1105, 1, S_RUN_END, 410, 0);
		if (lost)
			CHECK_EQ(correlator_note_loss(c, 1150, 1151), 0);
		feed2(1220, 9, S_WORK, 250, 0, 0xc0);
		t = finish();
		CHECK_EQ(find(t, SPAN_EXECUTOR, 0)->context,
			 lost ? 0 : find(t, SPAN_RUN, 0)->context);
		timeline_free(t);
	}
}

TEST(a_task_at_the_address_of_one_that_is_gone_or_may_be_is_not_linked_to_its_run)
{
	struct timeline *t;

	begin();
	for (unsigned i = 0; i < 3; i++)
		feed2(1100 + i, 1, S_HAND_OVER, 400, 0, 0xa0 + i);
	feed2(1200, 7, S_TASK_GONE, 400, 0, 0xa0);
	feed2(1300, 8, S_TAKE_UP, 300, 0, 0xa0);
	feed2(1301, 8, S_TAKE_UP, 300, 0, 0xa1);
	feed(1310, 8, S_BATCH, 300, 0);
	feed(1320, 8, S_BATCH_END, 310, 0);
	/* In the end its address is that of a task again. */
	feed2(1330, 1, S_HAND_OVER, 400, 0, 0xa0);
	CHECK_EQ(correlator_note_loss(c, 1325, 1326), 0);
	feed2(1400, 8, S_TAKE_UP, 300, 0, 0xa0);
	feed2(1401, 8, S_TAKE_UP, 300, 0, 0xa2);
	feed(1410, 8, S_BATCH, 300, 0);
	feed(1420, 8, S_BATCH_END, 310, 0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 2);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	CHECK_EQ(t->batch_tasks[t->batches[0].first_task].queued_ns, 1101);
	CHECK_EQ(t->batches[1].n_tasks, 1);
	CHECK_EQ(t->batch_tasks[t->batches[1].first_task].queued_ns, 1330);
	timeline_free(t);
}

TEST(tasks_beyond_the_limit_are_reported)
{
	struct timeline *t;

	begin();
	/* One of two processes has half of the room. */
	for (unsigned i = 0; i < (1 << 19) + 3; i++)
		feed2(1100, 1, S_HAND_OVER, 400, 0, 0x1000 + i);
	t = finish();
	CHECK_EQ(t->n_warnings, 1);
	CHECK(!strncmp(t->warnings[0], "3 tasks of batches were left out", 32));
	timeline_free(t);
}

TEST(pieces_of_a_run_hand_over_its_tasks_on_any_thread_also_after_it_has_returned)
{
	const struct span *run;
	struct timeline *t;

	begin();
	feed(1100, 1, S_RUN, 500, 0);
	feed2(1101, 1, S_HAND_OVER, 450, 0, 0xe0);
	feed2(1102, 1, S_START, 440, 0, 0xc0);
	feed2(1103, 1, S_WORK, 430, 0, 0xc0);
	/* Two tasks at once: the end mark of the first is not that of the run. */
	feed2(1104, 1, S_HAND_OVER, 420, 0, 0xa0);
	feed(1105, 1, S_RUN_END, 410, 0);
	feed2(1106, 1, S_HAND_OVER, 420, 0, 0xa1);
	feed(1107, 1, S_RUN_END, 410, 0);
	feed(1110, 1, S_RUN, 500, 0);
	feed(1120, 1, S_RUN_END, 450, 0);
	feed2(1200, 9, S_TAKE_UP, 300, 0, 0xa0);
	feed(1210, 9, S_BATCH, 300, 0);
	feed2(1220, 9, S_WORK, 250, 0, 0xc0);
	feed2(1221, 9, S_HAND_OVER, 240, 0, 0xa2);
	feed(1230, 9, S_BATCH_END, 310, 0);
	feed2(1240, 9, S_TAKE_UP, 300, 0, 0xa1);
	feed2(1241, 9, S_TAKE_UP, 300, 0, 0xa2);
	feed(1250, 9, S_BATCH, 300, 0);
	feed(1260, 9, S_BATCH_END, 310, 0);
	t = finish();
	check_batches(t);
	run = find(t, SPAN_RUN, 0);
	CHECK_EQ(t->n_batches, 2);
	CHECK_EQ(t->batches[0].n_tasks, 1);
	CHECK_EQ(t->batches[1].n_tasks, 2);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(t->batch_tasks[i].run, run->context);
	CHECK_EQ(run->end_ns, 1107);
	CHECK_EQ(run->flags, SPAN_HANDED_OVER);
	CHECK_EQ(run->step, -1);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 1)->context, run->context);
	CHECK_EQ(find(t, SPAN_EXECUTOR, 1)->step, -1);
	timeline_free(t);
}

TEST(a_batch_that_began_before_the_window_is_truncated)
{
	struct timeline *t;

	begin();
	feed2(1200, 3, S_PADDED, 400, 0xb0, 8);
	feed(1210, 9, S_BATCH_END, 400, 0xb0);
	feed(1300, 9, S_BATCH, 300, 0xb0);
	t = finish();
	check_batches(t);
	CHECK_EQ(t->n_batches, 2);
	CHECK_EQ(t->batches[0].start_ns, 1000);
	CHECK_EQ(t->batches[0].end_ns, 1210);
	CHECK_EQ(t->batches[0].padded, 8);
	CHECK_EQ(t->batches[0].flags, SPAN_TRUNCATED_START);
	CHECK_EQ(t->batches[1].flags, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(a_handler_contains_the_runs_of_its_thread_and_has_path_and_model)
{
	const struct span *rest, *grpc, *run;
	struct timeline *t;

	begin();
	feed_text(1100, 1, S_REST, 500, "/v1/models/m:predict", 20);
	feed(1150, 1, S_RUN, 400, 0);
	feed(1160, 1, S_RUN_END, 390, 0);
	/* Called by the handler's caller, and a little further up. */
	feed_text(1200, 1, S_ANSWERED, 540, "m", 1);
	feed(1300, 1, S_GRPC, 500, 0);
	feed_text(1350, 1, S_ANSWERED, 460, "m", 1);
	t = finish();
	rest = find(t, SPAN_HANDLER, 0);
	grpc = find(t, SPAN_HANDLER, 1);
	run = find(t, SPAN_RUN, 0);
	CHECK_EQ(rest->start_ns, 1100);
	CHECK_EQ(rest->end_ns, 1200);
	CHECK_EQ(rest->flags, 0);
	CHECK_EQ(depth_of(t, run), 1);
	CHECK_EQ(run->flags, 0);
	CHECK_EQ(grpc->end_ns, 1350);
	CHECK_EQ(grpc->flags, 0);
	CHECK(rest->context && grpc->context && rest->context != grpc->context);
	CHECK_STR(t->names[rest->name].name, "Rest (m)");
	CHECK_STR(t->names[grpc->name].name, "Grpc (m)");
	CHECK_STR(t->texts[t->handlers[rest->handler].path], "/v1/models/m:predict");
	CHECK_STR(t->texts[t->handlers[rest->handler].model], "m");
	CHECK_EQ(t->handlers[grpc->handler].path, TEXT_NONE);
	CHECK_EQ(t->handlers[grpc->handler].model, t->handlers[rest->handler].model);
	CHECK_EQ(t->n_texts, 2);
	timeline_free(t);
}

TEST(a_handler_whose_end_was_lost_ends_before_the_next_and_is_marked)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_GRPC, 500, 0);
	feed(1150, 1, S_RUN, 400, 0);
	feed(1160, 1, S_RUN_END, 390, 0);
	feed(1300, 1, S_GRPC, 500, 0);
	feed_text(1350, 1, S_ANSWERED, 460, "m", 1);
	t = finish();
	CHECK_EQ(find(t, SPAN_HANDLER, 0)->end_ns, 1160);
	CHECK_EQ(find(t, SPAN_HANDLER, 0)->flags, SPAN_END_NOT_SEEN);
	CHECK_EQ(depth_of(t, find(t, SPAN_HANDLER, 1)), 0);
	timeline_free(t);
}

TEST(a_handler_at_an_edge_of_the_window_is_truncated)
{
	const struct span *first;
	struct timeline *t;

	begin();
	feed(1050, 1, S_RUN_END, 400, 0);
	feed_text(1100, 1, S_ANSWERED, 540, "m", 1);
	feed_text(1150, 1, S_ANSWERED, 540, "m",
		  1); /* its beginning was lost: that does not mean that it was before the window */
	feed(1200, 1, S_GRPC, 500, 0);
	t = finish();
	first = find(t, SPAN_HANDLER, 0);
	CHECK_EQ(first->start_ns, 1000);
	CHECK_EQ(first->end_ns, 1100);
	CHECK_EQ(first->flags, SPAN_TRUNCATED_START);
	CHECK_STR(t->names[first->name].name, "Answered (m)");
	CHECK_EQ(find(t, SPAN_HANDLER, 1)->start_ns, 1200);
	CHECK_EQ(find(t, SPAN_HANDLER, 1)->flags, SPAN_TRUNCATED_END);
	CHECK(!find(t, SPAN_HANDLER, 2));
	timeline_free(t);
}

TEST(a_task_belongs_to_the_handler_that_enqueued_it_before_any_run)
{
	struct timeline *t;

	begin();
	feed(1100, 1, S_GRPC, 500, 0);
	feed(1150, 1, S_ADD, 400, 0xb0);
	feed(1200, 9, S_BATCH, 500, 0xb0);
	feed(1210, 9, S_RUN, 400, 0);
	feed(1220, 9, S_RUN_END, 390, 0);
	feed(1300, 9, S_BATCH_END, 520, 0xb0);
	feed_text(1350, 1, S_ANSWERED, 460, "m", 1);
	t = finish();
	check_batches(t);
	CHECK_EQ(run_of_task(t, 0, 0), find(t, SPAN_HANDLER, 0)->context);
	CHECK_EQ(depth_of(t, find(t, SPAN_RUN, 0)), 1);
	timeline_free(t);
}

TEST(text_is_made_printable_and_truncated_text_is_marked)
{
	char path[RECORD_TEXT_SIZE + 1] = "";
	struct timeline *t;

	memset(path, 'p', RECORD_TEXT_SIZE);
	begin();
	feed_text(1100, 1, S_REST, 500, "/a\n\x1b\xff b", 7);
	feed_text(1200, 1, S_ANSWERED, 540, "", 0);
	feed_text(1300, 1, S_REST, 500, path, UINT32_MAX);
	t = finish();
	CHECK_STR(t->texts[t->handlers[find(t, SPAN_HANDLER, 0)->handler].path], "/a????b");
	CHECK_EQ(t->handlers[find(t, SPAN_HANDLER, 0)->handler].model, TEXT_NONE);
	CHECK_STR(t->names[find(t, SPAN_HANDLER, 0)->name].name, "Rest");
	CHECK_EQ(strlen(t->texts[1]), RECORD_TEXT_SIZE + 3);
	CHECK_STR(t->texts[1] + RECORD_TEXT_SIZE, "...");
	timeline_free(t);
}

TEST(text_from_a_site_without_text_is_ignored)
{
	struct timeline *t;

	begin();
	feed_text(1100, 1, S_START, 500, "x", 1);
	feed_text(1200, 1, S_RUN, 500, "x", 1);
	t = finish();
	CHECK_EQ(t->n_spans, 0);
	timeline_free(t);
}

CHECK_MAIN()
