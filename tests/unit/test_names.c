/* SPDX-License-Identifier: Apache-2.0 */
/* Names that objects had at a time, and hashes whose collisions cannot be chosen. */
#include "daemon/timeline/names.h"

#include <stdio.h>

#include "lib/base/hash.h"
#include "tests/unit/check.h"

TEST(an_object_has_the_name_valid_at_that_time)
{
	struct names n = {};

	CHECK_EQ(names_of_object(&n, 5, 10), NAME_NONE);
	CHECK_EQ(names_set_object(&n, 5, 1, 10), 0);
	CHECK_EQ(names_of_object(&n, 5, 50), 1);
	names_free_object(&n, 5, 20);
	CHECK_EQ(names_of_object(&n, 5, 19), 1);
	CHECK_EQ(names_of_object(&n, 5, 20), NAME_NONE);
	CHECK_EQ(names_set_object(&n, 5, 2, 30), 0);
	/* Its end was lost. */
	CHECK_EQ(names_set_object(&n, 5, 3, 40), 0);
	CHECK_EQ(names_of_object(&n, 5, 5), 1);
	CHECK_EQ(names_of_object(&n, 5, 25), 2);
	CHECK_EQ(names_of_object(&n, 5, 39), 2);
	CHECK_EQ(names_of_object(&n, 5, 40), 3);
	CHECK_EQ(names_of_object(&n, 6, 40), NAME_NONE);
	names_done(&n);
}

/* By the length of the chain each step would take minutes. */
TEST(an_address_that_is_used_over_and_over_costs_no_more_each_time)
{
	struct names n = {};

	for (uint64_t i = 0; i < 1000000; i++) {
		names_free_object(&n, 5, i * 10);
		if (names_set_object(&n, 5, (uint32_t)(i % 2), i * 10) < 0 ||
		    names_of_object(&n, 5, i * 10 + 5) != i % 2)
			CHECK(false);
	}
	names_done(&n);
}

TEST(equal_texts_are_one_name)
{
	struct names n = {};
	uint32_t first, again, other;
	char text[32];

	CHECK_EQ(names_add(&n, "a", NULL, false, false, &first), 0);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "name %u", i);
		CHECK_EQ(names_add(&n, text, NULL, false, false, &other), 0);
		CHECK_EQ(other, i + 1);
	}
	CHECK_EQ(names_add(&n, "a", NULL, false, false, &again), 0);
	CHECK_EQ(again, first);
	CHECK_EQ(n.n, 1001);
	names_done(&n);
}

/* So that the table is not longer at any place than chance makes it, whichever bits the keys differ
 * in. */
TEST(keys_that_differ_in_few_bits_are_spread)
{
	for (unsigned shift = 0; shift <= 48; shift += 4) {
		unsigned counts[1024] = {}, most = 0;

		for (uint64_t i = 0; i < 16 * 1024; i++) {
			unsigned *count = &counts[hash_number(12345, i << shift) % 1024];

			most = ++*count > most ? *count : most;
		}
		CHECK(most < 64);
	}
}

TEST(the_seed_determines_the_slot_of_a_key)
{
	unsigned same = 0;

	CHECK(hash_seed() && hash_seed() != hash_seed());
	for (uint64_t i = 0; i < 4096; i++)
		same += hash_number(1, i) % 1024 == hash_number(3, i) % 1024;
	CHECK(same < 64);
	CHECK(hash_text(1, "text", 4) != hash_text(3, "text", 4));
	CHECK_EQ(hash_text(1, "text", 4), hash_text(1, "textual", 4));
	/* The effect of a seed differs between texts: otherwise two that collide would do so with
	 * every seed. */
	CHECK(hash_text(3, "text", 4) - hash_text(1, "text", 4) !=
	      hash_text(3, "tent", 4) - hash_text(1, "tent", 4));
	CHECK(hash_text(1, "a text of some length", 21) !=
	      hash_text(1, "a text of some lengti", 21));
}

CHECK_MAIN()
