/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/plan_report.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cli/report/symbol.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/elf/demangle.h"

#define LINE_COLUMNS 120
#define FUNCTION_COLUMNS_MIN 40
/* Of a function in a remark, and of the text about it. */
#define REMARK_COLUMNS 80
#define REMARK_BYTES 128

/* A line with untrusted parts. */
__attribute__((format(printf, 2, 3))) static void write_line(FILE *file, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	text_write_line(file, format, ap);
	va_end(ap);
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static int print_files(FILE *file, const Tfprofd__PlannedTarget *target)
{
	static const struct text_column columns[] = {
		{ "file", true }, { "build-id", false }, { "plan", false }, { "path", false }
	};
	_cleanup_free_ const char **cells =
		calloc(target->n_files + 1, ARRAY_SIZE(columns) * sizeof(cells[0]));
	_cleanup_free_ char(*numbers)[TEXT_NUMBER] =
		calloc(target->n_files + 1, sizeof(numbers[0]));

	if (!cells || !numbers)
		return -ENOMEM;
	for (size_t i = 0; i < target->n_files; i++) {
		const char **row = &cells[i * ARRAY_SIZE(columns)];

		snprintf(numbers[i], sizeof(numbers[i]), "%zu", i);
		row[0] = numbers[i];
		row[1] = *target->files[i]->build_id ? target->files[i]->build_id : "no build-id";
		row[2] = target->files[i]->known ? "known" : "new";
		row[3] = target->files[i]->path;
	}
	text_table(file, columns, ARRAY_SIZE(columns), cells, target->n_files);
	return 0;
}

enum column { KIND, COST, CLASS, INSTRUCTION, FILE_INDEX, OFFSET, SOURCE, FUNCTION, COLUMN_COUNT };

static const struct text_column probe_columns[COLUMN_COUNT] = {
	[KIND] = { "kind", false },      [COST] = { "ns", true },
	[CLASS] = { "class", false },    [INSTRUCTION] = { "instruction", false },
	[FILE_INDEX] = { "file", true }, [OFFSET] = { "offset", false },
	[SOURCE] = { "source", false },  [FUNCTION] = { "function", false },
};

struct probe_row {
	char cost[12], file[12], offset[40];
	char *function;
};

/* The probes that are attached, grouped by kind in the order of the first of each. */
static size_t sort_planted(const Tfprofd__PlannedTarget *target, const Tfprofd__PlannedProbe **ret)
{
	size_t n = 0;

	for (size_t first = 0; first < target->n_probes; first++) {
		const char *kind = target->probes[first]->kind;
		bool done = false;

		for (size_t i = 0; i < first && !done; i++)
			done = !strcmp(target->probes[i]->kind, kind);
		for (size_t i = first; i < target->n_probes && !done; i++)
			if (target->probes[i]->planted && !strcmp(target->probes[i]->kind, kind))
				ret[n++] = target->probes[i];
	}
	return n;
}

static void fill_row(const Tfprofd__PlannedProbe *probe, struct probe_row *row, const char **cells)
{
	snprintf(row->cost, sizeof(row->cost), "%u", probe->cost_ns);
	snprintf(row->file, sizeof(row->file), "%u", probe->file);
	/* With the distance from the entry unless the instruction is the first one. */
	if (probe->offset > probe->function)
		snprintf(row->offset, sizeof(row->offset), "%#llx+%llu",
			 (unsigned long long)probe->function,
			 (unsigned long long)(probe->offset - probe->function));
	else
		snprintf(row->offset, sizeof(row->offset), "%#llx",
			 (unsigned long long)probe->offset);
	cells[KIND] = probe->kind;
	cells[COST] = row->cost;
	cells[CLASS] = probe->class_;
	cells[INSTRUCTION] = probe->instruction;
	cells[FILE_INDEX] = row->file;
	cells[OFFSET] = row->offset;
	cells[SOURCE] = probe->source;
	cells[FUNCTION] = "";
}

/* The columns left for the function; each of the others follows two blanks. */
static size_t function_columns(const char *const *cells, size_t n_rows)
{
	size_t others = 0;

	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		size_t width = strlen(probe_columns[i].heading);

		for (size_t row = 0; row < n_rows; row++)
			width = MAX(width, text_write(NULL, cells[row * COLUMN_COUNT + i]));
		others += 2 + (i == FUNCTION ? 0 : width);
	}
	return others + FUNCTION_COLUMNS_MIN < LINE_COLUMNS ? LINE_COLUMNS - others
							    : FUNCTION_COLUMNS_MIN;
}

