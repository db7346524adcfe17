/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of triggers, changed while requests are judged by them. */
#include "daemon/recorder/triggers.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define MS 1000000ull
#define SECOND 1000000000ull

static const struct trigger_rule slow = { .name = "slow",
					  .condition = TRIGGER_LATENCY,
					  .latency_ns = 100 * MS,
					  .requests = 2,
					  .window_ns = 100 * SECOND };
static const struct trigger_rule queue = { .name = "queue",
					   .condition = TRIGGER_QUEUE,
					   .queue = 3 };

static struct loop *loop;
static unsigned n_fired;
static struct trigger_firing last;

static void on_fired(const struct trigger_firing *firing, void *data)
{
	n_fired++;
	last = *firing;
}

static struct triggers *begin_tests(const struct trigger_rule *rules, unsigned n)
{
	const struct correlate_target target = { .pid = 77, .name = "server" };
	struct triggers_options options = { .rules = rules, .n = n, .fired = on_fired };
	struct triggers *t = NULL;

	CHECK_EQ(loop_new(&loop), 0);
	options.loop = loop;
	n_fired = 0;
	CHECK_EQ(triggers_new(&options, &t), 0);
	triggers_begin(t);
	triggers_add_target(t, &target);
	return t;
}

static void end_tests(struct triggers *t)
{
	triggers_free(t);
	loop_free(loop);
}

static void stop(void *data)
{
	loop_exit(data, 0);
}

/* How often one has fired until now. */
static unsigned fired(void)
{
	CHECK_EQ(loop_post(loop, stop, loop), 0);
	CHECK_EQ(loop_run(loop), 0);
	return n_fired;
}

static void ask(struct triggers *t, uint64_t end, uint64_t latency)
{
	triggers_on_request(t, &(struct finished_request){ .start_ns = end - latency,
							   .end_ns = end,
							   .model = "m1",
							   .status = 200,
							   .grpc_status = -1 });
}

TEST(the_window_of_a_rule_that_is_the_same_goes_on_at_another_place)
{
	struct trigger_rule next[2] = { queue, slow };
	struct triggers *t = begin_tests(&slow, 1);

	ask(t, 10 * SECOND, 200 * MS);
	triggers_set(t, next, ARRAY_SIZE(next));
	CHECK_EQ(fired(), 0);
	ask(t, 11 * SECOND, 200 * MS);
	CHECK_EQ(fired(), 1);
	CHECK_STR(last.trigger, "slow");
	CHECK_EQ(last.pid, 77);
	end_tests(t);
}

TEST(a_rule_that_has_changed_begins_anew)
{
	struct trigger_rule next = slow;
	struct triggers *t = begin_tests(&slow, 1);

	ask(t, 10 * SECOND, 500 * MS);
	next.latency_ns = 300 * MS;
	triggers_set(t, &next, 1);
	ask(t, 11 * SECOND, 500 * MS);
	ask(t, 12 * SECOND, 200 * MS);
	CHECK_EQ(fired(), 0);
	ask(t, 13 * SECOND, 500 * MS);
	CHECK_EQ(fired(), 1);
	end_tests(t);
}

TEST(rules_come_and_go_and_one_of_a_queue_is_asked_only_while_it_is_there)
{
	struct triggers *t = begin_tests(NULL, 0);

	ask(t, 10 * SECOND, 500 * MS);
	CHECK(!triggers_count_queue(t));
	triggers_set(t, &queue, 1);
	CHECK(triggers_count_queue(t));
	triggers_on_queue(t, 0, 4);
	CHECK_EQ(fired(), 1);
	CHECK_STR(last.trigger, "queue");
	CHECK_STR(last.reason, "4 requests are in progress, above 3");
	/* The same rule: it is still above. */
	triggers_set(t, (struct trigger_rule[]){ slow, queue }, 2);
	CHECK(triggers_count_queue(t));
	triggers_on_queue(t, 0, 5);
	CHECK_EQ(fired(), 1);
	triggers_set(t, NULL, 0);
	CHECK(!triggers_count_queue(t));
	ask(t, 11 * SECOND, 500 * MS);
	ask(t, 12 * SECOND, 500 * MS);
	triggers_on_queue(t, 0, 9);
	CHECK_EQ(fired(), 1);
	CHECK(!triggers_count_queue(NULL));
	end_tests(t);
}

TEST(what_has_fired_by_rules_that_are_gone_is_not_reported)
{
	struct triggers *t = begin_tests(&slow, 1);

	ask(t, 10 * SECOND, 500 * MS);
	ask(t, 11 * SECOND, 500 * MS);
	triggers_set(t, &queue, 1);
	CHECK(triggers_count_queue(t));
	CHECK_EQ(fired(), 0);
	end_tests(t);
}

TEST(what_has_fired_by_a_rule_that_stays_is_reported_after_the_change)
{
	struct triggers *t = begin_tests(&slow, 1);
	struct trigger_rule both[2] = { queue, slow };

	ask(t, 10 * SECOND, 500 * MS);
	ask(t, 11 * SECOND, 500 * MS);
	triggers_set(t, both, 2);
	CHECK(triggers_count_queue(t));
	CHECK_EQ(fired(), 1);
	end_tests(t);
}

CHECK_MAIN()
