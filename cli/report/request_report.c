/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/request_report.h"

#include "cli/report/request.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"

#define PERCENT_TEXT 16
#define MODELS_SHOWN 32

bool request_report_has_any(const Tfprofd__RequestSummary *s)
{
	return s && (s->whole || s->cut || s->reset || s->lost);
}

/* "; 3 aborted" */
static void print_count(FILE *file, const char *before, uint64_t count, const char *what)
{
	char number[TEXT_NUMBER];

	if (count)
		fprintf(file, "%s%s %s", before, text_count(count, number), what);
}

static void print_requests(FILE *file, const Tfprofd__RequestSummary *s)
{
	char number[TEXT_NUMBER], p50[DURATION_TEXT], p90[DURATION_TEXT], p99[DURATION_TEXT],
		max[DURATION_TEXT];

	fprintf(file, "  requests %s", text_count(s->whole, number));
	if (s->whole && s->latency)
		fprintf(file, ", p50 %s, p90 %s, p99 %s, max %s",
			duration_text(s->latency->p50_ns, p50),
			duration_text(s->latency->p90_ns, p90),
			duration_text(s->latency->p99_ns, p99),
			duration_text(s->latency->max_ns, max));
	print_count(file, "; ", s->cut, "truncated by the window");
	print_count(file, "; ", s->reset, "aborted");
	print_count(file, "; ", s->lost, "with lost records");
	print_count(file, "; ", s->filtered, "left out by the filter");
	fputc('\n', file);
}

static void print_work(FILE *file, const Tfprofd__RequestSummary *s)
{
	char exact[TEXT_NUMBER], inferred[TEXT_NUMBER], orphaned[TEXT_NUMBER];

	if (s->runs_exact || s->runs_inferred || s->runs_orphaned)
		fprintf(file, "  attribution: %s exact, %s inferred, %s unattributed\n",
			text_count(s->runs_exact, exact), text_count(s->runs_inferred, inferred),
			text_count(s->runs_orphaned, orphaned));
}

static void print_batches(FILE *file, const Tfprofd__BatchSummary *b)
{
	char number[TEXT_NUMBER];

	if (!b || !b->count)
		return;
	fprintf(file, "  batches  %s, of %.1f tasks", text_count(b->count, number),
		(double)b->tasks / (double)b->count);
	if (b->sized)
		fprintf(file, " and %.1f rows", (double)b->rows / (double)b->sized);
	fputs(" on average", file);
	if (b->padded_rows)
		fprintf(file, "; %.1f %% of the processed rows are padding",
			(double)(b->padded_rows - MIN(b->rows, b->padded_rows)) * 100 /
				(double)b->padded_rows);
	fputc('\n', file);
}

void request_report_print(FILE *file, const Tfprofd__RequestSummary *s)
{
	if (!request_report_has_any(s) && !(s && s->filtered))
		return;
	print_requests(file, s);
	print_work(file, s);
	print_batches(file, s->batches);
}

struct phase_cells {
	char p50[DURATION_TEXT], p90[DURATION_TEXT], p99[DURATION_TEXT], max[DURATION_TEXT],
		share[PERCENT_TEXT];
};

static void print_phases(FILE *file, const Tfprofd__RequestSummary *s)
{
	static const struct text_column columns[] = { { "phase", false }, { "p50", true },
						      { "p90", true },    { "p99", true },
						      { "max", true },    { "% of total", true } };
	const char *cells[PHASE_COUNT][ARRAY_SIZE(columns)];
	struct phase_cells rows[PHASE_COUNT];
	size_t n = 0;

	for (size_t i = 0; i < MIN(s->n_phases, (size_t)PHASE_COUNT); i++) {
		const Tfprofd__Percentiles *p = s->phases[i];
		struct phase_cells *row = &rows[n];

		if (!p->max_ns)
			continue;
		cells[n][0] = phase_texts[i].label;
		cells[n][1] = duration_text(p->p50_ns, row->p50);
		cells[n][2] = duration_text(p->p90_ns, row->p90);
		cells[n][3] = duration_text(p->p99_ns, row->p99);
		cells[n][4] = duration_text(p->max_ns, row->max);
		if (s->latency && s->latency->sum_ns)
			snprintf(row->share, sizeof(row->share), "%.1f",
				 (double)p->sum_ns * 100 / (double)s->latency->sum_ns);
		else
			snprintf(row->share, sizeof(row->share), "-");
		cells[n++][5] = row->share;
	}
	if (!n)
		return;
	fputs("\nWhere the requests' time went:\n", file);
	text_table(file, columns, ARRAY_SIZE(columns), &cells[0][0], n);
}

