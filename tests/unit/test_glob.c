/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns with which paths of requests and names of processes are compared. */
#include "lib/base/glob.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

TEST(a_pattern_matches_the_whole_text)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "", "", true },           { "", "a", false },
		{ "a", "", false },         { "a", "a", true },
		{ "a", "ab", false },       { "*", "", true },
		{ "*", "a/b", true },       { "a*", "a", true },
		{ "a*", "ba", false },      { "*a", "bca", true },
		{ "*a", "ab", false },      { "a*c", "abbc", true },
		{ "a*c", "abcb", false },   { "?", "", false },
		{ "?", "x", true },         { "a?c", "abc", true },
		{ "*b*b", "abab", true },   { "*ab", "aab", true },
		{ "*.*.c", "a.b.c", true }, { "**", "x", true },
		{ "[ab]", "a", false },     { "[ab]", "[ab]", true },
		{ "\\*", "\\x", true },     { "/v1/*:predict", "/v1/models/m:predict", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (glob_matches(cases[i].pattern, cases[i].text) != cases[i].matches)
			fprintf(stderr, "  %s and %s\n", cases[i].pattern, cases[i].text);
		CHECK_EQ(glob_matches(cases[i].pattern, cases[i].text), cases[i].matches);
	}
}

TEST(a_hostile_pattern_takes_bounded_time)
{
	char text[2001];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	CHECK(!glob_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

CHECK_MAIN()
