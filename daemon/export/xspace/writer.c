/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/export/xspace/op_name.h"
#include "lib/base/macro.h"
#include "lib/base/quota.h"

/* The same on every line: viewers need one small base, and no event at time 0, which they take for
 * "not set". */
#define BASE_NS 1000
#define PS_PER_NS 1000

static const char *const stat_names[STAT_COUNT] = {
	[STAT_ID] = "id",
	[STAT_ROOT] = "_r",
	[STAT_PRODUCER_TYPE] = "_pt",
	[STAT_PRODUCER] = "_p",
	[STAT_CONSUMER_TYPE] = "_ct",
	[STAT_CONSUMER] = "_c",
	[STAT_FLOW] = "flow",
	[STAT_STEP] = "step_num",
	[STAT_STAGE_ID] = "_ipl_stage_id",
	[STAT_STAGE_NAME] = "_ipl_stage_name",
	[STAT_STAGE_CATEGORY] = "_ipl_stage_cat",
	[STAT_MODEL] = "model_id",
	[STAT_TRUNCATED] = "cut",
	[STAT_END] = "end",
	[STAT_WAKER] = "waker",
	[STAT_REASON] = "reason",
	[STAT_ON_CPU] = "on_cpu",
	[STAT_CGROUP] = "cgroup",
	[STAT_QUOTA] = "quota",
	[STAT_THREAD] = "thread",
	[STAT_TID] = "tid",
	[STAT_PID] = "pid",
	[STAT_REQUEST] = "request",
	[STAT_REQUEST_ID] = "request_id",
	[STAT_ATTRIBUTION] = "attribution",
	[STAT_SENT_BY] = "sent_by",
	[STAT_CALLS] = "calls",
	[STAT_SENT] = "sent",
	[STAT_RUNS] = "runs",
	[STAT_PROTOCOL] = "protocol",
	[STAT_METHOD] = "method",
	[STAT_PATH] = "path",
	[STAT_STATUS] = "status",
	[STAT_GRPC_STATUS] = "grpc_status",
	[STAT_BYTES_IN] = "bytes_in",
	[STAT_BYTES_OUT] = "bytes_out",
	[STAT_CONNECTION] = "connection",
	[STAT_STREAM] = "stream",
	[STAT_LOCAL_PORT] = "local_port",
	[STAT_PEER_PORT] = "peer_port",
	[STAT_ARRIVAL] = "arrival",
	[STAT_SEEN] = "seen",
	[STAT_INCOMPLETE] = "incomplete",
	[STAT_ARGUMENTS] = "arguments",
	[STAT_REQUESTS] = "requests",
	[STAT_TASKS] = "tasks",
	[STAT_THREADS] = "threads",
	[STAT_TASK_SIZE] = "batching_input_task_size",
	[STAT_BATCH_SIZE] = "batch_size_before_padding",
	[STAT_PADDED_SIZE] = "batch_size_after_padding",
	[STAT_PADDING] = "padding_amount",
	[STAT_ALLOCATOR] = "allocator_name",
	[STAT_IN_USE] = "bytes_allocated",
	[STAT_PEAK] = "peak_bytes_in_use",
	[STAT_REQUESTED] = "requested_bytes",
	[STAT_ALLOCATION] = "allocation_bytes",
	[STAT_ADDRESS] = "addr",
	[STAT_TF_OP] = "tf_op",
	[STAT_BYTES] = "bytes",
	[STAT_START_TIME] = "profile_start_time",
	[STAT_STOP_TIME] = "profile_stop_time",
	[STAT_DEVICE_TYPE] = "device_type_string",
	[STAT_CATEGORY] = "hlo_category",
	[STAT_PROGRAM] = "program_id",
	[STAT_SYMBOL] = "symbol_id",
	[STAT_STACK] = "stack",
};

void writer_done(struct writer *w)
{
	xspace_free(w->xspace);
	op_names_free(w->timeline, w->shown);
	free(w->ids.forms);
	free(w->ids.reasons);
	free(w->ids.threads);
	free(w->ids.thread_strings);
	free(w->order);
	free(w->has_requests);
	free(w->serves);
	free(w->tasks);
	free(w->path_models);
}

