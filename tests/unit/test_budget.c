/* SPDX-License-Identifier: Apache-2.0 */
/* When, and what, a budget sheds. */
#include "tests/unit/check.h"

#include "daemon/capture/budget/budget.h"

#define MS 1000000ull

/* A load: the cost in nanoseconds per millisecond and kind, on a target with one busy CPU. */
struct load {
	uint64_t per_ms[KIND_COUNT];
	bool shed[KIND_COUNT];
};

/* Runs a window of this many ms, checking every 20 ms; what is shed is hit for 60 ms more. Returns
 * the overhead in percent. */
static double run(struct budget *b, struct load *load, unsigned window_ms, unsigned *ret_sheds)
{
	uint64_t cost[KIND_COUNT] = {}, all = 0, gone_at[KIND_COUNT] = {};

	*ret_sheds = 0;
	for (unsigned ms = 1; ms <= window_ms; ms++) {
		struct budget_verdict v = {};

		for (unsigned kind = 0; kind < KIND_COUNT; kind++)
			if (!load->shed[kind] || ms < gone_at[kind])
				cost[kind] += load->per_ms[kind];
		if (ms % 20 == 0)
			v = budget_check(b, ms * MS, ms * MS, cost, 0);
		for (unsigned kind = 0; kind < KIND_COUNT; kind++)
			if (v.kinds & 1u << kind) {
				load->shed[kind] = true;
				gone_at[kind] = ms + 60;
				++*ret_sheds;
			}
	}
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		all += cost[kind];
	return 100 * (double)all / (double)(window_ms * MS);
}

TEST(nothing_is_shed_within_the_budget)
{
	struct budget b = { .max_percent = 5 };
	struct load load = { .per_ms = { [KIND_OPS] = 40000 } };
	unsigned sheds;

	run(&b, &load, 2000, &sheds);
	CHECK_EQ(sheds, 0);
}

TEST(a_verdict_waits_until_the_targets_have_used_enough_cpu_time)
{
	struct budget b = { .max_percent = 5 };
	uint64_t cost[KIND_COUNT] = {};

	budget_check(&b, 1 * MS, 1 * MS, cost, 0);
	cost[KIND_OPS] = 1 * MS;
	CHECK_EQ(budget_check(&b, 101 * MS, 5 * MS, cost, 0).kinds, 0);
	CHECK_EQ(budget_check(&b, 201 * MS, 6 * MS, cost, 0).kinds, 1u << KIND_OPS);
}

TEST(the_most_expensive_kind_is_shed_first_and_runs_stay)
{
	struct budget b = { .max_percent = 5 };
	struct load load = {
		.per_ms = { [KIND_RUNS] = 40000, [KIND_EXECUTORS] = 8000, [KIND_OPS] = 300000 }
	};
	unsigned sheds;

	run(&b, &load, 2000, &sheds);
	CHECK_EQ(sheds, 1);
	CHECK(load.shed[KIND_OPS] && !load.shed[KIND_EXECUTORS] && !load.shed[KIND_RUNS]);
}

TEST(cheaper_kinds_are_shed_before_more_expensive_runs)
{
	struct budget b = { .max_percent = 5 };
	struct load load = { .per_ms = { [KIND_RUNS] = 48000, [KIND_EXECUTORS] = 8000 } };
	unsigned sheds;

	run(&b, &load, 2000, &sheds);
	CHECK_EQ(sheds, 1);
	CHECK(load.shed[KIND_EXECUTORS] && !load.shed[KIND_RUNS]);
}

TEST(a_limit_of_100_means_no_limit)
{
	struct budget b = { .max_percent = 100 };
	struct load load = { .per_ms = { [KIND_RUNS] = 10000, [KIND_OPS] = 1500000 } };
	unsigned n;

	CHECK(run(&b, &load, 1000, &n) > 100);
	CHECK_EQ(n, 0);
}

