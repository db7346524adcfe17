/* SPDX-License-Identifier: Apache-2.0 */
/* How many messages of a kind are written for a user. */
#include "lib/base/rate_limit.h"

#include "tests/unit/check.h"

#define SECOND 1000000000ull

static struct {
	uint32_t kind, user, n;
	unsigned calls;
} last;

static void on_omitted(uint32_t kind, uint32_t user, uint32_t n, void *data)
{
	last.kind = kind;
	last.user = user;
	last.n = n;
	last.calls++;
}

static unsigned admit(struct rate_limit *limit, uint32_t kind, uint32_t user, unsigned n,
		      uint64_t now)
{
	unsigned written = 0;

	for (unsigned i = 0; i < n; i++)
		written += rate_limit_admit(limit, kind, user, now);
	return written;
}

TEST(a_loop_of_one_user_writes_a_few_messages_and_their_number_at_the_end)
{
	struct rate_limit limit = {};

	last.calls = 0;
	CHECK_EQ(admit(&limit, 1, 1000, 10000, SECOND), RATE_LIMIT_BURST);
	rate_limit_end(&limit, 60 * SECOND, false, on_omitted, NULL);
	CHECK_EQ(last.calls, 0);
	rate_limit_end(&limit, 61 * SECOND, false, on_omitted, NULL);
	CHECK_EQ(last.calls, 1);
	CHECK_EQ(last.kind, 1);
	CHECK_EQ(last.user, 1000);
	CHECK_EQ(last.n, 10000 - RATE_LIMIT_BURST);
	CHECK_EQ(admit(&limit, 1, 1000, 10, 62 * SECOND), RATE_LIMIT_BURST);
}

TEST(what_was_written_completely_is_not_counted_again)
{
	struct rate_limit limit = {};

	last.calls = 0;
	CHECK_EQ(admit(&limit, 1, 1000, RATE_LIMIT_BURST, SECOND), RATE_LIMIT_BURST);
	rate_limit_end(&limit, 2 * SECOND, true, on_omitted, NULL);
	CHECK_EQ(last.calls, 0);
}

TEST(one_user_does_not_silence_another_nor_another_kind)
{
	struct rate_limit limit = {};

	admit(&limit, 1, 1000, 100, SECOND);
	CHECK_EQ(admit(&limit, 1, 1001, 100, SECOND), RATE_LIMIT_BURST);
	CHECK_EQ(admit(&limit, 2, 1000, 100, SECOND), RATE_LIMIT_BURST);
}

TEST(users_beyond_the_table_share_an_entry_and_are_still_counted)
{
	struct rate_limit limit = {};
	unsigned written = 0;

	for (uint32_t user = 0; user < 10 * RATE_LIMIT_ENTRIES; user++)
		written += admit(&limit, 1, user, 1, 0);
	CHECK_EQ(written, RATE_LIMIT_ENTRIES + RATE_LIMIT_BURST);
	last.calls = 0;
	rate_limit_end(&limit, 0, true, on_omitted, NULL);
	CHECK_EQ(last.calls, 1);
	CHECK_EQ(last.user, RATE_LIMIT_OTHERS);
	CHECK_EQ(last.n, 9 * RATE_LIMIT_ENTRIES - RATE_LIMIT_BURST);
}

CHECK_MAIN()
