/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <string.h>

#include "cli/report/hot_report.h"
#include "cli/report/json.h"
#include "cli/report/plan_report.h"
#include "cli/report/request_report.h"
#include "cli/report/slowest.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"

#define OPS_SHOWN 20
#define PERCENT_TEXT 16

double report_runs_per_second(const Tfprofd__CaptureResult *result)
{
	return result->runs_seen_ns ? (double)result->runs * 1e9 / (double)result->runs_seen_ns : 0;
}

/* "-" for a share of zero. */
static const char *percent_text(uint64_t part, double whole, char text[static PERCENT_TEXT])
{
	if (whole > 0)
		snprintf(text, PERCENT_TEXT, "%.1f", (double)part * 100 / whole);
	else
		snprintf(text, PERCENT_TEXT, "-");
	return text;
}

/* The time that threads spent inside runs, on a CPU or not. */
static double work_ns(const Tfprofd__CaptureResult *result)
{
	return (double)result->running_ns + (double)result->runnable_ns +
	       (double)result->throttled_ns + (double)result->blocked_ns;
}

static void print_runs(FILE *file, const Tfprofd__CaptureResult *result)
{
	char p50[DURATION_TEXT], p99[DURATION_TEXT], number[TEXT_NUMBER];

	fprintf(file, "  runs     %.1f/s", report_runs_per_second(result));
	if (result->runs)
		fprintf(file, ", p50 %s, p99 %s", duration_text(result->run_p50_ns, p50),
			duration_text(result->run_p99_ns, p99));
	if (result->runs_cut)
		fprintf(file, "; %s truncated %s", text_count(result->runs_cut, number),
			result->runs_seen_ns < result->window_ns
				? "by the window, or when runs were disabled"
				: "by the window");
	fputc('\n', file);
}

static void print_threads(FILE *file, const Tfprofd__CaptureResult *result)
{
	char percent[PERCENT_TEXT];
	double work = work_ns(result);

	if (!(work > 0)) {
		fputs("  threads  unknown\n", file);
		return;
	}
	fprintf(file, "  threads  %s %% running", percent_text(result->running_ns, work, percent));
	fprintf(file, ", %s %% waiting for a CPU",
		percent_text(result->runnable_ns, work, percent));
	if (result->throttled_ns)
		fprintf(file, ", %s %% throttled",
			percent_text(result->throttled_ns, work, percent));
	fprintf(file, ", %s %% blocked, while in a run\n",
		percent_text(result->blocked_ns, work, percent));
}

static void print_loss(FILE *file, const Tfprofd__CaptureResult *result)
{
	char dropped[TEXT_NUMBER], records[TEXT_NUMBER], names[TEXT_NUMBER];

	fprintf(file, "  lost records: %s of %s", text_count(result->dropped, dropped),
		text_count(result->records + result->dropped, records));
	if (result->lost_names)
		fprintf(file, "; %s operation%s without a name",
			text_count(result->lost_names, names), text_plural(result->lost_names));
	fputs(result->cut ? "; a process or the window ended early\n" : "\n", file);
}

static void print_sampling(FILE *file, const Tfprofd__CaptureResult *result)
{
	const Tfprofd__OpSampling *s = result->op_sampling;
	char seen[DURATION_TEXT], window[DURATION_TEXT], within[TEXT_NUMBER], longer[TEXT_NUMBER];

	if (!s)
		return;
	fprintf(file, "  sampled  operations, in %u slice%s: %s of %s\n", s->slices,
		text_plural(s->slices), duration_text(s->seen_ns, seen),
		duration_text(result->window_ns, window));
	fprintf(file,
		"           all operations of %s request%s are known; %s longer than a slice\n",
		text_count(s->requests_within, within), text_plural(s->requests_within),
		text_count(s->requests_longer, longer));
}

