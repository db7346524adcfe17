/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without an end mark, on other threads than their run: when they end at the latest. */
#include "include/record_types.h"
#include "tests/unit/fed.h"

enum { RUN_BEGINS, RUN_ENDS, OP, PEER_BEGINS, QUEUED };

static const struct probe_row rows[] = {
	[RUN_BEGINS] = { .symbol = "begin",
			 OPEN(RUN),
			 .action = ACTION_ENTRY,
			 .slack = 64,
			 .group = 1,
			 .event = "run" },
	[RUN_ENDS] = { .symbol = "end", CLOSE(RUN), .action = ACTION_ENTRY, .group = 1 },
	[OP] = { .symbol = "compute", OPEN(OP), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
	[PEER_BEGINS] = { .symbol = "infer",
			  OPEN(RUN),
			  .of_peer = true,
			  .action = ACTION_ENTRY,
			  .group = 2,
			  .event = "infer" },
	[QUEUED] = { .symbol = "queue", CLOSE(RUN), .action = ACTION_ENTRY, .group = 2 },
};

static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = 5,
				  .ops_end_at_next = true,
				  .names = { .is_name = any, .is_type = any } };

static void feed_to(uint8_t target, uint64_t time, uint32_t tid, uint8_t site)
{
	feed_probe(target, time, tid, site, 4096, 1);
}

static void feed(uint64_t time, uint32_t tid, uint8_t site)
{
	feed_to(0, time, tid, site);
}

/* The operation that began then. */
static const struct span *op_at(const struct timeline *t, uint64_t time)
{
	return span_at(t, SPAN_OP, time);
}

TEST(an_operation_ends_at_the_latest_with_the_runs_that_were_active)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, 1, RUN_BEGINS);
	feed(2500, 2, OP);
	feed(3000, 1, RUN_ENDS);
	feed(4000, 3, RUN_BEGINS);
	feed(5000, 1, RUN_BEGINS);
	feed(5500, 2, OP); /* of which of the two is unknown */
	feed(6000, 1, RUN_ENDS);
	feed(7000, 3, RUN_ENDS);
	t = finish();
	CHECK_EQ(op_at(t, 2500)->end_ns, 3000);
	CHECK_EQ(op_at(t, 5500)->end_ns, 7000);
	CHECK_EQ(op_at(t, 5500)->flags, SPAN_END_NOT_SEEN | SPAN_END_INFERRED);
	timeline_free(t);
}

TEST(beside_a_run_that_lasts_longer_than_the_window_an_operation_keeps_its_upper_bound)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, 1, RUN_BEGINS);
	feed(2500, 2, OP);
	feed(3000, 1, RUN_ENDS);
	feed(8000, 2, OP);
	t = finish();
	CHECK_EQ(op_at(t, 2500)->end_ns, 8000);
	CHECK_EQ(op_at(t, 2500)->flags, SPAN_END_NOT_SEEN);
	CHECK_EQ(op_at(t, 8000)->end_ns, 9000);
	CHECK(op_at(t, 8000)->flags & SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(the_runs_of_one_process_bound_no_operation_of_another_one)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, 1, RUN_BEGINS);
	feed_to(1, 2200, 12, OP); /* of a run that is not seen */
	feed(2500, 2, OP);
	feed_to(1, 2600, 11, RUN_BEGINS);
	feed(3000, 1, RUN_ENDS);
	feed_to(1, 4000, 11, RUN_ENDS);
	t = finish();
	CHECK_EQ(op_at(t, 2200)->end_ns, 9000);
	CHECK_EQ(op_at(t, 2500)->end_ns, 3000);
	timeline_free(t);
}

TEST(an_operation_of_a_run_that_began_before_the_window_does_not_end_with_another_one)
{
	struct timeline *t;

	for (unsigned queued = 0; queued < 2; queued++) {
		begin_with(&pack);
		feed(1100, 1, RUN_BEGINS);
		feed(1200, 2, OP);
		feed(1300, 1, RUN_ENDS);
		/* Work that is queued outside of runs is none. */
		feed(1500, 3, queued ? QUEUED : RUN_ENDS);
		t = finish();
		CHECK_EQ(op_at(t, 1200)->end_ns, queued ? 1300 : 9000);
		timeline_free(t);
	}
}

CHECK_MAIN()
