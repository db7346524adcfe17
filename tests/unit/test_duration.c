/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as users write and read them. */
#include "lib/base/duration.c"

#include "tests/unit/check.h"

static long long parsed(const char *text)
{
	uint64_t ns = 12345;
	int r = duration_parse(text, &ns);

	if (r < 0)
		CHECK_EQ(ns, 12345);
	return r < 0 ? r : (long long)ns;
}

TEST(every_unit_is_read_and_a_number_alone_is_seconds)
{
	CHECK_EQ(parsed("500ms"), 500000000);
	CHECK_EQ(parsed("2s"), 2000000000);
	CHECK_EQ(parsed("2"), 2000000000);
	CHECK_EQ(parsed("1m"), 60000000000);
	CHECK_EQ(parsed("1h"), 3600000000000);
	CHECK_EQ(parsed("007s"), 7000000000);
}

TEST(fractions_are_exact)
{
	CHECK_EQ(parsed("1.5s"), 1500000000);
	CHECK_EQ(parsed("0.1"), 100000000);
	CHECK_EQ(parsed("0.000000001s"), 1);
	CHECK_EQ(parsed("1.25m"), 75000000000);
	CHECK_EQ(parsed("0.5ms"), 500000);
	CHECK_EQ(parsed("0.333333333333333333333333s"), 333333333);
}

TEST(text_that_is_not_a_duration_is_refused)
{
	static const char *const texts[] = { "",     "s",   "abc", "2 s",  " 2s",   "2s ",
					     "2sec", "2S",  "1.s", ".5s",  "1..5s", "1,5",
					     "+2s",  "--2", "-",   "-s",   "0x10",  "1e3",
					     "inf",  "nan", "2d",  "1m30s" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(parsed(texts[i]), -EINVAL);
}

TEST(zero_negative_and_more_than_an_hour_are_out_of_range)
{
	static const char *const texts[] = { "0",
					     "0s",
					     "0.0ms",
					     "0.0000000001s",
					     "-1s",
					     "-0.5",
					     "-0",
					     "3600.001s",
					     "3601",
					     "61m",
					     "1.1h",
					     "2h",
					     "18446744073709551616s",
					     "99999999999999999999999h",
					     "-99999999999999999999999h",
					     "3562988617837m" /* 6 ms modulo 2^64 */ };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(parsed(texts[i]), -ERANGE);
	CHECK_EQ(parsed("3600s"), DURATION_MAX_NS);
}

TEST(times_are_shown_with_three_digits)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = { { 0, "0 ns" },
		      { 999, "999 ns" },
		      { 1000, "1.00 us" },
		      { 9994, "9.99 us" },
		      { 9996, "10.0 us" },
		      { 12345, "12.3 us" },
		      { 99949, "99.9 us" },
		      { 99951, "100 us" },
		      { 310400, "310 us" },
		      { 999600, "1.00 ms" },
		      { 1230000, "1.23 ms" },
		      { 2000000000, "2.00 s" },
		      { 300000000000, "300 s" },
		      { 3600000000000, "3600 s" } };
	char text[DURATION_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_STR(duration_text(cases[i].ns, text), cases[i].text);
	CHECK(strlen(duration_text(UINT64_MAX, text)) < DURATION_TEXT);
}

CHECK_MAIN()
