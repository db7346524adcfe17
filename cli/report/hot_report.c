/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/hot_report.h"

#include "cli/report/symbol.h"
#include "cli/report/text.h"
#include "lib/base/macro.h"

#define PERCENT_TEXT 16
#define NAME_COLUMNS 90
#define HOT_ROWS_MAX 128

static const char *const kinds[] = { "all", "phase", "op" };

/* One row: self, with callees, where, function, file. */
struct hot_row {
	char self[PERCENT_TEXT], total[PERCENT_TEXT];
	char *name;
};

static void percent(uint64_t part, uint64_t whole, char text[static PERCENT_TEXT])
{
	snprintf(text, PERCENT_TEXT, "%.1f", whole ? (double)part * 100 / (double)whole : 0);
}

static const char *kind_of(const Tfprofd__HotPlace *place)
{
	return (size_t)place->kind < ARRAY_SIZE(kinds) ? kinds[place->kind] : "other";
}

/* The place is in its first row only. */
static char *describe(const Tfprofd__HotPlace *place, char number[static TEXT_NUMBER])
{
	char *text;
	int r = place->kind == TFPROFD__HOT_KIND__HOT_ALL
			? asprintf(&text, "all %s samples", text_count(place->samples, number))
			: asprintf(&text, "%s, %s", place->name,
				   text_count(place->samples, number));

	return r < 0 ? NULL : text;
}

static size_t fill_place(const Tfprofd__HotPlace *place, struct hot_row *rows,
			 const char *(*cells)[5], char **where, size_t room)
{
	char number[TEXT_NUMBER];
	size_t n = MIN(place->n_functions, room);

	*where = describe(place, number);
	for (size_t i = 0; i < n; i++) {
		const Tfprofd__HotFunction *f = place->functions[i];

		percent(f->self, place->samples, rows[i].self);
		percent(f->total, place->samples, rows[i].total);
		rows[i].name = symbol_fit(f->name, NAME_COLUMNS);
		cells[i][0] = rows[i].self;
		cells[i][1] = rows[i].total;
		cells[i][2] = i || !*where ? "" : *where;
		cells[i][3] = rows[i].name ?: f->name;
		cells[i][4] = *f->file ? f->file : "-";
	}
	return n;
}

void hot_report_print(FILE *file, const Tfprofd__CaptureResult *result)
{
	static const struct text_column columns[] = { { "% self", true },
						      { "with callees", true },
						      { "of", false },
						      { "function", false },
						      { "file", false } };
	const char *cells[HOT_ROWS_MAX][ARRAY_SIZE(columns)];
	struct hot_row rows[HOT_ROWS_MAX] = {};
	char *wheres[HOT_ROWS_MAX] = {};
	size_t n = 0;

	for (size_t i = 0; i < MIN(result->n_hot, (size_t)HOT_ROWS_MAX); i++)
		n += fill_place(result->hot[i], rows + n, cells + n, &wheres[i], HOT_ROWS_MAX - n);
	if (n) {
		fputs("\nFunctions by samples:\n", file);
		text_table(file, columns, ARRAY_SIZE(columns), &cells[0][0], n);
	}
	for (size_t i = 0; i < HOT_ROWS_MAX; i++) {
		free(rows[i].name);
		free(wheres[i]);
	}
}

void hot_report_request(FILE *file, const Tfprofd__Request *request)
{
	char number[TEXT_NUMBER];

	for (size_t i = 0; i < request->n_hot; i++) {
		const Tfprofd__HotFunction *f = request->hot[i];
		_cleanup_free_ char *name = symbol_fit(f->name, NAME_COLUMNS);
		char text[PERCENT_TEXT];

		percent(f->self, request->samples, text);
		fprintf(file, "%s%s %% ", i ? ", " : "   functions by samples: ", text);
		text_write(file, name ?: f->name);
	}
	if (request->n_hot)
		fprintf(file, " (%s sample%s)\n", text_count(request->samples, number),
			text_plural(request->samples));
}

void hot_functions_json(struct json *json, Tfprofd__HotFunction *const *functions, size_t n)
{
	json_array_begin(json, "functions");
	for (size_t i = 0; i < n; i++) {
		json_object_begin(json, NULL);
		json_string(json, "name", functions[i]->name);
		json_string(json, "file", functions[i]->file);
		json_number(json, "self", functions[i]->self);
		json_number(json, "total", functions[i]->total);
		json_object_end(json);
	}
	json_array_end(json);
}

void hot_report_json(struct json *json, const Tfprofd__CaptureResult *result)
{
	if (!result->n_hot)
		return;
	json_array_begin(json, "hot");
	for (size_t i = 0; i < result->n_hot; i++) {
		const Tfprofd__HotPlace *place = result->hot[i];

		json_object_begin(json, NULL);
		json_string(json, "of", kind_of(place));
		json_string(json, "name", place->name);
		json_number(json, "samples", place->samples);
		hot_functions_json(json, place->functions, place->n_functions);
		json_object_end(json);
	}
	json_array_end(json);
}
