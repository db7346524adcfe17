/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that a thread switches on and off: blocks that may be nested, on threads of which less is
 * known at first. */
#include "include/record_types.h"
#include "tests/unit/fed.h"

enum { BLOCK, OTHER_BLOCK, OP };

#define IN(row_event)                                                                              \
	SWITCH(RUN), .slack = SLACK_ANY, .group = 1, .action = ACTION_ENTRY,                       \
		     .value = { ARGUMENT_1 }, .event = row_event

static const struct probe_row rows[] = {
	[BLOCK] = { .symbol = "set_enabled", IN("block") },
	[OTHER_BLOCK] = { .symbol = "set_state", IN("other") },
	[OP] = { .symbol = "compute", OPEN(OP), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
};

static const struct pack pack = { .name = "test",
				  .rows = rows,
				  .n_rows = 3,
				  .ops_end_at_next = true,
				  .names = { .is_name = any, .is_type = any } };

static void feed(uint64_t time, uint8_t site, uint32_t stack, uint64_t value)
{
	const struct record_probe r = {
		.head = { .time = time,
			  .tid = 5,
			  .kind = RECORD_PROBE,
			  .site = site,
			  .size8 = sizeof(r) / 8 },
		.stack = stack,
		.value = value,
	};

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static void begin_thread(uint64_t time, uint8_t kind)
{
	const struct record_thread r = {
		.head = { .time = time, .tid = 5, .kind = kind, .size8 = sizeof(r) / 8 },
		.pid = 77,
	};

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

/* The run that begins then; NULL: none. */
static const struct span *run_at(const struct timeline *t, uint64_t start)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_RUN && t->spans[i].start_ns == start)
			return &t->spans[i];
	return NULL;
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

	begin_with(&pack);
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
	CHECK_EQ(run_at(t, 3000)->end_ns, 4000);
	CHECK_EQ(run_at(t, 3000)->flags, 0);
	CHECK_STR(t->names[run_at(t, 3000)->name].name, "block");
	CHECK_EQ(run_at(t, 5000)->end_ns, 6000);
	CHECK_STR(t->names[run_at(t, 5000)->name].name, "other");
	timeline_free(t);
}

TEST(what_a_thread_switched_before_the_window_is_unknown)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, BLOCK, 4096, 0);
	feed(2500, BLOCK, 4000, 0);
	feed(3000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 1);
	CHECK_EQ(run_at(t, 2000)->end_ns, 3000);
	CHECK_EQ(run_at(t, 2000)->flags, SPAN_TRUNCATED_START);
	timeline_free(t);
}

TEST(a_thread_that_never_leaves_its_block_has_no_run)
{
	struct timeline *t;

	begin_with(&pack);
	for (uint64_t time = 2000; time < 9000; time += 100)
		feed(time, BLOCK, 4096, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 0);
	timeline_free(t);
}

TEST(a_new_thread_is_in_no_block)
{
	struct timeline *t;

	begin_with(&pack);
	begin_thread(1500, RECORD_FORK);
	feed(2000, BLOCK, 4096, 0);
	feed(3000, BLOCK, 4096, 1);
	begin_thread(3500, RECORD_EXIT);
	begin_thread(3600, RECORD_FORK);
	feed(4000, BLOCK, 4096, 0);
	t = finish();
	CHECK_EQ(n_runs(t), 2);
	CHECK_EQ(run_at(t, 2000)->flags, 0);
	CHECK_EQ(run_at(t, 4000)->flags, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(after_a_loss_the_state_is_unknown)
{
	struct timeline *t;

	begin_with(&pack);
	feed(2000, BLOCK, 4096, 1);
	feed(3000, BLOCK, 4096, 0);
	CHECK_EQ(correlator_note_loss(c, 3500, 3600), 0);
	feed(4000, BLOCK, 4096, 0);
	feed(5000, BLOCK, 4096, 1);
	feed(6000, BLOCK, 4096, 0);
	feed(7000, BLOCK, 4096, 1);
	t = finish();
	CHECK_EQ(n_runs(t), 3);
	CHECK_EQ(run_at(t, 3000)->end_ns, 3000);
	CHECK_EQ(run_at(t, 3000)->flags, SPAN_TRUNCATED_END);
	CHECK_EQ(run_at(t, 4000)->flags, SPAN_TRUNCATED_START);
	CHECK_EQ(run_at(t, 6000)->flags, 0);
	timeline_free(t);
}

CHECK_MAIN()