TEST(kinds_that_exceed_the_budget_together_are_shed_at_once)
{
	struct budget b = { .max_percent = 1 };
	struct load load = { .per_ms = { [KIND_RUNS] = 5000,
					 [KIND_EXECUTORS] = 100000,
					 [KIND_OPS] = 300000,
					 [KIND_HANDOVER] = 2000 } };
	unsigned sheds;

	CHECK(run(&b, &load, 4000, &sheds) < 2);
	CHECK_EQ(sheds, 2);
	CHECK(!load.shed[KIND_RUNS] && !load.shed[KIND_HANDOVER]);
}

TEST(runs_are_shed_if_they_alone_exceed_the_budget)
{
	struct budget b = { .max_percent = 1 };
	struct load load = { .per_ms = { [KIND_RUNS] = 100000 } };
	unsigned sheds;

	run(&b, &load, 2000, &sheds);
	CHECK_EQ(sheds, 1);
	CHECK(load.shed[KIND_RUNS]);
}

TEST(a_momentarily_idle_kind_is_still_shed_before_runs)
{
	struct budget b = { .max_percent = 1 };
	uint64_t cost[KIND_COUNT] = {};

	CHECK(!budget_check(&b, 100 * MS, 100 * MS, cost, 0).kinds);
	cost[KIND_SWITCHES] = 1000;
	CHECK(!budget_check(&b, 200 * MS, 200 * MS, cost, 0).kinds);
	cost[KIND_RUNS] = 50 * MS;
	CHECK_EQ(budget_check(&b, 300 * MS, 300 * MS, cost, 0).kinds,
		 1u << KIND_RUNS | 1u << KIND_SWITCHES);
}

TEST(a_load_of_ten_times_the_budget_stays_within_it)
{
	for (double budget = 1; budget < 10; budget++) {
		struct budget b = { .max_percent = budget };
		struct load load = { .per_ms = { [KIND_RUNS] = (uint64_t)(budget * 1000),
						 [KIND_OPS] = (uint64_t)(budget * 99000) } };
		unsigned sheds;

		CHECK(run(&b, &load, 2000, &sheds) <= budget + 0.5);
		CHECK_EQ(sheds, 1);
	}
}

TEST(lost_records_count_as_hits)
{
	struct budget b = { .max_percent = 5 };
	uint64_t none[KIND_COUNT] = {}, cost[KIND_COUNT] = { [KIND_OPS] = 2 * MS };

	CHECK(!budget_check(&b, 100 * MS, 100 * MS, none, 0).kinds);
	CHECK(!budget_check(&b, 200 * MS, 200 * MS, cost, 0).kinds);
	cost[KIND_OPS] += 2 * MS;
	CHECK(budget_check(&b, 300 * MS, 300 * MS, cost, 2).kinds);
}

TEST(records_that_were_read_late_are_averaged_over_a_longer_time)
{
	struct budget b = { .max_percent = 50 };
	uint64_t none[KIND_COUNT] = {}, cost[KIND_COUNT] = { [KIND_OPS] = 30 * MS };

	/* 30 ms of 20 is impossible: the records of 80 ms were read at once. */
	CHECK(!budget_check(&b, 100 * MS, 100 * MS, none, 0).kinds);
	CHECK(!budget_check(&b, 120 * MS, 120 * MS, cost, 0).kinds);
	CHECK(!budget_check(&b, 180 * MS, 180 * MS, cost, 0).kinds);
	/* Not forever. */
	cost[KIND_OPS] += 90 * MS;
	CHECK(!budget_check(&b, 200 * MS, 200 * MS, cost, 0).kinds);
	CHECK(budget_check(&b, 300 * MS, 300 * MS, cost, 0).kinds);
}

TEST(a_target_that_does_nothing_costs_nothing)
{
	struct budget b = { .max_percent = 1 };
	uint64_t cost[KIND_COUNT] = {};

	for (unsigned i = 0; i < 10; i++)
		CHECK(!budget_check(&b, i * 100 * MS, 5 * MS, cost, 0).kinds);
}

CHECK_MAIN()