struct model_row {
	char count[TEXT_NUMBER], p50[DURATION_TEXT], p99[DURATION_TEXT];
};

static void print_models(FILE *file, const Tfprofd__RequestSummary *s)
{
	static const struct text_column columns[] = {
		{ "requests", true }, { "p50", true }, { "p99", true }, { "model", false }
	};
	const char *cells[MODELS_SHOWN][ARRAY_SIZE(columns)];
	struct model_row rows[MODELS_SHOWN];
	size_t n = MIN(s->n_models, (size_t)MODELS_SHOWN);
	char number[TEXT_NUMBER];

	if (!n)
		return;
	for (size_t i = 0; i < n; i++) {
		cells[i][0] = text_count(s->models[i]->count, rows[i].count);
		cells[i][1] = duration_text(s->models[i]->p50_ns, rows[i].p50);
		cells[i][2] = duration_text(s->models[i]->p99_ns, rows[i].p99);
		cells[i][3] = s->models[i]->name;
	}
	fputs("\nRequests by model:\n", file);
	text_table(file, columns, ARRAY_SIZE(columns), &cells[0][0], n);
	if (s->models_left_out)
		fprintf(file, "  and %s request%s of other models\n",
			text_count(s->models_left_out, number), text_plural(s->models_left_out));
}

void request_report_print_tables(FILE *file, const Tfprofd__RequestSummary *s)
{
	if (!s || !s->whole)
		return;
	print_phases(file, s);
	print_models(file, s);
}

static void write_percentiles(struct json *json, const char *key, const Tfprofd__Percentiles *p)
{
	json_object_begin(json, key);
	json_number(json, "p50_ns", p ? p->p50_ns : 0);
	json_number(json, "p90_ns", p ? p->p90_ns : 0);
	json_number(json, "p99_ns", p ? p->p99_ns : 0);
	json_number(json, "max_ns", p ? p->max_ns : 0);
	json_number(json, "sum_ns", p ? p->sum_ns : 0);
	json_object_end(json);
}

static void write_models(struct json *json, const Tfprofd__RequestSummary *s)
{
	json_array_begin(json, "models");
	for (size_t i = 0; i < s->n_models; i++) {
		json_object_begin(json, NULL);
		json_string(json, "name", s->models[i]->name);
		json_number(json, "count", s->models[i]->count);
		json_number(json, "p50_ns", s->models[i]->p50_ns);
		json_number(json, "p99_ns", s->models[i]->p99_ns);
		json_object_end(json);
	}
	json_array_end(json);
	json_number(json, "models_left_out", s->models_left_out);
}

static void write_batches(struct json *json, const Tfprofd__BatchSummary *b)
{
	json_object_begin(json, "batches");
	json_number(json, "count", b ? b->count : 0);
	json_number(json, "tasks", b ? b->tasks : 0);
	json_number(json, "sized", b ? b->sized : 0);
	json_number(json, "rows", b ? b->rows : 0);
	json_number(json, "padded_rows", b ? b->padded_rows : 0);
	json_object_end(json);
}

static void write_filter(struct json *json, const Tfprofd__RequestFilter *f)
{
	if (!f || (!f->slower_than_ns && !f->count && !*f->path && !*f->model)) {
		json_string(json, "filter", NULL);
		return;
	}
	json_object_begin(json, "filter");
	json_number(json, "slower_than_ns", f->slower_than_ns);
	json_string(json, "path", *f->path ? f->path : NULL);
	json_string(json, "model", *f->model ? f->model : NULL);
	json_number(json, "requests_count", f->count);
	json_object_end(json);
}

void request_report_json(struct json *json, const char *key, const Tfprofd__RequestSummary *s)
{
	if (!s) {
		json_string(json, key, NULL);
		return;
	}
	json_object_begin(json, key);
	json_number(json, "whole", s->whole);
	json_number(json, "cut", s->cut);
	json_number(json, "reset", s->reset);
	json_number(json, "lost", s->lost);
	json_number(json, "filtered", s->filtered);
	json_number(json, "runs_exact", s->runs_exact);
	json_number(json, "runs_inferred", s->runs_inferred);
	json_number(json, "runs_orphaned", s->runs_orphaned);
	write_percentiles(json, "latency", s->latency);
	json_object_begin(json, "phases");
	for (unsigned i = 0; i < PHASE_COUNT; i++)
		write_percentiles(json, phase_texts[i].key, i < s->n_phases ? s->phases[i] : NULL);
	json_object_end(json);
	write_models(json, s);
	write_batches(json, s->batches);
	write_filter(json, s->filter);
	json_number(json, "left_out", s->left_out);
	json_object_end(json);
}