static int compare_threads(const void *a, const void *b, void *timeline)
{
	const struct timeline *t = timeline;
	const struct thread *x = &t->threads[*(const uint32_t *)a],
			    *y = &t->threads[*(const uint32_t *)b];

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Threads' lines are sorted by process and tid, not by when they were first seen, and are below
 * those of requests. */
static int order_threads(struct writer *w)
{
	const struct timeline *t = w->timeline;
	_cleanup_free_ uint32_t *sorted = calloc(t->n_threads + 1, sizeof(*sorted));

	w->order = calloc(t->n_threads + 1, sizeof(*w->order));
	if (!sorted || !w->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_threads; i++)
		sorted[i] = i;
	qsort_r(sorted, t->n_threads, sizeof(*sorted), compare_threads, (void *)t);
	for (uint32_t i = 0; i < t->n_threads; i++)
		w->order[sorted[i]] = t->n_lanes + i + 1;
	return 0;
}

static int compare_tasks(const void *a, const void *b, void *timeline)
{
	const struct timeline *t = timeline;
	uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
	const struct batch_task *x = &t->batch_tasks[i], *y = &t->batch_tasks[j];

	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	if (x->queued_ns != y->queued_ns)
		return x->queued_ns < y->queued_ns ? -1 : 1;
	return i < j ? -1 : i > j;
}

bool writer_shows_request(const struct request *q)
{
	return !(q->flags & REQUEST_FILTERED);
}

static int index_requests(struct writer *w)
{
	const struct timeline *t = w->timeline;

	w->has_requests = calloc((size_t)t->n_processes + 1, sizeof(bool));
	w->serves = calloc((size_t)t->n_processes + 1, sizeof(bool));
	w->path_models = calloc((size_t)t->n_texts + 1, sizeof(bool));
	w->tasks = calloc(t->n_batch_tasks + 1, sizeof(w->tasks[0]));
	if (!w->has_requests || !w->serves || !w->path_models || !w->tasks)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];

		w->has_requests[q->process] = true;
		w->serves[q->process] |= q->n_runs || q->protocol == PROTOCOL_MARK;
		if (writer_shows_request(q))
			counted_in_part(&w->requests, q->flags & REQUEST_TRUNCATED_START,
					q->flags & REQUEST_TRUNCATED_END);
	}
	for (uint64_t i = 0; i < t->n_batch_tasks; i++)
		w->tasks[i] = i;
	qsort_r(w->tasks, t->n_batch_tasks, sizeof(w->tasks[0]), compare_tasks, (void *)t);
	/* Two captures almost never begin in the same nanosecond. */
	w->flow_salt =
		(t->start_unix_ns ^ t->start_unix_ns >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 9;
	return 0;
}

bool counted_in_part(struct partial *p, bool no_start, bool no_end)
{
	p->all++;
	p->n_start += no_start;
	p->n_end += no_end;
	p->n += no_start || no_end;
	return no_start || no_end;
}

int writer_init(struct writer *w, const struct timeline *t, const struct export_options *options)
{
	int r;

	*w = (struct writer){ .timeline = t,
			      .level = MIN(options->level, 3u),
			      .extras = options->extras };
	/* One element more, so that an empty table is not NULL. */
	w->ids.forms = calloc(((size_t)t->n_names + 1) * FORM_COUNT, sizeof(uint32_t));
	w->ids.reasons = calloc((size_t)t->n_names + 1, sizeof(uint32_t));
	w->ids.threads = calloc((size_t)t->n_threads + 1, sizeof(uint32_t));
	w->ids.thread_strings = calloc((size_t)t->n_threads + 1, sizeof(uint32_t));
	if (!w->ids.forms || !w->ids.reasons || !w->ids.threads || !w->ids.thread_strings)
		return -ENOMEM;
	r = op_names_make(t, &w->shown);
	if (r >= 0)
		r = order_threads(w);
	if (r >= 0)
		r = index_requests(w);
	return r < 0 ? r : xspace_new(options->max_bytes, &w->xspace);
}

bool writer_shows(const struct writer *w, const struct span *s)
{
	switch (s->kind) {
	case SPAN_RUN:
	case SPAN_BATCH:
	case SPAN_HANDLER:
	case SPAN_LABEL:
		return true;
	case SPAN_EXECUTOR:
		return w->level >= 2 || s->flags & SPAN_CHILD;
	case SPAN_SCHEDULE:
		return w->level >= 3;
	case SPAN_OP:
		return w->level >= (s->flags & SPAN_CHEAP ? 3 : 2);
	default:
		return w->level >= 2;
	}
}

