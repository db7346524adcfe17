/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of CPU time as users read them. */
#include "lib/base/quota.c"

#include "tests/unit/check.h"

static const char *text_of(uint64_t quota_ns, uint64_t period_ns)
{
	static char text[QUOTA_TEXT];

	return quota_text(quota_ns, period_ns, text);
}

TEST(a_quota_is_a_share_of_a_cpu_and_a_time_per_period)
{
	CHECK_STR(text_of(20000000, 100000000), "20 % of a CPU, 20.0 ms per 100 ms");
	CHECK_STR(text_of(250000000, 100000000), "250 % of a CPU, 250 ms per 100 ms");
	CHECK_STR(text_of(1000000, 300000000), "0.3333 % of a CPU, 1.00 ms per 300 ms");
}

TEST(an_unknown_quota_is_said_to_be_unknown)
{
	CHECK_STR(text_of(0, 100000000), "unknown");
	CHECK_STR(text_of(20000000, 0), "unknown");
}

TEST(no_number_is_too_long)
{
	CHECK_STR(text_of(UINT64_MAX, 1), "1.845e+21 % of a CPU, 18446744074 s per 1 ns");
}

CHECK_MAIN()
