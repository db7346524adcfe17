/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may use of the server's loop. */
#include "lib/grpc/account.h"

#include <stdbool.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define MS 1000000ull
#define START (1000 * MS)

static struct grpc_account *join(struct grpc_account **list, uint64_t id, uint64_t now)
{
	struct grpc_account *account = grpc_account_join(list, id, now);

	CHECK(account);
	return account;
}

TEST(a_client_that_uses_little_never_waits)
{
	struct grpc_account *list = NULL, *a = join(&list, 7, START);

	for (uint64_t now = START; now < START + 1000 * MS; now += MS) {
		CHECK(grpc_account_ready_at(a) <= now);
		grpc_account_charge(a, now, MS / 4);
	}
	grpc_accounts_clear(&list);
}

TEST(a_client_that_uses_all_it_can_gets_half_of_the_time)
{
	struct grpc_account *list = NULL, *a = join(&list, 7, START);
	uint64_t used = 0, longest = 0, now = START;

	while (now < START + 10000 * MS) {
		uint64_t from = MAX(now, grpc_account_ready_at(a)), step = MS / 10;

		longest = MAX(longest, from - now);
		now = from + step;
		used += step;
		grpc_account_charge(a, now, step);
	}
	CHECK(used > 4800 * MS && used < 5200 * MS);
	/* It waits often, not long. */
	CHECK(longest <= MS);
	grpc_accounts_clear(&list);
}

TEST(what_it_may_use_at_once_and_how_long_it_then_waits_are_limited)
{
	struct grpc_account *list = NULL, *a = join(&list, 7, START);

	grpc_account_charge(a, START, 4 * MS);
	CHECK(grpc_account_ready_at(a) <= START);
	grpc_account_charge(a, START, 2 * MS);
	CHECK(grpc_account_ready_at(a) > START);
	grpc_account_charge(a, START, 60000 * MS);
	CHECK_EQ(grpc_account_ready_at(a), START + 40 * MS);
	grpc_account_charge(a, START, UINT64_MAX);
	CHECK_EQ(grpc_account_ready_at(a), START + 40 * MS);
	grpc_accounts_clear(&list);
}

TEST(a_new_connection_is_no_new_share_and_forgotten_clients_take_no_memory)
{
	struct grpc_account *list = NULL, *a = join(&list, 7, START);
	unsigned n = 0;
	uint64_t ready;

	CHECK(grpc_account_join(&list, 8, START) != a);
	CHECK(grpc_account_join(&list, 7, START) == a);
	grpc_account_charge(a, START, 20 * MS);
	ready = grpc_account_ready_at(a);
	grpc_account_leave(a);
	grpc_account_leave(a);
	CHECK_EQ(grpc_account_ready_at(join(&list, 7, START + MS)), ready);
	grpc_account_leave(a);
	/* By then its share covers what it used. */
	for (uint64_t id = 100; id < 1100; id++)
		grpc_account_leave(join(&list, id, START + 1000 * MS));
	for (struct grpc_account *at = list; at; at = at->next)
		n++;
	/* The connected one, and the last. */
	CHECK_EQ(n, 2);
	grpc_accounts_clear(&list);
	CHECK(!list);
}

CHECK_MAIN()
