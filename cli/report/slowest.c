/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/slowest.h"

#include <string.h>

#include "cli/report/hot_report.h"
#include "cli/report/request.h"
#include "cli/report/request_json.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"

/* Pieces shorter than the latency divided by this are combined. */
#define SHORT_SHARE 200
/* With more lines than these, longer pieces are combined, too. */
#define ROWS_MAX 24
/* Waits for a CPU, over all phases, are shown beside the cause of the longest phase if they take at
 * least this percentage of the latency. */
#define CPU_WAIT_SHARE 25
/* The share of the main cause is not shown if it takes at least this percentage of the phase. */
#define CAUSE_IS_ALL 90

/* A line of the timeline. */
struct row {
	char offset[DURATION_TEXT], duration[DURATION_TEXT];
	char *phase, *thread, *what;
};

static unsigned percent_of(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)((double)part * 100 / (double)whole + 0.5) : 0;
}

static uint64_t length_of(const Tfprofd__RequestSegment *s)
{
	return s->end_ns - MIN(s->start_ns, s->end_ns);
}

/* The thread that had the CPU for the longest time, over all phases, while the request waited for
 * one: a reference, and the time. */
static uint32_t find_hog(const Tfprofd__Request *request, uint64_t *ret_ns)
{
	uint64_t *times = calloc(request->n_threads + 1, sizeof(*times));
	uint32_t hog = 0;

	*ret_ns = 0;
	for (size_t i = 0; times && i < request->n_critical_path; i++) {
		const Tfprofd__RequestSegment *s = request->critical_path[i];

		if (s->pieces > 1 || s->activity != TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE ||
		    !request_thread(request, s->by))
			continue;
		times[s->by] += length_of(s);
		if (times[s->by] > *ret_ns) {
			*ret_ns = times[s->by];
			hog = s->by;
		}
	}
	free(times);
	return hog;
}

/* A hog may take a little of each phase: its total share, if that is much more than the cause of
 * the longest phase, else "". NULL: no memory. */
static char *describe_hog(const Tfprofd__Request *request)
{
	const Tfprofd__RequestCause *cause = request->cause;
	_cleanup_free_ char *thread = NULL;
	uint64_t waited;
	uint32_t hog = find_hog(request, &waited);
	unsigned share = percent_of(waited, request_latency_ns(request));
	char *text;

	if (share < CPU_WAIT_SHARE || waited < cause->cause_ns + cause->cause_ns / 4)
		return strdup("");
	thread = request_thread_text(request, hog);
	if (!thread ||
	    asprintf(&text, "; in total %u %% waiting for a CPU while %s ran", share, thread) < 0)
		return NULL;
	return text;
}

/* The number of tasks of the batch that the request waited for the longest; 0: unknown. */
static uint64_t awaited_tasks(const Tfprofd__Request *request)
{
	uint64_t longest = 0, tasks = 0;

	for (size_t i = 0; i < request->n_batches; i++) {
		const Tfprofd__RequestBatch *b = request->batches[i];
		uint64_t waited = b->start_ns - MIN(b->queued_ns, b->start_ns);

		if (!b->queued_ns || waited < longest)
			continue;
		longest = waited;
		tasks = b->tasks;
	}
	return tasks;
}

char *slowest_verdict(const Tfprofd__Request *request)
{
	const Tfprofd__RequestCause *cause = request->cause;
	_cleanup_free_ char *what = NULL, *thread = NULL, *hog = NULL;
	char share[32] = ":", batch[64] = "", number[TEXT_NUMBER];
	struct request_activity activity;
	uint64_t tasks;
	char *text;

	if (!cause)
		return NULL;
	activity = (struct request_activity){ .phase = cause->phase,
					      .activity = cause->activity,
					      .name = cause->name,
					      .by = cause->by };
	what = request_describe(request, &activity);
	thread = request_thread_text(request, cause->thread);
	hog = describe_hog(request);
	if (!what || !thread || !hog)
		return NULL;
	if (percent_of(cause->cause_ns, cause->phase_ns) < CAUSE_IS_ALL)
		snprintf(share, sizeof(share), ", %u %% of it",
			 percent_of(cause->cause_ns, cause->phase_ns));
	/* The timeout ended a batch of one task; a full one waited in the queue. */
	tasks = cause->phase == TFPROFD__PHASE__PHASE_BATCH ? awaited_tasks(request) : 0;
	if (tasks)
		snprintf(batch, sizeof(batch), ", for a batch of %s task%s",
			 text_count(tasks, number), tasks == 1 ? "" : "s");
	if (asprintf(&text, "%u %% %s%s %s%s%s%s%s",
		     percent_of(cause->phase_ns, request_latency_ns(request)),
		     request_phase(cause->phase)->stage_name, share, what, batch,
		     *thread ? ", thread " : "", thread, hog) < 0)
		return NULL;
	return text;
}

