/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without an end mark, on one thread: which are inside another one, and when they end.
 */
#include "include/record_types.h"
#include "tests/unit/fed.h"

enum { OP, RESULT, OUTER, INNER };

#define SLACK 64

static const struct probe_row rows[] = {
	[OP] = { .symbol = "compute", OPEN(OP), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
	[RESULT] = { .symbol = "wrap", POINT(OP), .slack = SLACK, .action = ACTION_ENTRY },
	[OUTER] = { .symbol = "execute_dynamic", OPEN(OP), .tag = { ARGUMENT_1 } },
	[INNER] = { .symbol = "execute", OPEN(OP), .goes_on = true, .tag = { ARGUMENT_1 } },
};

static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = 4,
				  .ops_end_at_next = true,
				  .names = { .is_name = any, .is_type = any } };

static void feed(uint64_t time, uint8_t site, uint32_t stack)
{
	feed_probe(0, time, 5, site, stack, 1);
}

static void feed_tag(uint64_t time, uint8_t site, uint32_t stack, uint32_t tag)
{
	feed_tagged_probe(0, time, 5, site, stack, 1, tag);
}

static uint64_t end_of(const struct timeline *t, uint64_t start)
{
	const struct span *op = span_at(t, SPAN_OP, start);

	return op ? op->end_ns : 0;
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

TEST(one_that_goes_on_in_another_function_is_one)
{
	struct timeline *t;

	begin_with(&pack);
	/* By a jump, and by a call. */
	feed_tag(2000, OUTER, 4096, 7);
	feed_tag(2100, INNER, 4096, 7);
	feed_tag(3000, OUTER, 4096, 8);
	feed_tag(3100, INNER, 4000, 8);
	/* The same object again; another one within it; without the outer function, twice. */
	feed_tag(4000, OUTER, 4096, 8);
	feed_tag(4200, INNER, 4000, 9);
	feed_tag(5000, INNER, 4096, 8);
	feed_tag(6000, INNER, 4096, 8);
	feed_tag(7000, OUTER, 4096, 8);
	t = finish();
	CHECK_EQ(t->n_ops, 7);
	CHECK_EQ(end_of(t, 2000), 3000);
	CHECK_EQ(end_of(t, 3000), 4000);
	CHECK_EQ(end_of(t, 4000), 5000);
	CHECK_EQ(end_of(t, 4200), 4999);
	CHECK_EQ(end_of(t, 5000), 6000);
	CHECK_EQ(end_of(t, 6000), 7000);
	timeline_free(t);
}

CHECK_MAIN()
