/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of probes that were disabled, and when. */
#include "daemon/correlate/sheds.h"
#include "tests/unit/check.h"

TEST(a_shed_takes_effect_once_and_not_before_its_time)
{
	struct sheds s = {};
	struct shed_change change;

	CHECK(!sheds_pending(&s));
	CHECK_EQ(sheds_note(&s, KIND_SWITCHES, true, 100), 1);
	CHECK(sheds_pending(&s));
	CHECK(!sheds_next(&s, 99, &change));
	CHECK(!sheds_has(&s, KIND_SWITCHES));
	CHECK(sheds_next(&s, 100, &change));
	CHECK(change.kind == KIND_SWITCHES && change.is_shed);
	CHECK_EQ(change.at_ns, 100);
	CHECK(sheds_has(&s, KIND_SWITCHES));
	CHECK(!sheds_pending(&s));
	CHECK(!sheds_next(&s, 200, &change));
	sheds_done(&s);
}

TEST(the_first_time_of_a_kind_counts)
{
	struct sheds s = {};
	struct shed_change change;

	CHECK_EQ(sheds_note(&s, KIND_SOCKETS, true, 0), 1);
	CHECK_EQ(sheds_note(&s, KIND_SOCKETS, true, 50), 0);
	CHECK(sheds_next(&s, 0, &change));
	CHECK_EQ(change.at_ns, 0);
	CHECK_EQ(sheds_note(&s, KIND_SOCKETS, true, 60), 0);
	CHECK(!sheds_pending(&s));
	sheds_done(&s);
}

TEST(a_kind_that_is_shed_and_enabled_again_and_again_changes_at_each_time)
{
	struct sheds s = {};
	struct shed_change change;

	CHECK_EQ(sheds_note(&s, KIND_OPS, false, 5), 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		CHECK_EQ(sheds_note(&s, KIND_OPS, i % 2, 10 * i), 1);
		/* Records are read later than they are made. */
		if (i < 4)
			continue;
		CHECK(sheds_next(&s, 10 * i - 25, &change));
		CHECK_EQ(change.at_ns, 10 * (i - 3));
		CHECK(sheds_has(&s, KIND_OPS) == (i - 3) % 2);
		CHECK(!sheds_next(&s, 10 * i - 25, &change));
	}
	sheds_done(&s);
}

CHECK_MAIN()