/* A part of the head line, if it is known. */
static void print_part(FILE *file, const char *before, const char *text)
{
	if (!text || !*text)
		return;
	fputs(before, file);
	text_write(file, text);
}

static void print_head(FILE *file, const Tfprofd__Request *r, size_t rank)
{
	static const char *const attributions[] = { ", its runs are unknown", "",
						    ", its runs are inferred" };
	uint32_t thread_of = r->run_thread ?: r->read_thread;
	_cleanup_free_ char *thread = request_thread_text(r, thread_of);
	char latency[DURATION_TEXT];

	fprintf(file, "\n%zu. %s, request %llu", rank,
		duration_text(request_latency_ns(r), latency), (unsigned long long)r->number);
	print_part(file, ": ", *r->method ? r->method : *r->path ? "request" : NULL);
	print_part(file, " ", r->path);
	if (r->status)
		fprintf(file, ", status %u", r->status - 1);
	if (r->grpc_status)
		fprintf(file, ", gRPC status %u", r->grpc_status - 1);
	print_part(file, ", model ", r->model);
	print_part(file, " version ", r->version);
	print_part(file, ", thread ", thread);
	fputs(attributions[(unsigned)r->attribution < ARRAY_SIZE(attributions) ? r->attribution
									       : 0],
	      file);
	if (r->unaccepted && !r->accepted_ns)
		fputs(", its connection was not accepted yet when it came", file);
	if (r->at_library)
		fputs(", seen in gRPC's library", file);
	if (r->streaming)
		fputs(", a stream of messages", file);
	if (r->called_by && r->called_by->request)
		fprintf(file, ", sent by request %llu of process %u",
			(unsigned long long)r->called_by->request, r->called_by->pid);
	else if (r->called_by)
		fprintf(file, ", sent by process %u", r->called_by->pid);
	if (!request_is_whole(r))
		fprintf(file, "%s%s%s%s", r->cut_start ? ", began before the window" : "",
			r->cut_end ? ", ended after the window" : "", r->reset ? ", aborted" : "",
			r->lost ? ", some of its records were lost" : "");
	fputc('\n', file);
}

/* The requests that it sent to other processes. */
static void print_calls(FILE *file, const Tfprofd__Request *r)
{
	char offset[DURATION_TEXT], duration[DURATION_TEXT];

	for (size_t i = 0; i < r->n_calls; i++) {
		const Tfprofd__RequestHop *call = r->calls[i];

		duration_text(call->start_ns - MIN(r->start_ns, call->start_ns), offset);
		duration_text(call->end_ns - MIN(call->start_ns, call->end_ns), duration);
		fprintf(file, "   at %s it sent request %llu to process %u, %s%s\n", offset,
			(unsigned long long)call->request, call->pid,
			call->end_ns ? "answered after " : "the end of its answer was not seen",
			call->end_ns ? duration : "");
	}
	if (r->calls_left_out)
		fprintf(file, "   and %llu others\n", (unsigned long long)r->calls_left_out);
}

/* The end of the row that begins with the piece: one piece, or consecutive short ones. */
static size_t row_end(const Tfprofd__Request *r, size_t first, uint64_t shortest)
{
	size_t end = first;

	while (end < r->n_critical_path) {
		const Tfprofd__RequestSegment *s = r->critical_path[end];

		if (length_of(s) >= shortest && s->pieces <= 1)
			break;
		end++;
	}
	return MAX(end, first + 1);
}

/* The minimal length of a piece with a row of its own. */
static uint64_t shortest_of(const Tfprofd__Request *r)
{
	uint64_t shortest = request_latency_ns(r) / SHORT_SHARE;

	for (;;) {
		size_t n = 0;

		for (size_t i = 0; i < r->n_critical_path; i = row_end(r, i, shortest))
			n++;
		if (n <= ROWS_MAX)
			return shortest;
		shortest += shortest / 4 + 1;
	}
}

/* What took most of the time of several pieces, and its share of it. */
static char *describe_most(const Tfprofd__RequestSegment *const *pieces, size_t n, uint64_t count)
{
	static const char *const labels[] = {
		[TFPROFD__ACTIVITY__ACTIVITY_UNKNOWN] = "unknown activity",
		[TFPROFD__ACTIVITY__ACTIVITY_RUNNING] = "running",
		[TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE] = "waiting for a CPU",
		[TFPROFD__ACTIVITY__ACTIVITY_BLOCKED] = "blocked",
		[TFPROFD__ACTIVITY__ACTIVITY_WAITING] = "waiting",
		[TFPROFD__ACTIVITY__ACTIVITY_THROTTLED] = "throttled",
	};
	uint64_t times[ARRAY_SIZE(labels)] = { 0 }, sum = 0;
	size_t most = 0;
	char *text;

	for (size_t i = 0; i < n; i++) {
		uint64_t length = length_of(pieces[i]);
		unsigned activity = pieces[i]->activity;

		sum += length;
		/* The labels of combined pieces are unknown. */
		if (pieces[i]->pieces <= 1 && activity < ARRAY_SIZE(labels))
			times[activity] += length;
	}
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (times[i] > times[most])
			most = i;
	if (asprintf(&text, times[most] ? "%llu short pieces, %u %% %s" : "%llu short pieces",
		     (unsigned long long)count, percent_of(times[most], sum), labels[most]) < 0)
		return NULL;
	return text;
}

