/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/search.h"

/* Ids of lines: above all thread ids, below that of the gaps. */
#define LANE_LINE 0x40000000

/* Paths that stand for models with unknown names; all other paths are one model. A client can send
 * any path. */
#define PATH_MODELS_MAX 32

/*
 * Readers count events whose names begin with these words as waiting for input, which is what a
 * request does until it executes. The stats of an input pipeline's stage have the same effect, but
 * also make each phase an operation: they are only written on request.
 */
#define INPUT "IteratorGetNext "

/* Ids of stages: readers keep them beside those of event names, which have 32 bits. */
#define STAGE_BASE (INT64_C(1) << 33)

/* The readers' category of a phase that is a stage of the input pipeline; NULL: it is not. */
static const char *const input_categories[PHASE_COUNT] = {
	[PHASE_ACCEPT_QUEUE] = "Enqueue", [PHASE_READ] = "Read",
	[PHASE_DECODE] = "Preprocessing", [PHASE_QUEUE] = "Enqueue",
	[PHASE_BATCH] = "Enqueue",
};

static const char *const protocols[] = {
	[PROTOCOL_HTTP1] = "HTTP/1",
	[PROTOCOL_HTTP2] = "HTTP/2",
	[PROTOCOL_MARK] = "mark",
	[PROTOCOL_HANDLER] = "handler",
};

uint64_t lanes_batch_context(const struct timeline *t, uint32_t batch)
{
	if (batch >= t->n_batches ||
	    t->batches[batch].flags & (SPAN_TRUNCATED_START | SPAN_TRUNCATED_END))
		return 0;
	return (uint64_t)batch + 1;
}

static const char *request_text(const struct timeline *t, uint32_t index)
{
	return index < t->n_texts ? t->texts[index] : NULL;
}

/* gRPC is known by a status in the answer, or by a path "/service/method" with a dot in the
 * service's name. */
static bool is_grpc(const struct request *q, const char *path)
{
	const char *slash = path && path[0] == '/' ? strchr(path + 1, '/') : NULL,
		   *dot = path ? strchr(path, '.') : NULL;

	if (q->grpc_status >= 0)
		return true;
	return q->protocol == PROTOCOL_HTTP2 && slash && !strchr(slash + 1, '/') && dot &&
	       dot < slash;
}

/* The method's name also comes from the client: it is part of a title only if it consists of a few
 * capital letters. */
static bool is_plain_method(const char *method)
{
	size_t length = method ? strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") : 0;

	return length && length <= 8 && !method[length];
}

/*
 * Readers take names with a colon for operations, and some first words make an event a step or a
 * batch. Since the path comes from the client, it is never the first word, and colons become
 * spaces.
 */
static const char *request_title(const struct timeline *t, const struct request *q, char *buffer,
				 size_t size)
{
	const char *path = request_text(t, q->path), *method = request_text(t, q->method), *slash;

	if (is_grpc(q, path)) {
		slash = path ? strrchr(path, '/') : NULL;
		snprintf(buffer, size, "gRPC %s", slash && slash[1] ? slash + 1 : "request");
	} else if (path && path[0]) {
		snprintf(buffer, size, "%s %s",
			 is_plain_method(method) ? method
			 : path[0] == '/'        ? "HTTP"
						 : "request",
			 path);
	} else {
		snprintf(buffer, size, "%s%srequest", is_plain_method(method) ? method : "",
			 is_plain_method(method) ? " " : "");
	}
	buffer[strcspn(buffer, "?#")] = '\0';
	for (char *p = buffer; *p; p++)
		if (*p == ':' || (unsigned char)*p < ' ')
			*p = ' ';
	return buffer;
}

uint32_t lanes_request_name(struct writer *w, const struct request *q)
{
	char title[112];
	uint32_t id = 0;

	(void)xspace_event_name(w->xspace, request_title(w->timeline, q, title, sizeof(title)),
				NULL, &id);
	return id;
}

