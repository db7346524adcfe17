#include "cli/slowest.h"

#include <string.h>

#include "cli/request.h"
#include "cli/request_json.h"
#include "cli/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"

/* Pieces that are a smaller share of the latency are told together. */
#define SHORT_SHARE 200
/* Percent of a phase from which on its main cause stands for all of it. */
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

/* That it was executed is enough where the activity says how. */
static const char *short_label(unsigned phase)
{
	bool executes = phase >= TFPROFD__PHASE__PHASE_EXECUTE_RUNNING && phase <= TFPROFD__PHASE__PHASE_EXECUTE;

	return executes ? "execute" : request_phase_label(phase);
}

char *slowest_verdict(const Tfprofd__Request *request)
{
	const Tfprofd__RequestCause *cause = request->cause;
	_cleanup_free_ char *what = NULL, *thread = NULL;
	char share[32] = ":";
	struct request_deed deed;
	char *text;

	if (!cause)
		return NULL;
	deed = (struct request_deed){ .phase = cause->phase, .activity = cause->activity, .name = cause->name, .by = cause->by };
	what = request_describe(request, &deed);
	thread = request_thread_text(request, cause->thread);
	if (!what || !thread)
		return NULL;
	if (percent_of(cause->cause_ns, cause->phase_ns) < CAUSE_IS_ALL)
		snprintf(share, sizeof(share), ", %u %% of it", percent_of(cause->cause_ns, cause->phase_ns));
	if (asprintf(&text, "%u %% %s%s %s%s%s", percent_of(cause->phase_ns, request_latency_ns(request)), short_label(cause->phase), share,
		     what, *thread ? ", thread " : "", thread) < 0)
		return NULL;
	return text;
}

/* A part of the head line, when it is known. */
static void print_part(FILE *file, const char *before, const char *text)
{
	if (!text || !*text)
		return;
	fputs(before, file);
	text_write(file, text);
}

static void print_head(FILE *file, const Tfprofd__Request *r, size_t rank)
{
	static const char *const attributions[] = { ", its runs are not known", "", ", its runs are inferred" };
	uint32_t thread_of = r->run_thread ?: r->read_thread;
	_cleanup_free_ char *thread = request_thread_text(r, thread_of);
	char latency[DURATION_TEXT];

	fprintf(file, "\n%zu. %s, request %llu", rank, duration_text(request_latency_ns(r), latency), (unsigned long long)r->number);
	print_part(file, ": ", *r->method ? r->method : *r->path ? "request" : NULL);
	print_part(file, " ", r->path);
	if (r->status)
		fprintf(file, ", status %u", r->status - 1);
	if (r->grpc_status)
		fprintf(file, ", gRPC status %u", r->grpc_status - 1);
	print_part(file, ", model ", r->model);
	print_part(file, " version ", r->version);
	print_part(file, ", thread ", thread);
	fputs(attributions[(unsigned)r->attribution < ARRAY_SIZE(attributions) ? r->attribution : 0], file);
	if (!request_is_whole(r))
		fprintf(file, "%s%s%s%s", r->cut_start ? ", began before the window" : "", r->cut_end ? ", ended after the window" : "",
			r->reset ? ", broken off" : "", r->lost ? ", records of it were lost" : "");
	fputc('\n', file);
}

/* Rows of one request; how many there are. What there is no memory for stays empty. */
static size_t make_rows(const Tfprofd__Request *r, struct row *rows)
{
	uint64_t shortest = request_latency_ns(r) / SHORT_SHARE;
	size_t n = 0, end;

	for (size_t i = 0; i < r->n_critical_path; i = end) {
		const Tfprofd__RequestSegment *s = r->critical_path[i], *last = s;
		struct row *row = &rows[n++];
		uint64_t pieces = 0;

		for (end = i; end < r->n_critical_path; end++) {
			const Tfprofd__RequestSegment *next = r->critical_path[end];

			if (next->end_ns - next->start_ns >= shortest && next->pieces <= 1)
				break;
			pieces += MAX(next->pieces, 1u);
			last = next;
		}
		end = MAX(end, i + 1);
		duration_text(s->start_ns - MIN(s->start_ns, r->start_ns), row->offset);
		duration_text(last->end_ns - MIN(last->end_ns, s->start_ns), row->duration);
		if (pieces > 1) {
			row->phase = strdup("…");
			row->thread = strdup("");
			if (asprintf(&row->what, "%llu short pieces", (unsigned long long)pieces) < 0)
				row->what = NULL;
			continue;
		}
		row->phase = strdup(short_label(s->phase));
		row->thread = request_thread_text(r, s->thread);
		row->what = request_describe(r, &(struct request_deed){ .phase = s->phase, .activity = s->activity, .name = s->name,
									.by = s->by });
	}
	return n;
}

static void print_path(FILE *file, const Tfprofd__Request *r)
{
	static const struct text_column columns[] = { { " at", true },	  { "for", true },    { "phase", false },
						      { "thread", false }, { "what", false } };
	_cleanup_free_ struct row *rows = calloc(r->n_critical_path + 1, sizeof(*rows));
	_cleanup_free_ const char **cells = calloc((r->n_critical_path + 1) * ARRAY_SIZE(columns), sizeof(*cells));
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
		print_path(file, requests[i]);
	}
}

void slowest_json(struct json *json, const char *key, Tfprofd__Request *const *requests, size_t n)
{
	json_array_begin(json, key);
	for (size_t i = 0; i < n; i++)
		request_json(json, NULL, requests[i]);
	json_array_end(json);
}
