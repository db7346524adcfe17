/* SPDX-License-Identifier: Apache-2.0 */
/* When operations are recorded under a budget. */
#include "daemon/capture/budget/slices.h"
#include "tests/unit/check.h"

#define MS 1000000ull

/* What a window looked like. */
struct outcome {
	double percent; /* of the CPU time */
	unsigned n;     /* slices after the first one */
	uint64_t shortest_ns, longest_ns, seen_ns;
	double least_apart_ns, most_apart_ns;
};

/* A busy CPU on which operations cost so much while they are recorded, and until 60 ms later. What
 * else is recorded costs others_percent. It looks every 20 ms, as a capture does. */
static struct outcome run(double budget, double ops_percent, double others_percent,
			  unsigned window_ms, uint64_t seed)
{
	struct outcome o = { .shortest_ns = UINT64_MAX, .least_apart_ns = 1e18 };
	uint64_t off_at = 40 * MS, on_at = 0;
	double ops = 0, others = 0;
	struct slices s;
	bool is_on = true;

	for (uint64_t ms = 1; ms <= window_ms; ms++) {
		uint64_t now = ms * MS, length = now - on_at;
		double saved;

		if (is_on || now < off_at + 60 * MS)
			ops += ops_percent / 100 * (double)MS;
		others += others_percent / 100 * (double)MS;
		o.seen_ns += is_on ? MS : 0;
		if (ms == 40) {
			s = (struct slices){};
			slices_begin(&s, now + seed, ops, ops_percent / 100);
			is_on = false;
		}
		if (ms % 20 || ms <= 40)
			continue;
		saved = budget / 100 * (double)now - ops - others;
		switch (slices_check(&s, now, ops, saved)) {
		case SLICES_STAY:
			continue;
		case SLICES_PAUSE:
			CHECK(is_on);
			o.shortest_ns = length < o.shortest_ns ? length : o.shortest_ns;
			o.longest_ns = length > o.longest_ns ? length : o.longest_ns;
			off_at = now;
			break;
		case SLICES_RESUME:
			CHECK(!is_on);
			if (o.n++) {
				double apart = (double)(now - off_at);

				o.least_apart_ns =
					apart < o.least_apart_ns ? apart : o.least_apart_ns;
				o.most_apart_ns = apart > o.most_apart_ns ? apart : o.most_apart_ns;
			}
			on_at = now;
			break;
		}
		is_on = !is_on;
		slices_changed(&s, now, ops);
	}
	o.percent = 100 * (ops + others) / (double)(window_ms * MS);
	return o;
}

TEST(slices_use_the_budget_and_do_not_exceed_it)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct outcome o = run(1, 30, 0.2, 60000, seed);

		CHECK(o.percent > 0.8 && o.percent < 1.1);
		CHECK(o.n >= 6);
		CHECK_EQ(o.shortest_ns, SLICE_NS);
	}
}

TEST(distances_are_random)
{
	struct outcome o = run(5, 30, 0, 60000, 7);

	CHECK(o.n > 40);
	CHECK(o.least_apart_ns < 0.6 * o.most_apart_ns);
	CHECK(o.least_apart_ns >= (double)SLICE_NS);
}

TEST(a_slice_lasts_as_long_as_the_budget_pays_for_it)
{
	struct outcome o = run(20, 22, 0, 20000, 3);

	CHECK(o.percent < 20.5);
	CHECK(o.seen_ns > 20000 * MS / 2);
	CHECK(o.longest_ns > SLICE_NS + 20 * MS);
}

TEST(hours_without_load_pay_for_ten_slices)
{
	struct slices s = {};
	uint64_t now = SLICE_NS, on_ns = 0;
	double cost = 0, idle = 3600e9;

	slices_begin(&s, now, 0, 0.2);
	for (; on_ns < 100 * SLICE_NS; now += 20 * MS) {
		double saved = 0.01 * (idle + (double)now) - cost;

		if (slices_check(&s, now, cost, saved) != SLICES_STAY) {
			if (s.is_on)
				break;
			slices_changed(&s, now, cost);
		}
		on_ns += s.is_on ? 20 * MS : 0;
		cost += s.is_on ? 0.2 * 20 * (double)MS : 0;
	}
	CHECK(on_ns >= 5 * SLICE_NS && on_ns <= 16 * SLICE_NS);
}

TEST(there_is_no_slice_if_the_rest_uses_the_budget)
{
	CHECK_EQ(run(1, 30, 1, 20000, 5).n, 0);
}

CHECK_MAIN()