/* Readers count a request without a model as one of the first model: so each has a name. */
static void stats_add_model(struct writer *w, struct stats *stats, const struct request *q)
{
	const struct timeline *t = w->timeline;
	const char *model = request_text(t, q->model), *version = request_text(t, q->version);
	const char *path = request_text(t, q->path);
	char text[256];

	if (model) {
		snprintf(text, sizeof(text), "%.200s%s%.50s", model, version ? ":" : "",
			 version ?: "");
	} else if (path && (w->path_models[q->path] || w->n_path_models < PATH_MODELS_MAX)) {
		w->n_path_models += !w->path_models[q->path];
		w->path_models[q->path] = true;
		snprintf(text, sizeof(text), "%.250s", path);
		text[strcspn(text, "?#")] = '\0';
	} else {
		snprintf(text, sizeof(text), "%s", path ? "other paths" : "requests");
	}
	stats_add_text(w, stats, STAT_MODEL, text);
}

static void stats_add_request_text(struct writer *w, struct stats *stats, enum stat stat,
				   uint32_t index)
{
	const char *text = request_text(w->timeline, index);

	if (text)
		stats_add_text(w, stats, stat, text);
}

static void hop_facts(struct writer *w, const struct request *q, struct stats *stats)
{
	const struct timeline *t = w->timeline;
	const struct hop *hop = q->hop ? &t->hops[q->hop - 1] : NULL;
	char text[80];

	if (q->n_calls)
		stats_add_int(w, stats, STAT_CALLS, q->n_calls);
	if (!hop)
		return;
	if (hop->caller)
		snprintf(text, sizeof(text), "request %u of process %u", hop->caller,
			 timeline_pid(t, hop->process));
	else
		snprintf(text, sizeof(text), "process %u", timeline_pid(t, hop->process));
	stats_add_text(w, stats, STAT_SENT_BY, text);
}

/* The facts of a request, which viewers show on a click. */
static void request_facts(struct writer *w, const struct request *q, struct stats *stats)
{
	static const char *const attributions[] = { [ATTRIBUTION_NONE] = "none",
						    [ATTRIBUTION_EXACT] = "exact",
						    [ATTRIBUTION_INFERRED] = "inferred" };
	const struct timeline *t = w->timeline;

	if (q->protocol < ARRAY_SIZE(protocols) && protocols[q->protocol])
		stats_add_text(w, stats, STAT_PROTOCOL, protocols[q->protocol]);
	stats_add_request_text(w, stats, STAT_METHOD, q->method);
	stats_add_request_text(w, stats, STAT_PATH, q->path);
	if (q->status >= 0)
		stats_add_int(w, stats, STAT_STATUS, q->status);
	if (q->grpc_status >= 0)
		stats_add_int(w, stats, STAT_GRPC_STATUS, q->grpc_status);
	if (q->protocol == PROTOCOL_MARK)
		stats_add(w, stats, STAT_REQUEST_ID,
			  q->id > INT64_MAX ? XSPACE_UINT64 : XSPACE_INT64, q->id);
	if (q->connection && !(q->flags & REQUEST_AT_LIBRARY)) {
		stats_add_int(w, stats, STAT_BYTES_IN, (int64_t)q->bytes_in);
		stats_add_int(w, stats, STAT_BYTES_OUT, (int64_t)q->bytes_out);
	}
	if (q->connection) {
		stats_add_int(w, stats, STAT_CONNECTION, (int64_t)q->connection);
		stats_add_int(w, stats, STAT_STREAM, q->stream);
	}
	if (q->local_port)
		stats_add_int(w, stats, STAT_LOCAL_PORT, q->local_port);
	if (q->peer_port)
		stats_add_int(w, stats, STAT_PEER_PORT, q->peer_port);
	if (t->n_processes > 1)
		stats_add_int(w, stats, STAT_PID, t->processes[q->process].pid);
	stats_add_text(w, stats, STAT_ATTRIBUTION,
		       attributions[MIN(q->attribution, ATTRIBUTION_INFERRED)]);
	stats_add_int(w, stats, STAT_RUNS, q->n_runs);
	hop_facts(w, q, stats);
	stats_add_truncated(w, stats, q->flags & REQUEST_TRUNCATED_START,
			    q->flags & REQUEST_TRUNCATED_END);
	if (q->flags & REQUEST_NO_ARRIVAL)
		stats_add_text(w, stats, STAT_ARRIVAL, "not known");
	if (q->flags & REQUEST_AT_LIBRARY)
		stats_add_text(w, stats, STAT_SEEN, "in gRPC's library: encrypted at the socket");
	if (q->flags & (REQUEST_LOST | REQUEST_RESET))
		stats_add_text(w, stats, STAT_INCOMPLETE,
			       q->flags & REQUEST_LOST ? "records were lost" : "broken off");
}

