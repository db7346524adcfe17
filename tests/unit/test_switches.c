/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that a thread switches on and off: blocks that may be nested, on threads of which less is
 * known at first. */
#include "include/record_types.h"
#include "tests/unit/fed.h"

enum { BLOCK, OTHER_BLOCK, OP, SCRIPT, SCRIPT_END, MARK, MARK_END };

#define IN SWITCH(RUN), .slack = SLACK_ANY, .group = 1, .value = { ARGUMENT_1 }, .event = "block"
#define THREAD 5
#define SLACK 64

static const struct probe_row rows[] = {
	[BLOCK] = { .symbol = "set_enabled", IN },
	[OTHER_BLOCK] = { .symbol = "set_state", IN },
	[OP] = { .symbol = "compute", OPEN(OP), .value = { ARGUMENT_1 } },
	[SCRIPT] = { .symbol = "run", OPEN(RUN), .slack = SLACK, .group = 2, .event = "script" },
	[SCRIPT_END] = { .symbol = "end", CLOSE(RUN), .slack = SLACK, .group = 2 },
	[MARK] = { .usdt = "begin", OPEN(RUN), .slack = SLACK_ANY, .group = 3, .event = "mark" },
	[MARK_END] = { .usdt = "end", CLOSE(RUN), .group = 3 },
};

static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = sizeof(rows) / sizeof(rows[0]),
				  .ops_end_at_next = true,
				  .ops_outside_runs = true,
				  .names = { .is_name = any, .is_type = any } };

static void feed(uint64_t time, uint8_t site, uint32_t stack, uint64_t value)
{
	feed_probe(0, time, THREAD, site, stack, value);
}

static void feed_life(uint64_t time, uint8_t kind)
{
	const struct record_thread r = {
		.head = { .time = time, .tid = THREAD, .kind = kind, .size8 = sizeof(r) / 8 },
		.pid = 77,
	};

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

/* The capture has seen another thread's switch: the probes are attached. */
static void begin(void)
{
	begin_with(&pack);
	/* Two targets have this pid, and the second one gets its threads. */
	for (uint8_t target = 0; target < 2; target++)
		feed_probe(target, 1100 + target, THREAD + 1, BLOCK, 4096, 1);
}

static const struct span *run_at(const struct timeline *t, uint64_t start)
{
	return span_at(t, SPAN_RUN, start);
}

static void check_run(const struct timeline *t, uint64_t start, uint64_t end, unsigned flags)
{
	const struct span *run = run_at(t, start);

	CHECK(run);
	if (!run)
		return;
	CHECK_EQ(run->end_ns, end);
	CHECK_EQ(run->flags, flags);
}

static unsigned n_runs(const struct timeline *t)
{
	unsigned n = 0;

	for (uint64_t i = 0; i < t->n_spans; i++)
		n += t->spans[i].kind == SPAN_RUN;
	return n;
}

TEST(an_outermost_block_is_a_run)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(3000, BLOCK, 4000, 0);
	feed(3100, BLOCK, 3900, 0);
	feed(3200, OP, 8000, 1);
	feed(3300, BLOCK, 3900, 0);
	feed(4000, BLOCK, 5000, 1);
	feed(4100, BLOCK, 5000, 1);
	feed(5000, OTHER_BLOCK, 4000, 0xfffffff4);
	feed(6000, OTHER_BLOCK, 4000, 0xfffffff5);
	t = finish();
	CHECK_EQ(n_runs(t), 2);
	check_run(t, 3000, 4000, 0);
	CHECK_STR(t->names[run_at(t, 3000)->name].name, "block");
	check_run(t, 5000, 6000, 0);
	timeline_free(t);
}

TEST(what_a_thread_switched_before_the_window_is_unknown)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 0);
	feed(2500, BLOCK, 4000, 0);
	feed(3000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 1);
	check_run(t, 2000, 3000, SPAN_TRUNCATED_START);
	timeline_free(t);
}

/* The operation that begins then ends then, and no run is taken for one inside of another. */
static void check_op(const struct timeline *t, uint64_t start, uint64_t end)
{
	const struct span *op = span_at(t, SPAN_OP, start);

	for (uint64_t i = 0; i < t->n_spans; i++) {
		CHECK(!(t->spans[i].flags & SPAN_INNER));
		CHECK(t->spans[i].kind != SPAN_OP || t->spans[i].start_ns != start ||
		      &t->spans[i] == op);
	}
	CHECK(op);
	if (!op)
		return;
	CHECK_EQ(op->end_ns, end);
	CHECK(op->flags & SPAN_END_NOT_SEEN);
}

TEST(operations_of_a_block_that_was_found_end_with_it)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 0);
	/* The last one of a request gives Python no tensor. */
	feed(2500, OP, 8000, 1);
	feed(3000, BLOCK, 4096, 1);
	feed(5000, BLOCK, 4096, 0);
	feed(5500, OP, 7000, 1);
	feed(6000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 2);
	check_run(t, 2000, 3000, SPAN_TRUNCATED_START);
	check_run(t, 5000, 6000, 0);
	check_op(t, 2500, 3000);
	check_op(t, 5500, 6000);
	timeline_free(t);
}

