/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output: numbers, tables, and untrusted names, which must not be able to control the
 * terminal.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Enough for text_count() and text_bytes(). */
#define TEXT_NUMBER 32

/* 1234567 as "1,234,567". Returns text. */
const char *text_count(uint64_t number, char text[static TEXT_NUMBER]);
/* The ending of a noun after a number: "" for 1, else "s". */
const char *text_plural(uint64_t number);
/* A size as "712 B", "1.2 KB", "34.5 MB" (powers of 1000). Returns text. */
const char *text_bytes(uint64_t bytes, char text[static TEXT_NUMBER]);

/*
 * Writes untrusted text; control characters, marks that change the direction of writing, and bytes
 * that are not UTF-8 are escaped as \xNN or \u{NNNN}. Returns the number of columns. If the file is
 * NULL, only counts.
 */
size_t text_write(FILE *file, const char *text);
/* The same with a format and a newline; writes nothing if memory runs out. */
__attribute__((format(printf, 2, 0))) void text_write_line(FILE *file, const char *format,
							   va_list ap);

#define TEXT_COLUMNS_MAX 16

struct text_column {
	const char *heading;
	bool right; /* numbers */
};

/*
 * Writes headings and rows, indented by two spaces. Columns are as wide as their widest cell and
 * two spaces apart; at most TEXT_COLUMNS_MAX. cells has n_rows times n_columns untrusted texts, row
 * by row.
 */
void text_table(FILE *file, const struct text_column *columns, size_t n_columns,
		const char *const *cells, size_t n_rows);
