/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without an end mark, on one thread: which are inside another one, and when they end.
 */
#include "include/record_types.h"
#include "tests/unit/fed.h"

enum { OP, RESULT };

#define SLACK 64

static const struct probe_row rows[] = {
	[OP] = { .symbol = "compute", OPEN(OP), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
	[RESULT] = { .symbol = "wrap", POINT(OP), .slack = SLACK, .action = ACTION_ENTRY },
};

static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = 2,
				  .ops_end_at_next = true,
				  .names = { .is_name = any, .is_type = any } };

static void feed(uint64_t time, uint8_t site, uint32_t stack)
{
	feed_probe(0, time, 5, site, stack, 1);
}

static uint64_t end_of(const struct timeline *t, uint64_t start)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_OP && t->spans[i].start_ns == start)
			return t->spans[i].end_ns;
	return 0;
}

TEST(one_inside_another_ends_a_nanosecond_before_it)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, OP, 4096);
	feed(2500, OP, 4000);
	feed(3000, OP, 3900);
	feed(4000, OP, 4096);
	feed(5000, OP, 4096);
	t = finish();
	CHECK_EQ(end_of(t, 2000), 4000);
	CHECK_EQ(end_of(t, 2500), 3999);
	CHECK_EQ(end_of(t, 3000), 3998);
	CHECK_EQ(end_of(t, 4000), 5000);
	timeline_free(t);
}

TEST(those_within_the_slack_of_a_point_have_ended_there)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, OP, 4096);
	feed(2500, OP, 3000);
	feed(3000, RESULT, 3000 - SLACK);
	feed(4000, OP, 2900);
	feed(5000, RESULT, 4096 - SLACK - 8);
	feed(6000, OP, 4096);
	t = finish();
	CHECK_EQ(end_of(t, 2500), 2999);
	CHECK_EQ(end_of(t, 4000), 4999);
	CHECK_EQ(end_of(t, 2000), 6000);
	timeline_free(t);
}

CHECK_MAIN()
