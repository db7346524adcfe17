/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command line: one table serves the parser, the help text and suggestions. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define OPTIONS_MAX 96
#define OPTIONS_TEXT 256

struct option_row {
	const char *name; /* "level" for --level */
	char letter;      /* 'l' for -l; 0: none */
	bool is_optional; /* the argument may be omitted */
	/* For the help text, "1|2|3"; NULL: the option takes none. */
	const char *argument;
	const char *help;
	const char *heading; /* printed above the row; NULL: none */
};

/* What options_next() returns besides the index of a row. */
enum {
	OPTIONS_END = -1,
	OPTIONS_OPERAND = -2, /* an argument that belongs to no option */
	OPTIONS_ERROR = -3,
};

/* The state of reading a command line. */
struct options {
	const struct option_row *rows;
	size_t n_rows;
	int argc;
	char **argv;
	/* For getopt_long(). */
	struct option names[OPTIONS_MAX + 1];
	char letters[3 * OPTIONS_MAX + 3];
	bool is_past_options; /* "--" was read */
};

/* Starts with argv[1]. At most OPTIONS_MAX rows. getopt_long() can only read one command line at a
 * time. */
void options_begin(struct options *options, const struct option_row *rows, size_t n_rows, int argc,
		   char **argv);
/*
 * The next option, as the index of its row, or operand; *ret_value is the option's argument (NULL:
 * none) or the operand. With OPTIONS_ERROR, error is a sentence that describes the mistake and, for
 * an unknown option, suggests the nearest known one.
 */
int options_next(struct options *options, const char **ret_value, char error[static OPTIONS_TEXT]);
/* The index in argv of the next argument. */
int options_position(void);

/* Prints one or more lines for each row, wrapped to 80 columns. */
void options_print_help(FILE *file, const struct option_row *rows, size_t n_rows);
/* Prints text wrapped to 80 columns; continued lines begin at the column. */
void options_print_wrapped(FILE *file, const char *text, int column, int indent);