static void print_probes(FILE *file, const Tfprofd__CaptureResult *result)
{
	char at[DURATION_TEXT];

	/* A forecast: more digits would suggest a precision that it does not have. */
	fprintf(file, "  probe overhead: about %.*f %% of the target's CPU time",
		result->overhead < 1 ? 2 : 1, result->overhead);
	if (result->max_overhead > 0)
		fprintf(file, "; budget: %.4g %%", result->max_overhead);
	fputc('\n', file);
	for (size_t i = 0; i < result->n_shed; i++) {
		const Tfprofd__Shed *shed = result->shed[i];

		fputs(shed->refused ? "  refused: " : "  disabled: ", file);
		text_write(file, shed->kind);
		if (shed->refused)
			fputs(", not captured because the kernel refused a BPF program or a probe, or has no room for as many\n",
			      file);
		else
			fprintf(file, ", after %s, when the probe overhead was %.1f %%\n",
				duration_text(shed->at_ns, at), shed->overhead);
	}
	print_sampling(file, result);
	if (result->ops_at_entry)
		fputs("  ends     an operation is shown to end where the next one starts, or where its executor returns\n",
		      file);
}

/* One row: self, its error, %, total, count, type, operation. */
struct op_row {
	char self[DURATION_TEXT], error[PERCENT_TEXT + 4], percent[PERCENT_TEXT];
	char total[DURATION_TEXT], count[TEXT_NUMBER];
};

/* Half of the 95 % confidence interval, as a share of what it is of. */
static const char *error_text(const Tfprofd__OpSummary *op, char text[static PERCENT_TEXT + 4])
{
	char percent[PERCENT_TEXT];

	if (!op->estimate || !op->self_ns)
		return "-";
	sprintf(text, "± %s", percent_text(op->estimate->self_error_ns, op->self_ns, percent));
	return text;
}

static void print_ops(FILE *file, const Tfprofd__CaptureResult *result)
{
	static const struct text_column columns[] = { { "self", true },  { "% of work", true },
						      { "total", true }, { "count", true },
						      { "type", false }, { "operation", false } };
	static const struct text_column estimate_column = { "estimate %", true };
	const bool is_estimate = result->n_top_ops && result->top_ops[0]->estimate;
	struct text_column shown[ARRAY_SIZE(columns) + 1];
	const char *cells[OPS_SHOWN * ARRAY_SIZE(shown)];
	struct op_row rows[OPS_SHOWN];
	size_t n = MIN(result->n_top_ops, (size_t)OPS_SHOWN), n_columns = 0, cell = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		shown[n_columns++] = columns[i];
		if (!i && is_estimate)
			shown[n_columns++] = estimate_column;
	}
	for (size_t i = 0; i < n; i++) {
		const Tfprofd__OpSummary *op = result->top_ops[i];
		struct op_row *row = &rows[i];

		cells[cell++] = duration_text(op->self_ns, row->self);
		if (is_estimate)
			cells[cell++] = error_text(op, row->error);
		cells[cell++] = percent_text(op->self_ns, work_ns(result), row->percent);
		cells[cell++] = duration_text(op->total_ns, row->total);
		cells[cell++] = text_count(op->count, row->count);
		cells[cell++] = *op->type ? op->type : "-";
		cells[cell++] = op->name;
	}
	if (!n)
		return;
	fputs(is_estimate
		      ? "\nOperations by self time, estimated for the window (95 % confidence):\n"
		      : "\nOperations by self time:\n",
	      file);
	text_table(file, shown, n_columns, cells, n);
}

static void print_memory(FILE *file, const Tfprofd__CaptureResult *result)
{
	char all[TEXT_NUMBER], most[TEXT_NUMBER], count[TEXT_NUMBER];

	for (size_t i = 0; i < result->n_memory; i++) {
		const Tfprofd__MemorySummary *m = result->memory[i];

		fputs(i ? "           " : "  memory   ", file);
		text_write(file, m->allocator);
		fprintf(file, ": %s allocation%s, %s in total, peak %s",
			text_count(m->allocations, count), text_plural(m->allocations),
			text_bytes(m->allocated_bytes, all), text_bytes(m->peak_bytes, most));
		if (m->unknown)
			fprintf(file, "; %s deallocation%s of memory from before the window",
				text_count(m->unknown, count), text_plural(m->unknown));
		fputc('\n', file);
	}
}