int writer_plane_begin(struct writer *w, enum plane_id id, const char *name)
{
	const struct timeline *t = w->timeline;

	memset(w->ids.stats, 0, sizeof(w->ids.stats));
	memset(w->ids.phases, 0, sizeof(w->ids.phases));
	memset(w->ids.forms, 0, ((size_t)t->n_names + 1) * FORM_COUNT * sizeof(uint32_t));
	memset(w->ids.reasons, 0, (size_t)t->n_names * sizeof(uint32_t));
	memset(w->ids.threads, 0, (size_t)t->n_threads * sizeof(uint32_t));
	memset(w->ids.thread_strings, 0, (size_t)t->n_threads * sizeof(uint32_t));
	return xspace_plane_begin(w->xspace, id, name);
}

int writer_line_begin(struct writer *w, const struct xspace_line *line)
{
	struct xspace_line based = *line;

	based.timestamp_ns = BASE_NS;
	snprintf(w->line, sizeof(w->line), "%s", line->name ?: "");
	w->last_offset = 0;
	w->last_duration = UINT64_MAX;
	return xspace_line_begin(w->xspace, &based);
}

int writer_event(struct writer *w, uint32_t name, uint64_t start_ns, uint64_t end_ns,
		 const struct stats *stats)
{
	const struct timeline *t = w->timeline;
	uint64_t start = MIN(MAX(start_ns, t->start_ns), t->end_ns);
	uint64_t end = MAX(MIN(end_ns, t->end_ns), start);
	uint64_t offset = (start - t->start_ns) * PS_PER_NS, duration = (end - start) * PS_PER_NS;

	if (offset < w->last_offset || (offset == w->last_offset && duration > w->last_duration)) {
		if (!w->n_disordered++) {
			memcpy(w->disordered, w->line, sizeof(w->disordered));
			w->disordered_ns = start - t->start_ns;
		}
		return 0;
	}
	w->last_offset = offset;
	w->last_duration = duration;
	return xspace_event(w->xspace, name, offset, duration, stats->list, stats->n);
}

uint32_t writer_string(struct writer *w, uint32_t *cache, const char *text)
{
	if (!*cache)
		(void)xspace_stat_name(w->xspace, text, cache);
	return *cache;
}

const char *writer_title(const struct thread *thread, char *buffer, size_t size)
{
	int n = snprintf(buffer, size, "%.*s", (int)sizeof(thread->name), thread->name);

	if (thread->tid && n >= 0 && (size_t)n < size)
		snprintf(buffer + n, size - (size_t)n, "/%u", thread->tid);
	return buffer;
}

const char *writer_long_title(const struct writer *w, const struct thread *thread, char *buffer,
			      size_t size)
{
	const struct process *process = &w->timeline->processes[thread->process];
	char title[64];

	if (w->timeline->n_processes <= 1)
		return writer_title(thread, buffer, size);
	snprintf(buffer, size, "[%u] %.*s %s", process->pid, (int)sizeof(process->name),
		 process->name, writer_title(thread, title, sizeof(title)));
	return buffer;
}

/* Readers take none of these names for an operation: they also appear inside operations, whose
 * times must not change. */
static void intern_form(struct writer *w, const struct span_name *n, const char *shown,
			enum form form, uint32_t *id)
{
	struct stats stats = { .n = 0 };
	char words[128], display[128];

	switch (form) {
	case FORM_END_NOT_SEEN:
		stats_add_text(w, &stats, STAT_END, "not seen");
		(void)xspace_event_kind(w->xspace, shown, stats.list, stats.n, id);
		break;
	case FORM_BLOCKED:
		snprintf(words, sizeof(words), "blocked: %.100s", n->name[0] ? n->name : "unknown");
		(void)xspace_event_name(w->xspace, words, NULL, id);
		break;
	case FORM_RUNNABLE:
		(void)xspace_event_name(w->xspace, "waiting for a CPU", NULL, id);
		break;
	case FORM_THROTTLED:
		(void)xspace_event_name(w->xspace, "throttled", NULL, id);
		break;
	case FORM_RUNNING:
	case FORM_EXECUTING:
		/* A space behind the colon: the name of an operation has none. */
		snprintf(words, sizeof(words), "%s%s%.100s",
			 form == FORM_RUNNING ? "running" : "executing", n->name[0] ? ": " : "",
			 n->name);
		snprintf(display, sizeof(display), "%s: %.100s",
			 form == FORM_RUNNING ? "running" : "executing", n->display ?: "");
		(void)xspace_event_name(w->xspace, words, n->display ? display : NULL, id);
		break;
	default:
		(void)xspace_event_name(w->xspace, shown, n->display, id);
		break;
	}
}