TEST(an_operation_before_a_block_has_ended_where_one_inside_is_not_deeper_in_the_stack)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(2500, OP, 8000, 1);
	feed(2600, OP, 7500, 1);
	feed(3000, BLOCK, 4096, 0);
	/* It may be inside of those. */
	feed(3200, OP, 7000, 1);
	feed(3400, OP, 8000, 1);
	feed(4000, BLOCK, 4096, 1);
	feed(5000, BLOCK, 4096, 0);
	feed(6000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 2);
	check_op(t, 2500, 3000);
	check_op(t, 2600, 2999);
	check_op(t, 3200, 3400);
	check_op(t, 3400, 4000);
	timeline_free(t);
}

TEST(after_a_loss_an_operation_before_a_block_may_have_gone_on)
{
	const struct span *op;
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(2500, OP, 8000, 1);
	feed(3000, BLOCK, 4096, 0);
	/* The block's end is lost. */
	correlator_note_loss(c, 3300, 3500);
	feed(5000, OP, 8000, 1);
	t = finish();
	op = span_at(t, SPAN_OP, 2500);
	CHECK(op && op->end_ns >= 5000);
	timeline_free(t);
}

TEST(a_block_inside_of_an_operation_does_not_end_it)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(2500, OP, 8000, 1);
	feed(3000, BLOCK, 4096, 0);
	feed(3200, OP, 7000, 1);
	feed(4000, BLOCK, 4096, 1);
	feed(4500, OP, 8000, 1);
	t = finish();
	check_op(t, 2500, 4500);
	check_op(t, 3200, 4000);
	timeline_free(t);
}

TEST(a_thread_that_never_leaves_its_block_has_no_run)
{
	struct timeline *t;

	begin();
	for (uint64_t time = 2000; time < 9000; time += 100)
		feed(time, BLOCK, 4096, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 0);
	timeline_free(t);
}

TEST(a_new_thread_is_in_no_block)
{
	struct timeline *t;

	begin();
	feed_life(1500, RECORD_FORK);
	feed(2000, BLOCK, 4096, 0);
	feed(3000, BLOCK, 4096, 1);
	feed(3200, BLOCK, 4096, 0);
	feed_life(3500, RECORD_EXIT);
	feed_life(3600, RECORD_FORK);
	feed(3700, OP, 4096, 1);
	feed(4000, BLOCK, 4096, 0);
	/* Its end was not seen. */
	feed_life(5000, RECORD_FORK);
	feed(6000, BLOCK, 4096, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 4);
	check_run(t, 2000, 3000, 0);
	check_run(t, 3200, 3500, SPAN_TRUNCATED_END);
	check_run(t, 4000, 5000, SPAN_TRUNCATED_END);
	check_run(t, 6000, 9000, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(a_thread_that_is_older_than_the_probes_may_be_in_a_block)
{
	struct timeline *t;

	begin_with(&pack);
	feed_life(1500, RECORD_FORK);
	feed(3000, BLOCK, 3900, 0);
	feed(3100, BLOCK, 3900, 0);
	feed(5000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 1);
	check_run(t, 3000, 5000, SPAN_TRUNCATED_START);
	timeline_free(t);
}

TEST(after_a_loss_the_state_is_unknown)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(3000, BLOCK, 4096, 0);
	CHECK_EQ(correlator_note_loss(c, 3500, 3600), 0);
	feed(4000, BLOCK, 4096, 0);
	feed(5000, BLOCK, 4096, 1);
	feed(6000, BLOCK, 4096, 0);
	feed(7000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 3);
	check_run(t, 3000, 3000, SPAN_TRUNCATED_END);
	check_run(t, 4000, 5000, SPAN_TRUNCATED_START);
	check_run(t, 6000, 7000, 0);
	timeline_free(t);
}

TEST(a_block_around_marks_ends_where_the_first_begins)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 4096, 1);
	feed(3000, BLOCK, 4096, 0);
	feed(4000, MARK, 4096, 0);
	feed(5000, MARK_END, 4000, 0);
	feed(6000, MARK, 4096, 0);
	feed(7000, MARK_END, 4000, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 3);
	check_run(t, 3000, 4000, SPAN_TRUNCATED_END);
	check_run(t, 4000, 5000, SPAN_MARK);
	check_run(t, 6000, 7000, SPAN_MARK);
	timeline_free(t);
}

TEST(a_run_ends_only_with_an_end_at_its_own_height)
{
	struct timeline *t;

	begin();
	feed(2000, SCRIPT, 8000, 0);
	feed(2500, SCRIPT_END, 6000, 0);
	feed(3000, SCRIPT, 7000, 0);
	feed(3500, SCRIPT_END, 7000, 0);
	feed(4000, SCRIPT_END, 8000, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 2);
	check_run(t, 2000, 4000, 0);
	check_run(t, 3000, 3500, SPAN_INNER);
	timeline_free(t);
}

TEST(of_a_block_that_was_found_the_runs_inside_are_shown_instead)
{
	struct timeline *t;

	begin();
	feed(2000, BLOCK, 8192, 0);
	feed(3000, SCRIPT, 8000, 0);
	feed(4000, SCRIPT_END, 8000, 0);
	feed(5000, BLOCK, 8192, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 1);
	check_run(t, 3000, 4000, 0);
	timeline_free(t);
}

CHECK_MAIN()
