/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/text.h"

#include <assert.h>

#include "lib/base/escape.h"
#include "lib/base/macro.h"

const char *text_count(uint64_t number, char text[static TEXT_NUMBER])
{
	char digits[TEXT_NUMBER];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	char *end = text;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*end++ = ',';
		*end++ = digits[i];
	}
	*end = '\0';
	return text;
}

const char *text_plural(uint64_t number)
{
	return number == 1 ? "" : "s";
}

const char *text_bytes(uint64_t bytes, char text[static TEXT_NUMBER])
{
	static const char *const names[] = { "B", "KB", "MB", "GB", "TB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 999.95 && unit + 1 < ARRAY_SIZE(names)) {
		value /= 1000;
		unit++;
	}
	snprintf(text, TEXT_NUMBER, "%.*f %s", unit ? 1 : 0, value, names[unit]);
	return text;
}

size_t text_write(FILE *file, const char *text)
{
	char piece[ESCAPE_SIZE];
	size_t columns = 0;

	while (*text) {
		columns += escape_next(&text, piece);
		if (file)
			fputs(piece, file);
	}
	return columns;
}

void text_write_line(FILE *file, const char *format, va_list ap)
{
	char *text;

	if (vasprintf(&text, format, ap) < 0)
		return;
	text_write(file, text);
	fputc('\n', file);
	free(text);
}

static void write_row(FILE *file, const struct text_column *columns, size_t n_columns,
		      const char *const *cells, const size_t *widths)
{
	for (size_t i = 0; i < n_columns; i++) {
		const char *cell = cells ? cells[i] : columns[i].heading;
		int padding = (int)(widths[i] - text_write(NULL, cell));

		fputs("  ", file);
		if (columns[i].right)
			fprintf(file, "%*s", padding, "");
		text_write(file, cell);
		/* No blanks at the end of a line. */
		if (!columns[i].right && i + 1 < n_columns)
			fprintf(file, "%*s", padding, "");
	}
	fputc('\n', file);
}

void text_table(FILE *file, const struct text_column *columns, size_t n_columns,
		const char *const *cells, size_t n_rows)
{
	size_t widths[TEXT_COLUMNS_MAX];

	assert(n_columns <= TEXT_COLUMNS_MAX);
	for (size_t i = 0; i < n_columns; i++) {
		widths[i] = text_write(NULL, columns[i].heading);
		for (size_t row = 0; row < n_rows; row++)
			widths[i] = MAX(widths[i], text_write(NULL, cells[row * n_columns + i]));
	}
	write_row(file, columns, n_columns, NULL, widths);
	for (size_t row = 0; row < n_rows; row++)
		write_row(file, columns, n_columns, cells + row * n_columns, widths);
}
