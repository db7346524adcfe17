/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, untrusted names and tables as tfprofctl prints them. */
#include <stdlib.h>

#include "cli/report/text.c"
#include "tests/unit/check.h"

static void expect_written(const char *value, const char *expected, size_t columns)
{
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	CHECK_EQ(text_write(file, value), columns);
	CHECK_EQ(text_write(NULL, value), columns);
	fclose(file);
	CHECK_STR(text, expected);
	free(text);
}

TEST(counts_have_a_comma_for_each_thousand)
{
	char text[TEXT_NUMBER];

	CHECK_STR(text_count(0, text), "0");
	CHECK_STR(text_count(999, text), "999");
	CHECK_STR(text_count(1000, text), "1,000");
	CHECK_STR(text_count(123456, text), "123,456");
	CHECK_STR(text_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

TEST(sizes_have_a_unit)
{
	char text[TEXT_NUMBER];

	CHECK_STR(text_bytes(0, text), "0 B");
	CHECK_STR(text_bytes(999, text), "999 B");
	CHECK_STR(text_bytes(1000, text), "1.0 KB");
	CHECK_STR(text_bytes(999960, text), "1.0 MB");
	CHECK_STR(text_bytes(34500000, text), "34.5 MB");
	CHECK(strlen(text_bytes(UINT64_MAX, text)) < TEXT_NUMBER);
}

TEST(plain_text_stays_as_it_is)
{
	expect_written("scope/op:MatMul", "scope/op:MatMul", 15);
	expect_written("\xc3\xa9\xe2\x82\xac", "\xc3\xa9\xe2\x82\xac", 2);
	expect_written("", "", 0);
}

TEST(a_name_cannot_control_the_terminal)
{
	expect_written("\x1b[31m", "\\x1b[31m", 8);
	expect_written("a\r\nb", "a\\x0d\\x0ab", 10);
	expect_written("\x7f", "\\x7f", 4);
	/* A C1 control as UTF-8, and as a byte alone. */
	expect_written("\xc2\x9b"
		       "31m",
		       "\\u{009b}31m", 11);
	expect_written("\x9b"
		       "31m",
		       "\\x9b31m", 7);
	/* Marks that turn the direction of writing. */
	expect_written("\xe2\x80\xae"
		       "x",
		       "\\u{202e}x", 9);
	expect_written("\xe2\x81\xa6", "\\u{2066}", 8);
}

TEST(a_table_is_as_wide_as_its_cells)
{
	static const struct text_column columns[] = { { "pid", true },
						      { "name", false },
						      { "file", false } };
	static const char *const cells[] = { "1", "a\x1b", "/x", "12345", "b", "/yy" };
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	text_table(file, columns, ARRAY_SIZE(columns), cells, 2);
	fclose(file);
	CHECK_STR(text, "    pid  name   file\n"
			"      1  a\\x1b  /x\n"
			"  12345  b      /yy\n");
	free(text);
}

CHECK_MAIN()
