/* SPDX-License-Identifier: Apache-2.0 */
/* When a kind of probes that is disabled ends in the timeline. */
#include "daemon/correlate/sheds.h"
#include "tests/unit/check.h"

TEST(a_shed_takes_effect_once_and_not_before_its_time)
{
	struct sheds s = {};
	enum probe_kind kind = KIND_COUNT;
	uint64_t at = 0;

	CHECK(!sheds_pending(&s));
	CHECK(sheds_note(&s, KIND_SWITCHES, 100));
	CHECK(sheds_pending(&s));
	CHECK(!sheds_next(&s, 99, &kind, &at));
	CHECK(!sheds_has(&s, KIND_SWITCHES));
	CHECK(sheds_next(&s, 100, &kind, &at));
	CHECK_EQ(kind, KIND_SWITCHES);
	CHECK_EQ(at, 100);
	CHECK(sheds_has(&s, KIND_SWITCHES));
	CHECK(!sheds_pending(&s));
	CHECK(!sheds_next(&s, 200, &kind, &at));
}

TEST(the_first_time_of_a_kind_counts)
{
	struct sheds s = {};
	enum probe_kind kind;
	uint64_t at = 0;

	CHECK(sheds_note(&s, KIND_SOCKETS, 0));
	CHECK(!sheds_note(&s, KIND_SOCKETS, 50));
	CHECK(sheds_next(&s, 0, &kind, &at));
	CHECK_EQ(at, 0);
	CHECK(!sheds_note(&s, KIND_SOCKETS, 60));
	CHECK(!sheds_pending(&s));
}

CHECK_MAIN()
