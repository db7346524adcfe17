/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of fields whose values are untrusted. */
#include "lib/base/key_value.h"

#include <errno.h>

#include "tests/unit/check.h"

static char text[4096];

static const char *put(const char *value)
{
	size_t length = 0;

	CHECK_EQ(key_value_put(text, sizeof(text), &length, "k", value), 0);
	CHECK_EQ(length, strlen(text));
	return text;
}

TEST(a_value_can_neither_end_its_field_nor_its_line)
{
	CHECK_STR(put("plain"), "k=plain");
	CHECK_STR(put(""), "k=\"\"");
	CHECK_STR(put("a b"), "k=\"a b\"");
	CHECK_STR(put("x\" verdict=allow"), "k=\"x\\x22 verdict=allow\"");
	CHECK_STR(put("x\nverdict=allow"), "k=\"x\\x0averdict=allow\"");
	CHECK_STR(put("\\x0a\x1b"), "k=\"\\x5cx0a\\x1b\"");
	CHECK_STR(put("\xff\xe2\x80\xae"), "k=\\xff\\u{202e}");
}

TEST(every_byte_sequence_is_read_as_it_was_put)
{
	char value[64], key[8], read[64];

	srand(7);
	for (unsigned round = 0; round < 20000; round++) {
		size_t n = (size_t)rand() % (sizeof(value) - 1);
		const char *at = text;

		for (size_t i = 0; i < n; i++)
			value[i] = (char)(1 + rand() % 255);
		value[n] = 0;
		put(value);
		if (key_value_next(&at, key, sizeof(key), read, sizeof(read)) != 1 ||
		    strcmp(read, value) || *at || strpbrk(text, "\n\r\x1b")) {
			CHECK(!"read as it was put");
			return;
		}
	}
	CHECK_STR(key, "k");
}

TEST(a_field_without_room_is_left_out_as_a_whole)
{
	char small[16];
	size_t length = 0;

	CHECK_EQ(key_value_put(small, sizeof(small), &length, "a", "1"), 0);
	CHECK_EQ(key_value_put(small, sizeof(small), &length, "long", "a long value"), -E2BIG);
	CHECK_EQ(key_value_put(small, sizeof(small), &length, "b", "2"), 0);
	CHECK_STR(small, "a=1 b=2");
}

TEST(malformed_lines_are_refused)
{
	static const char *const lines[] = { "=x",
					     "novalue",
					     "k=\"open",
					     "k=\\x0",
					     "k=\\u{1}",
					     "k=\\q",
					     "k=\\x00",
					     "k=\\",
					     "k\"=x",
					     "k=\\u{12345}",
					     "averyveryverylongkey=x" };
	char key[8], value[64];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *at = lines[i];

		if (key_value_next(&at, key, sizeof(key), value, sizeof(value)) != -EBADMSG) {
			fprintf(stderr, "  accepted: %s\n", lines[i]);
			CHECK(!"refused");
		}
	}
}

TEST(fields_follow_each_other)
{
	const char *at = "a=1 b=\"2 3\"  c=\"\"";
	char key[8], value[8];

	CHECK_EQ(key_value_next(&at, key, sizeof(key), value, sizeof(value)), 1);
	CHECK_STR(value, "1");
	CHECK_EQ(key_value_next(&at, key, sizeof(key), value, sizeof(value)), 1);
	CHECK_STR(value, "2 3");
	CHECK_EQ(key_value_next(&at, key, sizeof(key), value, sizeof(value)), 1);
	CHECK_STR(key, "c");
	CHECK_STR(value, "");
	CHECK_EQ(key_value_next(&at, key, sizeof(key), value, sizeof(value)), 0);
}

CHECK_MAIN()
