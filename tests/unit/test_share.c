/* SPDX-License-Identifier: Apache-2.0 */
/* What one user may hold of a resource of many. */
#include "lib/base/share.h"

#include <stdbool.h>

#include "tests/unit/check.h"

#define USERS 6

TEST(one_user_gets_its_share_and_others_theirs)
{
	const struct share share = { .all = 16, .per_user = 6 };

	CHECK_EQ(share_grant(&share, 1000, 5, 5, 1), SHARE_GRANTED);
	CHECK_EQ(share_grant(&share, 1000, 6, 6, 1), SHARE_OF_USER_HELD);
	CHECK_EQ(share_grant(&share, 1001, 6, 0, 1), SHARE_GRANTED);
	CHECK_EQ(share_grant(&share, 1000, 0, 0, 7), SHARE_OF_USER_HELD);
}

TEST(the_reserve_is_for_root_and_root_has_no_share)
{
	const struct share share = { .all = 16, .per_user = 12 };

	CHECK_EQ(share_reserve(&share), 2);
	CHECK_EQ(share_grant(&share, 1001, 13, 1, 1), SHARE_GRANTED);
	CHECK_EQ(share_grant(&share, 1001, 14, 2, 1), SHARE_ALL_HELD);
	CHECK_EQ(share_grant(&share, 0, 14, 0, 1), SHARE_GRANTED);
	CHECK_EQ(share_grant(&share, 0, 15, 15, 1), SHARE_GRANTED);
	CHECK_EQ(share_grant(&share, 0, 16, 0, 1), SHARE_ALL_HELD);
}

TEST(small_resources_have_a_reserve_unless_there_is_only_one)
{
	CHECK_EQ(share_reserve(&(struct share){ .all = 1 }), 0);
	CHECK_EQ(share_reserve(&(struct share){ .all = 2 }), 1);
	CHECK_EQ(share_reserve(&(struct share){ .all = 7 }), 1);
	CHECK_EQ(share_reserve(&(struct share){ .all = 256 }), 32);
}

/* Whatever users ask for, in any order, root finds the reserve, and nobody has more than its share.
 */
TEST(whatever_users_take_root_gets_in)
{
	srand(11);
	for (unsigned round = 0; round < 2000; round++) {
		struct share share = { .all = 2 + (uint64_t)rand() % 100 };
		uint64_t held[USERS] = {}, all = 0;

		share.per_user = 1 + (uint64_t)rand() % share.all;
		for (unsigned i = 0; i < 300; i++) {
			unsigned user = (unsigned)rand() % USERS;

			if (share_grant(&share, user + 1, all, held[user], 1) == SHARE_GRANTED)
				held[user]++, all++;
		}
		for (unsigned user = 0; user < USERS; user++)
			CHECK(held[user] <= share.per_user);
		CHECK(all < share.all);
		CHECK_EQ(share_grant(&share, 0, all, 0, 1), SHARE_GRANTED);
	}
}

CHECK_MAIN()