static void print_sentence(FILE *file, bool is_first, const char *what, const char *text)
{
	fprintf(file, "%s%s: ", is_first ? "\n" : "", what);
	text_write(file, text);
	fputc('\n', file);
}

/* The summary has lines of its own for disabled and refused kinds of probes, and for operations
 * that end at the next one: warnings that only restate these are in the trace and in JSON alone. */
static bool restates(const Tfprofd__CaptureResult *result, size_t i)
{
	return i < 64 && result->restating_warnings >> i & 1;
}

static void print_advice_and_warnings(FILE *file, const Tfprofd__CaptureResult *result)
{
	bool is_first = true;

	for (size_t i = 0; i < result->n_advice; i++)
		print_sentence(file, !i, "advice", result->advice[i]);
	for (size_t i = 0; i < result->n_warnings; i++) {
		if (restates(result, i))
			continue;
		print_sentence(file, is_first, "warning", result->warnings[i]);
		is_first = false;
	}
}

void report_print(FILE *file, const struct report *report)
{
	const Tfprofd__CaptureResult *result = report->result;
	char window[DURATION_TEXT], runs[TEXT_NUMBER], ops[TEXT_NUMBER], size[TEXT_NUMBER];

	fprintf(file, "Captured %s: %s run%s, %s operation%s\n",
		duration_text(result->window_ns, window), text_count(result->runs, runs),
		text_plural(result->runs), text_count(result->ops, ops), text_plural(result->ops));
	print_runs(file, result);
	request_report_print(file, result->requests);
	print_threads(file, result);
	print_memory(file, result);
	if (result->n_modules)
		fprintf(file, "  XLA      %zu module%s for Graph Viewer and Memory Viewer\n",
			result->n_modules, text_plural(result->n_modules));
	print_loss(file, result);
	print_probes(file, result);
	request_report_print_tables(file, result->requests);
	print_ops(file, result);
	hot_report_print(file, result);
	if (report->requests)
		slowest_print(file, report->requests->slowest, report->requests->n_slowest);
	print_advice_and_warnings(file, result);
	if (!report->path)
		return;
	fputs("\nWritten: ", file);
	text_write(file, report->path);
	fprintf(file, " (%s)", text_bytes(result->xspace_bytes, size));
	if (report->requests_file) {
		fputs("\nRequests: ", file);
		text_write(file, report->requests_file);
	}
	fputs("\nOpen with: tensorboard --logdir ", file);
	text_write(file, report->logdir);
	fputc('\n', file);
	if (!report->recording)
		return;
	fputs("Recording: ", file);
	text_write(file, report->recording);
	fprintf(file, " (%s)\n", text_bytes(report->recording_bytes, size));
}

static void print_json_ops(struct json *json, const Tfprofd__CaptureResult *result)
{
	json_array_begin(json, "top_ops");
	for (size_t i = 0; i < result->n_top_ops; i++) {
		const Tfprofd__OpSummary *op = result->top_ops[i];

		json_object_begin(json, NULL);
		json_string(json, "name", op->name);
		json_string(json, "type", op->type);
		json_number(json, "count", op->count);
		json_number(json, "total_ns", op->total_ns);
		json_number(json, "self_ns", op->self_ns);
		if (op->estimate) {
			json_number(json, "seen", op->estimate->seen);
			json_number(json, "self_error_ns", op->estimate->self_error_ns);
			json_number(json, "mean_ns", op->estimate->mean_ns);
			json_number(json, "mean_error_ns", op->estimate->mean_error_ns);
		}
		json_object_end(json);
	}
	json_array_end(json);
}

/* Nothing if operations were recorded in the whole window. */
static void print_json_sampling(struct json *json, const Tfprofd__OpSampling *s)
{
	if (!s)
		return;
	json_object_begin(json, "op_sampling");
	json_number(json, "slices", s->slices);
	json_number(json, "seen_ns", s->seen_ns);
	json_number(json, "requests_within", s->requests_within);
	json_number(json, "requests_longer", s->requests_longer);
	json_object_end(json);
}