static char *function_text(const char *symbol, size_t columns)
{
	_cleanup_free_ char *name = symbol_demangle(symbol);

	return symbol_fit(name ?: symbol, columns);
}

static int print_rows(FILE *file, const Tfprofd__PlannedProbe *const *probes, size_t n,
		      struct probe_row *rows, const char **cells)
{
	size_t columns;

	for (size_t i = 0; i < n; i++)
		fill_row(probes[i], &rows[i], &cells[i * COLUMN_COUNT]);
	columns = function_columns(cells, n);
	for (size_t i = 0; i < n; i++) {
		rows[i].function = function_text(probes[i]->symbol, columns);
		if (!rows[i].function)
			return -ENOMEM;
		cells[i * COLUMN_COUNT + FUNCTION] = rows[i].function;
	}
	fputc('\n', file);
	text_table(file, probe_columns, COLUMN_COUNT, cells, n);
	return 0;
}

static int print_planted(FILE *file, const Tfprofd__PlannedTarget *target)
{
	_cleanup_free_ const Tfprofd__PlannedProbe **probes =
		calloc(target->n_probes + 1, sizeof(probes[0]));
	_cleanup_free_ const char **cells =
		calloc(target->n_probes + 1, COLUMN_COUNT * sizeof(cells[0]));
	_cleanup_free_ struct probe_row *rows = calloc(target->n_probes + 1, sizeof(rows[0]));
	size_t n;
	int r;

	if (!probes || !cells || !rows)
		return -ENOMEM;
	n = sort_planted(target, probes);
	r = print_rows(file, probes, n, rows, cells);
	for (size_t i = 0; i < n; i++)
		free(rows[i].function);
	return r;
}

/* A remark and the functions to which it applies, each with a text; nothing if it applies to none.
 */
static int print_remark(FILE *file, const Tfprofd__PlannedTarget *target, const char *remark,
			bool (*applies)(const Tfprofd__PlannedProbe *probe,
					char text[static REMARK_BYTES]))
{
	bool any = false;

	for (size_t i = 0; i < target->n_probes; i++) {
		_cleanup_free_ char *name = NULL;
		char text[REMARK_BYTES] = "";

		if (!applies(target->probes[i], text))
			continue;
		name = function_text(target->probes[i]->symbol, REMARK_COLUMNS);
		if (!name)
			return -ENOMEM;
		if (!any)
			fprintf(file, "  %s:\n", remark);
		any = true;
		write_line(file, "    %s%s%s", name, *text ? ": " : "", text);
	}
	return 0;
}

static bool is_refused(const Tfprofd__PlannedProbe *probe, char text[static REMARK_BYTES])
{
	snprintf(text, REMARK_BYTES, "%s", probe->reason);
	return *probe->reason;
}

static bool has_semaphore(const Tfprofd__PlannedProbe *probe, char text[static REMARK_BYTES])
{
	snprintf(text, REMARK_BYTES, "offset %#llx of file %u",
		 (unsigned long long)probe->semaphore, probe->file);
	return probe->planted && probe->semaphore;
}

static bool may_repeat(const Tfprofd__PlannedProbe *probe, char text[static REMARK_BYTES])
{
	return probe->planted && probe->may_repeat;
}

static bool is_at_return(const Tfprofd__PlannedProbe *probe, char text[static REMARK_BYTES])
{
	return probe->planted && probe->at_return;
}

static bool is_left_out(const Tfprofd__PlannedProbe *probe)
{
	return !probe->planted && !*probe->reason;
}

/* What the table of probes does not show. */
static int print_remarks(FILE *file, const Tfprofd__PlannedTarget *target)
{
	size_t n_left_out = 0;
	int r;

	r = print_remark(
		file, target,
		"While these probes are attached, the kernel increments a counter in the process",
		has_semaphore);
	if (r >= 0)
		r = print_remark(
			file, target,
			"A call of these functions may count more than once, because they can jump back to their entry",
			may_repeat);
	if (r >= 0)
		r = print_remark(file, target, "Also probed at their return", is_at_return);
	if (r >= 0)
		r = print_remark(file, target, "Refused", is_refused);
	if (r < 0)
		return r;
	for (size_t i = 0; i < target->n_probes; i++)
		n_left_out += is_left_out(target->probes[i]);
	if (n_left_out)
		write_line(file, "  Found, but not attached by such a capture: %zu more.",
			   n_left_out);
	for (size_t i = 0; i < target->n_not_shown; i++)
		write_line(file, "  %s", target->not_shown[i]);
	fputc('\n', file);
	return 0;
}