/* Several pieces as one row, with their phase and their thread if these are the same for all. */
static void make_short_row(const Tfprofd__Request *r, size_t first, size_t n, uint64_t count,
			   struct row *row)
{
	const Tfprofd__RequestSegment *const *pieces =
		(const Tfprofd__RequestSegment *const *)&r->critical_path[first];
	bool same_phase = true, same_thread = true;

	for (size_t i = 0; i < n; i++) {
		same_phase = same_phase && pieces[i]->pieces <= 1 &&
			     request_phase(pieces[i]->phase)->stage ==
				     request_phase(pieces[0]->phase)->stage;
		same_thread = same_thread && pieces[i]->pieces <= 1 &&
			      pieces[i]->thread == pieces[0]->thread;
	}
	row->phase = strdup(same_phase ? request_phase(pieces[0]->phase)->stage_name : "…");
	row->thread = same_thread ? request_thread_text(r, pieces[0]->thread) : strdup("");
	row->what = describe_most(pieces, n, count);
}

/* Rows of one request; returns their number. Texts for which memory is lacking stay NULL. */
static size_t make_rows(const Tfprofd__Request *r, struct row *rows)
{
	uint64_t shortest = shortest_of(r);
	size_t n = 0, end;

	for (size_t i = 0; i < r->n_critical_path; i = end) {
		const Tfprofd__RequestSegment *s = r->critical_path[i], *last;
		struct row *row = &rows[n++];
		uint64_t pieces = 0;

		end = row_end(r, i, shortest);
		for (size_t k = i; k < end; k++)
			pieces += MAX(r->critical_path[k]->pieces, 1u);
		last = r->critical_path[end - 1];
		duration_text(s->start_ns - MIN(s->start_ns, r->start_ns), row->offset);
		duration_text(last->end_ns - MIN(last->end_ns, s->start_ns), row->duration);
		if (pieces > 1) {
			make_short_row(r, i, end - i, pieces, row);
			continue;
		}
		row->phase = strdup(request_phase(s->phase)->stage_name);
		row->thread = request_thread_text(r, s->thread);
		row->what = request_describe(r, &(struct request_activity){ .phase = s->phase,
									    .activity = s->activity,
									    .name = s->name,
									    .by = s->by });
	}
	return n;
}

static void print_path(FILE *file, const Tfprofd__Request *r)
{
	static const struct text_column columns[] = { { " at", true },
						      { "for", true },
						      { "phase", false },
						      { "thread", false },
						      { "what", false } };
	_cleanup_free_ struct row *rows = calloc(r->n_critical_path + 1, sizeof(*rows));
	_cleanup_free_ const char **cells =
		calloc((r->n_critical_path + 1) * ARRAY_SIZE(columns), sizeof(*cells));
	size_t n;

	if (!rows || !cells || !r->n_critical_path)
		return;
	n = make_rows(r, rows);
	for (size_t i = 0; i < n; i++) {
		const char **cell = &cells[i * ARRAY_SIZE(columns)];

		cell[0] = rows[i].offset;
		cell[1] = rows[i].duration;
		cell[2] = rows[i].phase ?: "";
		cell[3] = rows[i].thread ?: "";
		cell[4] = rows[i].what ?: "";
	}
	text_table(file, columns, ARRAY_SIZE(columns), cells, n);
	for (size_t i = 0; i < n; i++) {
		free(rows[i].phase);
		free(rows[i].thread);
		free(rows[i].what);
	}
}

void slowest_print(FILE *file, Tfprofd__Request *const *requests, size_t n)
{
	if (n)
		fprintf(file, "\nThe slowest request%s:\n", n == 1 ? "" : "s");
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *verdict = slowest_verdict(requests[i]);

		print_head(file, requests[i], i + 1);
		if (verdict) {
			fputs("   ", file);
			text_write(file, verdict);
			fputc('\n', file);
		}
		print_calls(file, requests[i]);
		print_path(file, requests[i]);
		hot_report_request(file, requests[i]);
	}
}

void slowest_json(struct json *json, const char *key, Tfprofd__Request *const *requests, size_t n)
{
	json_array_begin(json, key);
	for (size_t i = 0; i < n; i++)
		request_json(json, NULL, requests[i]);
	json_array_end(json);
}
