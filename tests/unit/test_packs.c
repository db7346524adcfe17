/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs.h"
#include "tests/unit/check.h"

/* Sets are never freed: a front that was taken over could make any number of them. */
TEST(bits_of_packs_that_do_not_exist_make_no_other_set)
{
	unsigned n = 0;

	while (packs[n])
		n++;
	for (unsigned i = n; i < 64; i++)
		CHECK(pack_set_get(1 | UINT64_C(1) << i) == pack_set_get(1));
	CHECK(pack_set_get(UINT64_MAX) == pack_set_get((UINT64_C(1) << n) - 1));
	CHECK_EQ(pack_set_get(UINT64_MAX)->bits, (UINT64_C(1) << n) - 1);
}

TEST(a_row_is_of_its_releases_or_of_all_others)
{
	static const char *const releases[] = { "2.12.", "2.16.", NULL };
	static const struct probe_row only = { .releases = releases },
				      except = { .releases = releases, .except = true }, any = {};

	CHECK(row_is_of_release(&only, "2.16.2"));
	CHECK(!row_is_of_release(&only, "2.1"));
	CHECK(!row_is_of_release(&except, "2.12.0"));
	CHECK(row_is_of_release(&except, "build-id:2.12"));
	CHECK(row_is_of_release(&any, "2.12.0"));
}

TEST(slots_are_those_of_the_releases_and_builds_of_the_pack_only)
{
	static const char *const releases[] = { "2.21.", NULL };
	static const struct known_build builds[] = { { "abc", "1.2.3" }, {} };
	static const struct pack by_release = { .slots_releases = releases },
				 by_build = { .builds = builds }, any = {};

	CHECK(pack_has_slots(&by_release, "2.21.0"));
	CHECK(!pack_has_slots(&by_release, "2.2"));
	CHECK(!pack_has_slots(&by_build, "1.2.3"));
	CHECK(pack_has_slots(&any, "1.2.3"));
	CHECK_STR(pack_release_of_build(&by_build, "abc"), "1.2.3");
	CHECK(!pack_release_of_build(&by_build, "ab"));
	CHECK(!pack_release_of_build(&by_build, ""));
	CHECK(!pack_release_of_build(&any, "abc"));
}

/* A row that is not for a build has no site there: what finds functions otherwise expects one. */
TEST(only_functions_with_symbols_are_told_apart_by_how_they_get_a_class)
{
	for (unsigned i = 0; packs[i]; i++)
		for (unsigned k = 0; k < packs[i]->n_rows; k++) {
			const struct probe_row *row = &packs[i]->rows[k];

			if (row->class_byte)
				CHECK(row->symbol && !row->usdt && !row->jump && !row->word_of &&
				      !row->class_name && !row->table);
			else
				CHECK(!row->by_value);
		}
}

CHECK_MAIN()