/*
 * Writes the event that the readers' latencies and steps are made of. Events that readers consider
 * part of it make it longer if they end later, as a thread's last piece of a run often does: so
 * runs are linked to it by arrows only. A request that is not whole is not a root, and is not
 * counted.
 */
static int write_root(struct writer *w, uint32_t index)
{
	const struct request *q = &w->timeline->requests[index];
	struct stats stats = { .n = 0 };

	if (!(q->flags & REQUEST_NOT_WHOLE)) {
		stats_add_int(w, &stats, STAT_ROOT, -1);
		stats_add_model(w, &stats, q);
		stats_add_int(w, &stats, STAT_STEP, (int64_t)index + 1);
	}
	stats_add_int(w, &stats, STAT_REQUEST, (int64_t)index + 1);
	if (q->n_runs)
		stats_add_arrow(w, &stats, index, true);
	request_facts(w, q, &stats);
	return writer_event(w, lanes_request_name(w, q), q->start_ns, q->end_ns, &stats);
}

/* All of the execution is one phase on the line, with the threads' activities below it. */
static enum phase shown_phase(uint8_t phase)
{
	return phase < PHASE_COUNT ? phase_texts[phase].stage : PHASE_UNKNOWN;
}

/* A phase of a request: consecutive segments, or none where the segments have a hole. */
struct piece {
	uint64_t start_ns, end_ns;
	uint64_t first, n; /* segments */
	enum phase phase;
};

/* Moves to the piece that begins where this one ends; false at the request's end. */
static bool piece_next(const struct timeline *t, const struct request *q, struct piece *p)
{
	uint64_t at = p->first + p->n, end = q->first_segment + q->n_segments;

	if (p->end_ns >= q->end_ns)
		return false;
	*p = (struct piece){
		.start_ns = p->end_ns, .end_ns = p->end_ns, .first = at, .phase = PHASE_UNKNOWN
	};
	if (at == end || t->segments[at].start_ns > p->start_ns) {
		p->end_ns = at == end ? q->end_ns : MIN(t->segments[at].start_ns, q->end_ns);
		return true;
	}
	p->phase = shown_phase(t->segments[at].phase);
	for (; at < end; at++, p->n++) {
		const struct segment *s = &t->segments[at];

		if (shown_phase(s->phase) != p->phase || s->start_ns > p->end_ns)
			break;
		p->end_ns = MIN(MAX(p->end_ns, s->end_ns), q->end_ns);
	}
	return true;
}

static int write_segment(struct writer *w, const struct segment *s)
{
	static const enum form forms[] = { [ACTIVITY_UNKNOWN] = FORM_EXECUTING,
					   [ACTIVITY_RUNNING] = FORM_RUNNING,
					   [ACTIVITY_RUNNABLE] = FORM_RUNNABLE,
					   [ACTIVITY_BLOCKED] = FORM_BLOCKED,
					   [ACTIVITY_THROTTLED] = FORM_THROTTLED };
	struct stats *stats;

	if (s->activity >= ARRAY_SIZE(forms) || s->activity == ACTIVITY_WAITING ||
	    (s->activity == ACTIVITY_UNKNOWN && s->name == TEXT_NONE))
		return 0;
	stats = writer_stats(w);
	stats_add_thread(w, stats, STAT_THREAD, s->thread == THREAD_NONE ? -1 : (int64_t)s->thread);
	stats_add_thread(w, stats, s->activity == ACTIVITY_RUNNABLE ? STAT_ON_CPU : STAT_WAKER,
			 s->by);
	if (s->activity == ACTIVITY_THROTTLED)
		stats_add_quota(w, stats, timeline_quota(w->timeline, s->name));
	return writer_event(w, writer_form(w, s->name, forms[s->activity]), s->start_ns, s->end_ns,
			    stats);
}

/* What a request does at one time: puts a task into a batch, sends a request to another process. */
struct instants {
	uint64_t next_task, tasks_end; /* in w->tasks */
	uint32_t next_call, calls_end; /* in hops */
	uint32_t request;
};

