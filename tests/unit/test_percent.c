/* SPDX-License-Identifier: Apache-2.0 */
/* Percentages as tfprofctl reads them. */
#include "lib/base/percent.c"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

/* In thousandths, so that integers can be compared. */
static long long parsed(const char *text)
{
	double percent = 12345;
	int r = percent_parse(text, &percent);

	if (r < 0)
		CHECK_EQ(percent, 12345);
	return r < 0 ? r : (long long)(percent * 1000 + 0.5);
}

TEST(numbers_with_and_without_a_sign_are_read)
{
	CHECK_EQ(parsed("1"), 1000);
	CHECK_EQ(parsed("1%"), 1000);
	CHECK_EQ(parsed("0.5"), 500);
	CHECK_EQ(parsed("12.125%"), 12125);
	CHECK_EQ(parsed("007"), 7000);
	CHECK_EQ(parsed("0.001"), 1);
	CHECK_EQ(parsed("100"), 100000);
	CHECK_EQ(parsed("100.000%"), 100000);
}

TEST(text_that_is_not_a_percentage_is_refused)
{
	static const char *const texts[] = { "",     "%",   "abc",  "1 %", " 1",  "1 ",  "1%%",
					     "1.",   ".5",  "1..5", "1,5", "+1",  "--1", "-",
					     "0x10", "1e1", "inf",  "nan", "1.%", "1%5", "%1" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(parsed(texts[i]), -EINVAL);
}

TEST(zero_negative_and_more_than_100_are_out_of_range)
{
	static const char *const texts[] = {
		"0",  "0%",      "0.0",  "-1",      "-0.5%",
		"-0", "100.001", "101%", "1000000", "99999999999999999999999999999999999999999999"
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(parsed(texts[i]), -ERANGE);
}

CHECK_MAIN()