static size_t count_planted(const Tfprofd__PlannedTarget *target)
{
	size_t n = 0;

	for (size_t i = 0; i < target->n_probes; i++)
		n += target->probes[i]->planted;
	return n;
}

static const char *calibration_text(const Tfprofd__PlanReply *plan)
{
	return plan->calibration && plan->calibration->measured ? "measured on this machine"
								: "estimated from another machine";
}

char *plan_report_forecast(const Tfprofd__PlanReply *plan)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	for (size_t i = 0; i < plan->n_costs; i++) {
		const Tfprofd__Cost *cost = plan->costs[i];
		char time[DURATION_TEXT];

		fprintf(file, "%s%s %s%s %s", i ? ", " : "",
			*cost->unit && strchr("aeio", *cost->unit) ? "an" : "a", cost->unit,
			i ? "" : " costs about", duration_text(cost->cost_ns, time));
		if (cost->probes)
			fprintf(file, " (%u probe%s)", cost->probes, cost->probes == 1 ? "" : "s");
	}
	if (!plan->n_costs)
		fputs("nothing is captured", file);
	fprintf(file, "; %s", calibration_text(plan));
	/* The text is NULL if memory ran out. */
	return fclose(file) ? NULL : TAKE_PTR(text);
}

struct cost_row {
	char cost[DURATION_TEXT], probes[TEXT_NUMBER];
};

/* The reply does not wait for the detaching. */
static void print_detaching(FILE *file, const Tfprofd__PlanReply *plan)
{
	uint64_t ns = plan->calibration->detach_us * UINT64_C(1000);
	char time[DURATION_TEXT];
	size_t n = 0;

	for (size_t i = 0; i < plan->n_targets; i++)
		n += count_planted(plan->targets[i]);
	if (plan->calibration->perf_events)
		fprintf(file,
			"  Detaching takes about %s after the reply: this kernel removes perf events one at a time, and the plan has %zu.\n",
			duration_text(ns * n, time), n);
	else
		fprintf(file, "  Detaching takes about %s after the reply.\n",
			duration_text(ns, time));
}

static int print_forecast(FILE *file, const Tfprofd__PlanReply *plan)
{
	static const struct text_column columns[] = { { "each", false },
						      { "about", true },
						      { "probes", true } };
	_cleanup_free_ const char **cells =
		calloc(plan->n_costs + 1, ARRAY_SIZE(columns) * sizeof(cells[0]));
	_cleanup_free_ struct cost_row *rows = calloc(plan->n_costs + 1, sizeof(rows[0]));
	char emulated[DURATION_TEXT], stepped[DURATION_TEXT];

	if (!cells || !rows)
		return -ENOMEM;
	for (size_t i = 0; i < plan->n_costs; i++) {
		const char **row = &cells[i * ARRAY_SIZE(columns)];

		row[0] = plan->costs[i]->unit;
		row[1] = duration_text(plan->costs[i]->cost_ns, rows[i].cost);
		row[2] = text_count(plan->costs[i]->probes, rows[i].probes);
	}
	fputs("Forecast:\n", file);
	text_table(file, columns, ARRAY_SIZE(columns), cells, plan->n_costs);
	if (plan->calibration)
		fprintf(file,
			"  %s: a hit costs %s where the instruction is emulated, %s where it is single-stepped.\n",
			calibration_text(plan),
			duration_text(plan->calibration->emulated_ns, emulated),
			duration_text(plan->calibration->stepped_ns, stepped));
	if (plan->calibration)
		print_detaching(file, plan);
	return 0;
}

int plan_report_print(FILE *file, const Tfprofd__PlanReply *plan, const struct selection *selection)
{
	int r;

	for (size_t i = 0; i < plan->n_targets; i++) {
		const Tfprofd__PlannedTarget *target = plan->targets[i];
		size_t n_planted = count_planted(target);

		write_line(file, "Process %u (%s): %s %s; %s%s%zu probe%s at level %u%s",
			   target->pid, target->name,
			   *target->runtime ? target->runtime : "no known runtime",
			   *target->runtime ? or_dash(target->version) : "", target->knowledge,
			   *target->knowledge ? "; " : "", n_planted, text_plural(n_planted),
			   selection->level, selection->ops_at_entry ? ", one per operation" : "");
		r = print_files(file, target);
		if (r >= 0)
			r = print_planted(file, target);
		if (r >= 0)
			r = print_remarks(file, target);
		if (r < 0)
			return r;
	}
	r = print_forecast(file, plan);
	if (r < 0)
		return r;
	for (size_t i = 0; i < plan->n_warnings; i++)
		write_line(file, "warning: %s", plan->warnings[i]);
	return 0;
}