/* The first entry of the index whose request + 1 is at least this one. */
static uint64_t first_task(const struct writer *w, uint32_t request)
{
	return SEARCH_FIRST(w->timeline->n_batch_tasks, i,
			    w->timeline->batch_tasks[w->tasks[i]].request < request);
}

/* How many rows a task had: known only if all tasks of its batch must have had as many; 0: unknown.
 */
static uint64_t task_size(const struct batch *b)
{
	if (b->n_tasks == 1)
		return b->size;
	return b->size == b->n_tasks ? 1 : 0;
}

/* Readers know it by this name. */
static int write_task(struct writer *w, const struct batch_task *task, uint64_t at)
{
	const struct timeline *t = w->timeline;
	uint64_t context = lanes_batch_context(t, task->batch);
	struct stats stats = { .n = 0 };
	uint32_t name = 0;

	if (!context)
		return 0;
	if (task_size(&t->batches[task->batch]))
		stats_add_int(w, &stats, STAT_TASK_SIZE,
			      (int64_t)task_size(&t->batches[task->batch]));
	stats_add_context(w, &stats, CONTEXT_BATCH, STAT_PRODUCER, context);
	(void)xspace_event_name(w->xspace, "ScheduleWithoutSplit", "put into a batch", &name);
	return writer_event(w, name, at, at, &stats);
}

static int write_call(struct writer *w, uint32_t hop, uint64_t at)
{
	const struct timeline *t = w->timeline;
	const struct request *callee = &t->requests[t->hops[hop].callee - 1];
	struct stats stats = { .n = 0 };
	uint32_t name = 0;

	stats_add_int(w, &stats, STAT_PID, timeline_pid(t, callee->process));
	stats_add_int(w, &stats, STAT_SENT, t->hops[hop].callee);
	if (writer_shows_request(callee))
		stats_add_hop_arrow(w, &stats, hop, true);
	(void)xspace_event_name(w->xspace, "request sent", NULL, &name);
	return writer_event(w, name, at, at, &stats);
}

/* Writes those before that time, in order. */
static int write_instants(struct writer *w, struct instants *list, uint64_t before_ns)
{
	const struct timeline *t = w->timeline;
	const struct request *q = &t->requests[list->request];
	int r = 0;

	while (r >= 0) {
		const struct batch_task *task = list->next_task < list->tasks_end
							? &t->batch_tasks[w->tasks[list->next_task]]
							: NULL;
		bool calls = list->next_call < list->calls_end;
		uint64_t task_ns =
			task ? MIN(MAX(task->queued_ns, q->start_ns), q->end_ns) : UINT64_MAX;
		uint64_t call_ns =
			calls ? MIN(MAX(t->hops[list->next_call].start_ns, q->start_ns), q->end_ns)
			      : UINT64_MAX;

		if (MIN(task_ns, call_ns) >= before_ns)
			break;
		if (task_ns <= call_ns) {
			r = write_task(w, task, task_ns);
			list->next_task++;
		} else {
			r = write_call(w, list->next_call++, call_ns);
		}
	}
	return r;
}

static void stage_stats(struct writer *w, enum phase phase, struct stats *stats)
{
	if (!input_categories[phase])
		return;
	stats_add_int(w, stats, STAT_STAGE_ID, STAGE_BASE + (int64_t)phase);
	stats_add_text(w, stats, STAT_STAGE_NAME, phase_texts[phase].stage_name);
	stats_add_text(w, stats, STAT_STAGE_CATEGORY, input_categories[phase]);
}

/* The name of a phase's event. */
static uint32_t phase_name(struct writer *w, enum phase phase)
{
	const char *shown = phase_texts[phase].stage_name;
	char name[64];
	uint32_t id = 0;

	if (input_categories[phase] && !w->extras.input_stages) {
		snprintf(name, sizeof(name), INPUT "%s", shown);
		(void)xspace_event_name(w->xspace, name, shown, &id);
	} else {
		(void)xspace_event_name(w->xspace, shown, NULL, &id);
	}
	return id;
}

/* At the first phase of a request that another process sent. */
static void add_arrow_of_sender(struct writer *w, const struct request *q, const struct piece *p,
				struct stats *stats)
{
	const struct timeline *t = w->timeline;
	uint32_t caller = q->hop ? t->hops[q->hop - 1].caller : 0;