static void print_json_memory(struct json *json, const Tfprofd__CaptureResult *result)
{
	json_array_begin(json, "memory");
	for (size_t i = 0; i < result->n_memory; i++) {
		const Tfprofd__MemorySummary *m = result->memory[i];

		json_object_begin(json, NULL);
		json_string(json, "allocator", m->allocator);
		json_number(json, "allocations", m->allocations);
		json_number(json, "deallocations", m->deallocations);
		json_number(json, "allocated_bytes", m->allocated_bytes);
		json_number(json, "peak_bytes", m->peak_bytes);
		json_number(json, "unknown_deallocations", m->unknown);
		json_object_end(json);
	}
	json_array_end(json);
}

static void print_json_probes(struct json *json, const Tfprofd__CaptureResult *result)
{
	json_real(json, "overhead_percent", result->overhead);
	if (result->max_overhead > 0)
		json_real(json, "max_overhead_percent", result->max_overhead);
	else
		json_string(json, "max_overhead_percent", NULL);
	json_array_begin(json, "shed");
	for (size_t i = 0; i < result->n_shed; i++) {
		json_object_begin(json, NULL);
		json_string(json, "kind", result->shed[i]->kind);
		json_number(json, "at_ns", result->shed[i]->at_ns);
		json_real(json, "overhead_percent", result->shed[i]->overhead);
		json_bool(json, "refused", result->shed[i]->refused);
		json_object_end(json);
	}
	json_array_end(json);
	json_bool(json, "ops_at_entry", result->ops_at_entry);
}

void report_print_json(FILE *file, const struct report *report)
{
	const Tfprofd__CaptureResult *result = report->result;
	struct json json = { .file = file };

	json_object_begin(&json, NULL);
	json_string(&json, "file", report->path);
	json_string(&json, "logdir", report->logdir);
	json_string(&json, "recording", report->recording);
	json_string(&json, "hostname", result->hostname);
	json_number(&json, "xspace_bytes", result->xspace_bytes);
	json_number(&json, "window_ns", result->window_ns);
	json_number(&json, "records", result->records);
	json_number(&json, "dropped", result->dropped);
	json_bool(&json, "cut", result->cut);
	json_number(&json, "runs", result->runs);
	json_number(&json, "runs_cut", result->runs_cut);
	json_real(&json, "runs_per_second", report_runs_per_second(result));
	json_number(&json, "run_p50_ns", result->run_p50_ns);
	json_number(&json, "run_p99_ns", result->run_p99_ns);
	json_number(&json, "ops", result->ops);
	json_number(&json, "lost_names", result->lost_names);
	json_number(&json, "running_ns", result->running_ns);
	json_number(&json, "runnable_ns", result->runnable_ns);
	json_number(&json, "throttled_ns", result->throttled_ns);
	json_number(&json, "blocked_ns", result->blocked_ns);
	print_json_probes(&json, result);
	request_report_json(&json, "requests", result->requests);
	json_string(&json, "requests_file", report->requests_file);
	slowest_json(&json, "slowest", report->requests ? report->requests->slowest : NULL,
		     report->requests ? report->requests->n_slowest : 0);
	print_json_sampling(&json, result->op_sampling);
	print_json_ops(&json, result);
	hot_report_json(&json, result);
	print_json_memory(&json, result);
	json_array_begin(&json, "modules");
	for (size_t i = 0; i < result->n_modules; i++)
		json_string(&json, NULL, result->modules[i]);
	json_array_end(&json);
	if (report->plan)
		plan_report_json(&json, "plan", report->plan, report->selection);
	json_array_begin(&json, "advice");
	for (size_t i = 0; i < result->n_advice; i++)
		json_string(&json, NULL, result->advice[i]);
	json_array_end(&json);
	json_array_begin(&json, "warnings");
	for (size_t i = 0; i < result->n_warnings; i++)
		json_string(&json, NULL, result->warnings[i]);
	json_array_end(&json);
	json_object_end(&json);
}