static void print_json_files(struct json *json, const Tfprofd__PlannedTarget *target)
{
	json_array_begin(json, "files");
	for (size_t i = 0; i < target->n_files; i++) {
		const Tfprofd__PlannedFile *file = target->files[i];

		json_object_begin(json, NULL);
		json_string(json, "path", file->path);
		json_string(json, "build_id", *file->build_id ? file->build_id : NULL);
		json_number(json, "device", file->device);
		json_number(json, "inode", file->inode);
		json_number(json, "size", file->size);
		json_bool(json, "known", file->known);
		json_object_end(json);
	}
	json_array_end(json);
}

static void print_json_probe(struct json *json, const Tfprofd__PlannedProbe *probe)
{
	_cleanup_free_ char *name = symbol_demangle(probe->symbol);

	json_object_begin(json, NULL);
	json_string(json, "kind", probe->kind);
	json_string(json, "symbol", probe->symbol);
	json_string(json, "function", name);
	json_number(json, "file", probe->file);
	json_number(json, "function_offset", probe->function);
	json_number(json, "offset", probe->offset);
	json_string(json, "instruction", probe->instruction);
	json_string(json, "class", probe->class_);
	json_number(json, "cost_ns", probe->cost_ns);
	json_string(json, "source", probe->source);
	if (probe->semaphore)
		json_number(json, "semaphore_offset", probe->semaphore);
	else
		json_string(json, "semaphore_offset", NULL);
	json_bool(json, "may_repeat", probe->may_repeat);
	json_bool(json, "at_return", probe->at_return);
	json_bool(json, "planted", probe->planted);
	json_string(json, "reason", *probe->reason ? probe->reason : NULL);
	json_object_end(json);
}

static void print_json_target(struct json *json, const Tfprofd__PlannedTarget *target)
{
	json_object_begin(json, NULL);
	json_number(json, "pid", target->pid);
	json_string(json, "name", target->name);
	json_string(json, "runtime", target->runtime);
	json_string(json, "version", *target->version ? target->version : NULL);
	json_string(json, "knowledge", *target->knowledge ? target->knowledge : NULL);
	print_json_files(json, target);
	json_array_begin(json, "probes");
	for (size_t i = 0; i < target->n_probes; i++)
		print_json_probe(json, target->probes[i]);
	json_array_end(json);
	json_array_begin(json, "not_shown");
	for (size_t i = 0; i < target->n_not_shown; i++)
		json_string(json, NULL, target->not_shown[i]);
	json_array_end(json);
	json_object_end(json);
}

static void print_json_costs(struct json *json, const Tfprofd__PlanReply *plan)
{
	json_array_begin(json, "costs");
	for (size_t i = 0; i < plan->n_costs; i++) {
		json_object_begin(json, NULL);
		json_string(json, "unit", plan->costs[i]->unit);
		json_number(json, "cost_ns", plan->costs[i]->cost_ns);
		json_number(json, "probes", plan->costs[i]->probes);
		json_object_end(json);
	}
	json_array_end(json);
}

void plan_report_json(struct json *json, const char *key, const Tfprofd__PlanReply *plan,
		      const struct selection *selection)
{
	json_object_begin(json, key);
	json_number(json, "level", selection->level);
	json_string(json, "ops", selection->ops_at_entry ? "entry" : "exact");
	json_array_begin(json, "targets");
	for (size_t i = 0; i < plan->n_targets; i++)
		print_json_target(json, plan->targets[i]);
	json_array_end(json);
	print_json_costs(json, plan);
	if (plan->calibration) {
		json_object_begin(json, "calibration");
		json_number(json, "emulated_ns", plan->calibration->emulated_ns);
		json_number(json, "stepped_ns", plan->calibration->stepped_ns);
		json_number(json, "switch_ns", plan->calibration->switch_ns);
		json_bool(json, "measured", plan->calibration->measured);
		json_bool(json, "perf_events", plan->calibration->perf_events);
		json_number(json, "detach_us", plan->calibration->detach_us);
		json_object_end(json);
	} else {
		json_string(json, "calibration", NULL);
	}
	json_array_begin(json, "warnings");
	for (size_t i = 0; i < plan->n_warnings; i++)
		json_string(json, NULL, plan->warnings[i]);
	json_array_end(json);
	json_object_end(json);
}
