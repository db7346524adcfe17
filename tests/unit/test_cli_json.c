/* SPDX-License-Identifier: Apache-2.0 */
/* What tfprofctl prints with --json. */
#include <stdlib.h>

#include "cli/report/json.c"
#include "tests/unit/check.h"

static char *text;
static size_t text_size;

static struct json begin(void)
{
	return (struct json){ .file = open_memstream(&text, &text_size) };
}

/* What was written must be expected; ends the test's writing. */
static void expect(struct json *json, const char *expected)
{
	fclose(json->file);
	CHECK_STR(text, expected);
	free(text);
	text = NULL;
}

static void expect_string(const char *value, const char *expected)
{
	struct json json = begin();

	json_string(&json, NULL, value);
	expect(&json, expected);
}

TEST(members_are_separated_and_nested)
{
	struct json json = begin();

	json_object_begin(&json, NULL);
	json_number(&json, "a", UINT64_MAX);
	json_array_begin(&json, "b");
	json_string(&json, NULL, "x");
	json_bool(&json, NULL, true);
	json_object_begin(&json, NULL);
	json_object_end(&json);
	json_array_end(&json);
	json_array_begin(&json, "c");
	json_array_end(&json);
	json_real(&json, "d", 1.5);
	json_object_end(&json);
	expect(&json,
	       "{\n  \"a\": 18446744073709551615,\n  \"b\": [\n    \"x\",\n    true,\n    {}\n  ],\n  \"c\": [],\n"
	       "  \"d\": 1.500\n}\n");
}

TEST(quotes_backslashes_and_control_characters_are_escaped)
{
	expect_string("a\"b\\c/\n\t\r\x01\x1b[0m\x7f",
		      "\"a\\\"b\\\\c/\\n\\t\\u000d\\u0001\\u001b[0m\\u007f\"");
	expect_string("\xc2\x9b"
		      "31m",
		      "\"\\u009b31m\"");
	expect_string("", "\"\"");
	expect_string(NULL, "null");
}

TEST(a_key_is_escaped_like_a_value)
{
	struct json json = begin();

	json_object_begin(&json, NULL);
	json_bool(&json, "k\"", false);
	json_object_end(&json);
	expect(&json, "{\n  \"k\\\"\": false\n}\n");
}

TEST(valid_utf8_stays_as_it_is)
{
	expect_string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf",
		      "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf\"");
}

TEST(every_byte_that_is_not_utf8_becomes_a_replacement_character)
{
#define R "\xef\xbf\xbd"
	expect_string("\x80", "\"" R "\"");       /* a continuation alone */
	expect_string("\xff\xfe", "\"" R R "\""); /* never in UTF-8 */
	expect_string("\xc3", "\"" R "\"");       /* cut off by the end */
	expect_string("\xe2\x82", "\"" R R "\"");
	expect_string("\xf0\x9f\x98", "\"" R R R "\"");
	expect_string("\xc3(", "\"" R "(\"");     /* cut off by another character */
	expect_string("\xc0\xaf", "\"" R R "\""); /* overlong */
	expect_string("\xe0\x80\xaf", "\"" R R R "\"");
	expect_string("\xed\xa0\x80", "\"" R R R "\"");       /* half of a UTF-16 pair */
	expect_string("\xf4\x90\x80\x80", "\"" R R R R "\""); /* beyond Unicode */
	expect_string("\xf8\x88\x80\x80\x80", "\"" R R R R R "\"");
#undef R
}

TEST(numbers_that_json_cannot_hold_are_null)
{
	struct json json = begin();

	json_array_begin(&json, NULL);
	json_real(&json, NULL, NAN);
	json_real(&json, NULL, INFINITY);
	json_array_end(&json);
	expect(&json, "[\n  null,\n  null\n]\n");
}

CHECK_MAIN()