	if (p->start_ns == q->start_ns && caller && writer_shows_request(&t->requests[caller - 1]))
		stats_add_hop_arrow(w, stats, q->hop - 1, false);
}

static int write_piece(struct writer *w, const struct piece *p, struct instants *instants)
{
	const struct timeline *t = w->timeline;
	uint32_t *name = &w->ids.phases[p->phase];
	struct stats *stats;
	uint32_t thread = p->n ? t->segments[p->first].thread : THREAD_NONE;
	int r = write_instants(w, instants, p->start_ns);

	for (uint64_t i = 1; i < p->n; i++)
		if (t->segments[p->first + i].thread != thread)
			thread = THREAD_NONE;
	if (!*name)
		*name = phase_name(w, p->phase);
	stats = writer_stats(w);
	stats_add_thread(w, stats, STAT_THREAD, thread == THREAD_NONE ? -1 : (int64_t)thread);
	if (w->extras.input_stages)
		stage_stats(w, p->phase, stats);
	add_arrow_of_sender(w, &t->requests[instants->request], p, stats);
	if (r >= 0)
		r = writer_event(w, *name, p->start_ns, p->end_ns, stats);
	for (uint64_t i = 0; i < p->n && w->level >= 2 && r >= 0; i++) {
		const struct segment *s = &t->segments[p->first + i];
		/* The threads' lines show which operations ran; here they would double the trace.
		 */
		bool shown = w->level >= 3 || s->phase != PHASE_EXECUTE_RUNNING;

		r = write_instants(w, instants, s->start_ns);
		if (r >= 0 && shown && s->end_ns > s->start_ns)
			r = write_segment(w, s);
	}
	return r;
}

static int write_request(struct writer *w, uint32_t index)
{
	const struct request *q = &w->timeline->requests[index];
	struct instants instants = { .next_task = first_task(w, index + 1),
				     .tasks_end = first_task(w, index + 2),
				     .next_call = q->first_call,
				     .calls_end = q->first_call + q->n_calls,
				     .request = index };
	struct piece piece = { .end_ns = q->start_ns, .first = q->first_segment };
	int r = write_root(w, index);

	while (r >= 0 && piece_next(w->timeline, q, &piece))
		if (piece.end_ns > piece.start_ns)
			r = write_piece(w, &piece, &instants);
	return r < 0 ? r : write_instants(w, &instants, UINT64_MAX);
}

/* Requests by lane, in order of their start; at[lane] is where a lane ends. */
static void sort_by_lane(const struct timeline *t, uint32_t *at, uint32_t *sorted)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < t->n_requests; i++)
		if (writer_shows_request(&t->requests[i]) && t->requests[i].lane < t->n_lanes)
			at[t->requests[i].lane]++;
	for (uint32_t lane = 0; lane < t->n_lanes; lane++) {
		uint32_t n = at[lane];

		at[lane] = sum;
		sum += n;
	}
	for (uint32_t i = 0; i < t->n_requests; i++)
		if (writer_shows_request(&t->requests[i]) && t->requests[i].lane < t->n_lanes)
			sorted[at[t->requests[i].lane]++] = i;
}

static int write_lane(struct writer *w, uint32_t lane, const uint32_t *requests, uint32_t n)
{
	char name[32];
	int r;

	snprintf(name, sizeof(name), "requests %u", lane + 1);
	r = writer_line_begin(w, &(struct xspace_line){ .id = LANE_LINE + (int64_t)lane,
							.name = name,
							.display_id = (int64_t)lane + 1 });
	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = write_request(w, requests[i]);
	return r < 0 ? r : xspace_line_end(w->xspace);
}

int lanes_write(struct writer *w)
{
	const struct timeline *t = w->timeline;
	_cleanup_free_ uint32_t *at = calloc((size_t)t->n_lanes + 1, sizeof(at[0]));
	_cleanup_free_ uint32_t *sorted = calloc((size_t)t->n_requests + 1, sizeof(sorted[0]));
	int r = 0;

	if (!at || !sorted)
		return -ENOMEM;
	sort_by_lane(t, at, sorted);
	for (uint32_t lane = 0, first = 0; lane < t->n_lanes && r >= 0; first = at[lane++])
		if (at[lane] > first)
			r = write_lane(w, lane, sorted + first, at[lane] - first);
	return r;
}
