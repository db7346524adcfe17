/* SPDX-License-Identifier: Apache-2.0 */
/* Which kinds of probes a capture leaves out where it has no room for all. */
#include "daemon/broker/limits.h"
#include "daemon/capture/sites.h"
#include "tests/unit/check.h"

static unsigned left_out_of(unsigned counts[KIND_COUNT], unsigned left_out, unsigned room)
{
	enum probe_kind kind;

	while ((kind = sites_excess(counts, left_out, room)) < KIND_COUNT)
		left_out |= 1u << kind;
	return left_out;
}

TEST(the_kinds_with_most_probes_go_until_the_others_have_room)
{
	unsigned counts[KIND_COUNT] = { [KIND_RUNS] = 3, [KIND_OPS] = 690, [KIND_MEMORY] = 40 };

	CHECK_EQ(left_out_of(counts, 0, 733), 0);
	CHECK_EQ(left_out_of(counts, 0, 732), 1u << KIND_OPS);
	CHECK_EQ(left_out_of(counts, 0, 43), 1u << KIND_OPS);
	CHECK_EQ(left_out_of(counts, 0, 42), 1u << KIND_OPS | 1u << KIND_MEMORY);
	/* What is left out already takes no room. */
	CHECK_EQ(left_out_of(counts, 1u << KIND_OPS, 43), 1u << KIND_OPS);
}

TEST(runs_and_executors_stay_though_they_have_no_room)
{
	unsigned counts[KIND_COUNT] = { [KIND_RUNS] = 300, [KIND_EXECUTORS] = 10, [KIND_OPS] = 1 };

	CHECK_EQ(left_out_of(counts, 0, 256), 1u << KIND_OPS);
}

TEST(perf_events_have_less_room)
{
	CHECK_EQ(sites_room(&(struct forecast){ .perf_events = true }), BROKER_MAX_PERF_EVENTS);
	CHECK_EQ(sites_room(&(struct forecast){}), BROKER_MAX_SITES);
}

TEST(a_sentence_fits_where_it_is_kept)
{
	char text[256];

	/* SHED_TEXT of the flight recorder. */
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		sites_explain(kind, 4096, BROKER_MAX_SITES, text, sizeof(text));
		CHECK(strlen(text) < 160);
	}
}

CHECK_MAIN()
