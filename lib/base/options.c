/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/options.h"

#include <assert.h>
#include <string.h>

#include "lib/base/nearest.h"

#define LINE_COLUMNS 80
#define HELP_COLUMN 28
/* What getopt_long() returns for an option that has a name. */
#define NAME_BASE 256
/* What it returns for an operand, because of the leading "-" in its list of letters. */
#define OPERAND 1

void options_begin(struct options *o, const struct option_row *rows, size_t n_rows, int argc,
		   char **argv)
{
	char *letter = o->letters;

	assert(n_rows <= OPTIONS_MAX);
	*o = (struct options){ .rows = rows, .n_rows = n_rows, .argc = argc, .argv = argv };
	*letter++ = '-';
	*letter++ = ':';
	for (size_t i = 0; i < n_rows; i++) {
		int argument = !rows[i].argument     ? no_argument
			       : rows[i].is_optional ? optional_argument
						     : required_argument;

		o->names[i] = (struct option){ rows[i].name, argument, NULL, NAME_BASE + (int)i };
		if (!rows[i].letter)
			continue;
		*letter++ = rows[i].letter;
		for (int k = 0; k < argument; k++)
			*letter++ = ':';
	}
	optind = 0;
}

static int find_row(const struct options *o, int code)
{
	if (code >= NAME_BASE)
		return code - NAME_BASE;
	for (size_t i = 0; i < o->n_rows; i++)
		if (o->rows[i].letter == code)
			return (int)i;
	return -1;
}

static void explain_name(const struct options *o, const char *word, char error[static OPTIONS_TEXT])
{
	const char *names[OPTIONS_MAX], *nearest;
	size_t length = strcspn(word, "="), matches = 0;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	for (size_t i = 0; i < o->n_rows; i++) {
		names[i] = o->rows[i].name;
		matches += !strncmp(names[i], name, strlen(name));
	}
	nearest = nearest_name(name, names, o->n_rows);
	if (matches > 1)
		snprintf(error, OPTIONS_TEXT, "option '--%s' is ambiguous", name);
	else if (nearest)
		snprintf(error, OPTIONS_TEXT, "unknown option '--%s'; did you mean '--%s'?", name,
			 nearest);
	else
		snprintf(error, OPTIONS_TEXT, "unknown option '--%s'", name);
}

static void explain(const struct options *o, bool lacks_argument, char error[static OPTIONS_TEXT])
{
	int row = optopt ? find_row(o, optopt) : -1;

	if (lacks_argument && row >= 0)
		snprintf(error, OPTIONS_TEXT, "option '--%s' requires an argument",
			 o->rows[row].name);
	else if (row >= 0)
		snprintf(error, OPTIONS_TEXT, "option '--%s' takes no argument", o->rows[row].name);
	else if (optopt)
		snprintf(error, OPTIONS_TEXT, "unknown option '-%c'", optopt);
	else
		explain_name(o, o->argv[optind - 1] + 2, error);
}

int options_next(struct options *o, const char **ret_value, char error[static OPTIONS_TEXT])
{
	int code;

	code = o->is_past_options ? -1 : getopt_long(o->argc, o->argv, o->letters, o->names, NULL);
	*ret_value = optarg;
	switch (code) {
	case -1:
		/* The rest follows "--". */
		o->is_past_options = true;
		if (optind >= o->argc)
			return OPTIONS_END;
		*ret_value = o->argv[optind++];
		return OPTIONS_OPERAND;
	case OPERAND:
		return OPTIONS_OPERAND;
	case '?':
	case ':':
		explain(o, code == ':', error);
		return OPTIONS_ERROR;
	default:
		return find_row(o, code);
	}
}

int options_position(void)
{
	return optind;
}

void options_print_wrapped(FILE *file, const char *text, int column, int indent)
{
	bool at_begin = true;

	while (*text) {
		int length = (int)strcspn(text, " \n");

		if (!at_begin && column + 1 + length > LINE_COLUMNS) {
			fprintf(file, "\n%*s", indent, "");
			column = indent;
			at_begin = true;
		}
		column += fprintf(file, "%s%.*s", at_begin ? "" : " ", length, text);
		at_begin = false;
		text += length;
		if (*text == '\n') {
			fprintf(file, "\n%*s", text[1] ? indent : 0, "");
			column = indent;
			at_begin = true;
		}
		text += *text != 0;
	}
	if (!at_begin)
		fputc('\n', file);
}

void options_print_help(FILE *file, const struct option_row *rows, size_t n_rows)
{
	for (size_t i = 0; i < n_rows; i++) {
		const struct option_row *row = &rows[i];
		int column;

		if (row->heading)
			fprintf(file, "\n%s\n", row->heading);
		column = row->letter ? fprintf(file, "  -%c, --%s", row->letter, row->name)
				     : fprintf(file, "      --%s", row->name);
		if (row->argument)
			column += fprintf(file, row->is_optional ? "[=%s]" : " %s", row->argument);
		if (column + 2 > HELP_COLUMN) {
			fputc('\n', file);
			column = 0;
		}
		fprintf(file, "%*s", HELP_COLUMN - column, "");
		options_print_wrapped(file, row->help, HELP_COLUMN, HELP_COLUMN);
	}
}
