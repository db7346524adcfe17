/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command line, their help text, and suggestions for mistyped ones. */
#include "lib/base/options.h"

#include <stdlib.h>

#include "lib/base/macro.h"
#include "lib/base/nearest.h"
#include "tests/unit/check.h"

static const struct option_row rows[] = {
	{ .name = "level", .letter = 'l', .argument = "1|2|3", .help = "How much" },
	{ .name = "memory", .is_optional = true, .argument = "on|off", .help = "Allocations" },
	{ .name = "json", .letter = 'j', .heading = "Output:", .help = "One object" },
	{ .name = "listen", .argument = "HOST:PORT", .help = "One word\nand another" },
};

static struct options options;
static const char *value;
static char error[OPTIONS_TEXT];

#define BEGIN(...) begin((char *[]){ "program", __VA_ARGS__, NULL })

static void begin(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	options_begin(&options, rows, ARRAY_SIZE(rows), argc, argv);
}

static void expect(int row, const char *text)
{
	CHECK_EQ(options_next(&options, &value, error), row);
	if (text)
		CHECK_STR(value, text);
	else
		CHECK(!value);
}

static void expect_error(const char *text)
{
	CHECK_EQ(options_next(&options, &value, error), OPTIONS_ERROR);
	CHECK_STR(error, text);
}

TEST(options_and_operands_come_in_their_order)
{
	BEGIN("--level", "2", "-l3", "a", "-jl", "1", "--memory=off", "--memory", "-", "--lis=x");
	expect(0, "2");
	expect(0, "3");
	expect(OPTIONS_OPERAND, "a");
	expect(2, NULL);
	expect(0, "1");
	expect(1, "off");
	expect(1, NULL);
	expect(OPTIONS_OPERAND, "-");
	expect(3, "x");
	expect(OPTIONS_END, NULL);
}

TEST(after_two_dashes_everything_is_an_operand)
{
	BEGIN("--level", "--", "-j", "--", "-j", "--", "--level");
	expect(0, "--");
	expect(2, NULL);
	expect(OPTIONS_OPERAND, "-j");
	expect(OPTIONS_OPERAND, "--");
	expect(OPTIONS_OPERAND, "--level");
	expect(OPTIONS_END, NULL);
}

TEST(an_error_comes_with_the_most_similar_name)
{
	BEGIN("--levle", "2");
	expect_error("unknown option '--levle'; did you mean '--level'?");
	BEGIN("--jsno=x");
	expect_error("unknown option '--jsno'; did you mean '--json'?");
	BEGIN("--nonsense");
	expect_error("unknown option '--nonsense'");
	BEGIN("-jx");
	expect(2, NULL);
	expect_error("unknown option '-x'");
	BEGIN("--l", "2");
	expect_error("option '--l' is ambiguous");
	BEGIN("--level");
	expect_error("option '--level' requires an argument");
	BEGIN("-l");
	expect_error("option '--level' requires an argument");
	BEGIN("--json=1");
	expect_error("option '--json' takes no argument");
}

TEST(help_has_a_line_for_each_option_and_wraps_long_texts)
{
	static const char *const expected = "  -l, --level 1|2|3         How much\n"
					    "      --memory[=on|off]     Allocations\n"
					    "\nOutput:\n"
					    "  -j, --json                One object\n"
					    "      --listen HOST:PORT    One word\n"
					    "                            and another\n";
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	options_print_help(file, rows, ARRAY_SIZE(rows));
	fclose(file);
	CHECK_STR(text, expected);
	free(text);
	file = open_memstream(&text, &size);
	options_print_wrapped(
		file,
		"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 01",
		2, 4);
	fclose(file);
	CHECK_STR(text,
		  "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\n"
		  "    01\n");
	free(text);
}

TEST(the_nearest_name_is_found_unless_all_are_far)
{
	static const char *const names[] = { "capture", "plan", "status", "stop", "targets" };
	static const struct {
		const char *word, *nearest;
	} cases[] = {
		{ "captrue", "capture" },
		{ "capture", "capture" },
		{ "targest", "targets" },
		{ "target", "targets" },
		{ "stpo", "stop" },
		{ "plna", "plan" },
		{ "x", NULL },
		{ "", NULL },
		{ "record", NULL },
		{ "statistics", NULL },
	};
	char longest[300];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *nearest = nearest_name(cases[i].word, names, ARRAY_SIZE(names));

		if (cases[i].nearest)
			CHECK_STR(nearest, cases[i].nearest);
		else
			CHECK(!nearest);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK(!nearest_name(longest, names, ARRAY_SIZE(names)));
	CHECK(!nearest_name("plan", (const char *const[]){ longest }, 1));
}

CHECK_MAIN()