uint32_t writer_form(struct writer *w, uint32_t name, enum form form)
{
	static const struct span_name nameless = { .name = (char *)"" };
	const struct timeline *t = w->timeline;
	bool named = name < t->n_names;
	uint32_t *id = &w->ids.forms[(size_t)(named ? name : t->n_names) * FORM_COUNT + form];

	if (!*id)
		intern_form(w, named ? &t->names[name] : &nameless,
			    named ? writer_shown(w, name).name : "", form, id);
	return *id;
}

struct span_name writer_shown(const struct writer *w, uint32_t name)
{
	struct span_name shown = w->timeline->names[name];

	if (w->shown[name])
		shown.name = w->shown[name];
	return shown;
}

void stats_add(struct writer *w, struct stats *stats, enum stat stat, enum xspace_value type,
	       uint64_t value)
{
	uint32_t name = writer_string(w, &w->ids.stats[stat], stat_names[stat]);

	stats->list[stats->n++] =
		(struct xspace_stat){ .name = name, .type = type, .value = value };
}

void stats_add_int(struct writer *w, struct stats *stats, enum stat stat, int64_t value)
{
	stats_add(w, stats, stat, XSPACE_INT64, (uint64_t)value);
}

void stats_add_text(struct writer *w, struct stats *stats, enum stat stat, const char *text)
{
	uint32_t id = 0;

	stats_add(w, stats, stat, XSPACE_STRING, writer_string(w, &id, text));
}

void stats_add_thread(struct writer *w, struct stats *stats, enum stat stat, int64_t thread)
{
	char title[64];
	uint32_t *id;

	if (thread < 0 || thread >= w->timeline->n_threads)
		return;
	id = &w->ids.thread_strings[thread];
	if (!*id)
		writer_title(&w->timeline->threads[thread], title, sizeof(title));
	stats_add(w, stats, stat, XSPACE_STRING, writer_string(w, id, title));
}

void stats_add_quota(struct writer *w, struct stats *stats, const struct quota *quota)
{
	const struct timeline *t = w->timeline;
	char text[QUOTA_TEXT];

	if (!quota || quota->name >= t->n_names)
		return;
	stats_add(w, stats, STAT_CGROUP, XSPACE_STRING,
		  writer_string(w, &w->ids.reasons[quota->name], t->names[quota->name].name));
	stats_add_text(w, stats, STAT_QUOTA, quota_text(quota->quota_ns, quota->period_ns, text));
}

/* Contexts above the range of int64 are the only integers that readers accept as uint64. */
void stats_add_context(struct writer *w, struct stats *stats, enum context_type type,
		       enum stat stat, uint64_t context)
{
	if (!context)
		return;
	stats_add_int(w, stats, stat == STAT_PRODUCER ? STAT_PRODUCER_TYPE : STAT_CONSUMER_TYPE,
		      type);
	stats_add(w, stats, stat, context > INT64_MAX ? XSPACE_UINT64 : XSPACE_INT64, context);
}

void stats_add_truncated(struct writer *w, struct stats *stats, bool truncated_start,
			 bool truncated_end)
{
	if (truncated_start || truncated_end)
		stats_add_text(w, stats, STAT_TRUNCATED,
			       truncated_start && truncated_end ? "start and end"
			       : truncated_start                ? "start"
								: "end");
}

/* An arrow's id has 56 bits, above the two that identify the end of the arrow. */
static void add_arrow(struct writer *w, struct stats *stats, uint64_t number, bool out)
{
	uint64_t id = (w->flow_salt + number) & ((UINT64_C(1) << 56) - 1);

	stats_add_int(w, stats, STAT_FLOW, (int64_t)(id << 2 | (out ? 2 : 1)));
}

void stats_add_arrow(struct writer *w, struct stats *stats, uint32_t request, bool out)
{
	add_arrow(w, stats, (uint64_t)request + 1, out);
}

void stats_add_hop_arrow(struct writer *w, struct stats *stats, uint32_t hop, bool out)
{
	add_arrow(w, stats, (uint64_t)w->timeline->n_requests + hop + 1, out);
}
