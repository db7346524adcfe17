/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/xspace/counters.h"
#include "daemon/export/xspace/device.h"
#include "daemon/export/xspace/diagnostics.h"
#include "daemon/export/xspace/lanes.h"
#include "daemon/export/xspace/memory.h"
#include "daemon/export/xspace/metadata.h"
#include "daemon/export/xspace/samples.h"
#include "daemon/export/xspace/startups.h"
#include "daemon/export/xspace/writer.h"
#include "lib/base/macro.h"

/* Line ids are thread ids and those of lanes, which are below this. */
#define GAPS_LINE 0x7fffffff

/* The state of a thread's line. */
struct thread_line {
	uint64_t batch_end_ns;
	uint64_t request_end_ns;    /* of the last run with a link to its request */
	uint32_t request;           /* index + 1 */
	const struct batch *inputs; /* a batch whose inputs are not shown yet */
};

static void stats_add_reason(struct writer *w, struct stats *stats, uint32_t name)
{
	const char *reason = w->timeline->names[name].name;

	if (reason[0])
		stats_add(w, stats, STAT_REASON, XSPACE_STRING,
			  writer_string(w, &w->ids.reasons[name], reason));
}

/* The form of a span's name. */
static enum form span_form(const struct span *s)
{
	switch (s->kind) {
	case SPAN_BLOCKED:
		return FORM_BLOCKED;
	case SPAN_RUNNABLE:
		return FORM_RUNNABLE;
	case SPAN_THROTTLED:
		return FORM_THROTTLED;
	case SPAN_EXECUTOR:
		return s->flags & SPAN_END_NOT_SEEN ? FORM_END_NOT_SEEN : FORM_PLAIN;
	default:
		return FORM_PLAIN;
	}
}

/* How a run without a request is shown. */
enum run_role {
	RUN_INSIDE,  /* within something that is counted: a request, a batch, or a run */
	RUN_REQUEST, /* of a process whose requests are not seen: the run itself is shown as one */
	RUN_ORPHAN,
};

static enum run_role run_role(const struct writer *w, const struct span *s,
			      const struct thread_line *line)
{
	if (s->request || s->start_ns < line->batch_end_ns || s->flags & SPAN_INNER)
		return RUN_INSIDE;
	return w->has_requests[w->timeline->threads[s->thread].process] ? RUN_ORPHAN : RUN_REQUEST;
}

/* Readers leave out roots without a model if any root, such as a request of another process, has a
 * model. A run that is not whole is not a root. */
static void root_stats(struct writer *w, const struct span *s, struct stats *stats)
{
	const struct timeline *t = w->timeline;
	const struct process *process = &t->processes[t->threads[s->thread].process];
	char model[64];

	if (counted_in_part(&w->runs, s->flags & SPAN_TRUNCATED_START,
			    s->flags & (SPAN_TRUNCATED_END | SPAN_END_NOT_SEEN)))
		return;
	stats_add_int(w, stats, STAT_ROOT, 1);
	if (!t->n_requests)
		return;
	snprintf(model, sizeof(model), "runs of %.*s/%u", (int)sizeof(process->name), process->name,
		 process->pid);
	stats_add_text(w, stats, STAT_MODEL, model);
}

/* The numeric value of a key in the arguments "key=value,key=value". */
static bool find_number(const char *arguments, const char *key, int64_t *ret)
{
	size_t size = strlen(key);

	for (const char *at = arguments; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		char *end;
		long long number;

		at += strspn(at, " ");
		if (strncmp(at, key, size) || at[size] != '=')
			continue;
		errno = 0;
		number = strtoll(at + size + 1, &end, 10);
		*ret = number;
		return !errno && end > at + size + 1 && (*end == ',' || !*end);
	}
	return false;
}

/* A label with a step number is a step, like one of the runtime's own Trace, unless the process
 * serves: then requests are the steps. */
static void label_stats(struct writer *w, const struct span *s, struct stats *stats)
{
	const struct timeline *t = w->timeline;
	const char *arguments =
		s->arguments >= 0 && s->arguments < t->n_texts ? t->texts[s->arguments] : NULL;
	int64_t number;

	if (!arguments)
		return;
	stats_add_text(w, stats, STAT_ARGUMENTS, arguments);
	if (find_number(arguments, "request_id", &number))
		stats_add_int(w, stats, STAT_REQUEST_ID, number);
	if (!find_number(arguments, "step_num", &number) || s->flags & SPAN_NOT_WHOLE)
		return;
	if (!w->serves[t->threads[s->thread].process])
		stats_add_int(w, stats, STAT_ROOT, 1);
	stats_add_int(w, stats, STAT_STEP, number);
}

/* The number of the run, or of the request that it is marked as; -1: none. */
static int64_t run_number(const struct span *s)
{
	if (s->kind == SPAN_RUN && s->flags & SPAN_MARK)
		return s->request_id;
	return s->kind == SPAN_RUN || s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE ? s->step
										       : -1;
}

/* What is shown as the end of a span whose end was not seen. */
static const char *end_text(const struct timeline *t, const struct span *s)
{
	if (s->flags & SPAN_END_INFERRED)
		return "inferred";
	return s->kind == SPAN_OP && t->ops_at_entry ? "next entry" : "not seen";
}

static void span_stats(struct writer *w, const struct span *s, const struct thread_line *line,
		       struct stats *stats)
{
	if (run_number(s) >= 0)
		stats_add_int(w, stats, STAT_ID, run_number(s));
	if (s->kind == SPAN_LABEL)
		label_stats(w, s, stats);
	if (s->kind == SPAN_RUN) {
		enum run_role role = run_role(w, s, line);

		if (role == RUN_REQUEST)
			root_stats(w, s, stats);
		else if (role == RUN_ORPHAN)
			stats_add_text(w, stats, STAT_ATTRIBUTION, "orphan");
		stats_add_context(w, stats, CONTEXT_EXECUTOR, STAT_PRODUCER, s->context);
	}
	if (s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE)
		stats_add_context(w, stats, CONTEXT_EXECUTOR, STAT_CONSUMER, s->context);
	if (s->kind == SPAN_RUNNABLE)
		stats_add_reason(w, stats, s->name);
	if (s->kind == SPAN_BLOCKED)
		stats_add_thread(w, stats, STAT_WAKER, s->waker);
	if (s->kind == SPAN_RUNNABLE)
		stats_add_thread(w, stats, STAT_WAKER, s->cpu_user);
	if (s->kind == SPAN_THROTTLED && s->quota >= 0 && s->quota < w->timeline->n_quotas)
		stats_add_quota(w, stats, &w->timeline->quotas[s->quota]);
	stats_add_truncated(w, stats, s->flags & SPAN_TRUNCATED_START,
			    s->flags & SPAN_TRUNCATED_END);
	if (s->flags & SPAN_END_NOT_SEEN && (s->kind != SPAN_EXECUTOR || s->flags & SPAN_CHILD))
		stats_add_text(w, stats, STAT_END, end_text(w->timeline, s));
}

static int thread_line_begin(struct writer *w, uint32_t index)
{
	const struct timeline *t = w->timeline;
	const struct thread *thread = &t->threads[index];
	char name[64], display_name[128];

	return writer_line_begin(
		w, &(struct xspace_line){
			   .id = thread->tid,
			   .name = writer_title(thread, name, sizeof(name)),
			   .display_name = t->n_processes > 1
						   ? writer_long_title(w, thread, display_name,
								       sizeof(display_name))
						   : NULL,
			   .display_id = w->order[index],
		   });
}

/*
 * Writes an event with the request's name around its run. It has the arrow from the request, and
 * the run has those to its pieces: readers draw only one arrow of an event that has both.
 */
static int write_link(struct writer *w, const struct span *s, struct thread_line *line)
{
	const struct timeline *t = w->timeline;
	struct stats stats = { .n = 0 };
	const struct request *q;

	if (!s->request || s->request > t->n_requests ||
	    (s->request == line->request && s->start_ns < line->request_end_ns))
		return 0;
	q = &t->requests[s->request - 1];
	if (!writer_shows_request(q))
		return 0;
	line->request = s->request;
	line->request_end_ns = s->end_ns;
	stats_add_int(w, &stats, STAT_REQUEST, s->request);
	stats_add_text(w, &stats, STAT_ATTRIBUTION,
		       s->flags & SPAN_INFERRED ? "inferred" : "exact");
	stats_add_arrow(w, &stats, s->request - 1, false);
	return writer_event(w, lanes_request_name(w, q), s->start_ns, s->end_ns, &stats);
}

/* Readers find padding in an event of this name inside that of the batch. It is an instant, since
 * its duration is unknown. */
static int write_inputs(struct writer *w, struct thread_line *line, uint64_t before_ns)
{
	const struct batch *b = line->inputs;
	struct stats *stats;
	uint32_t name = 0;

	if (!b || b->start_ns >= before_ns)
		return 0;
	line->inputs = NULL;
	stats = writer_stats(w);
	stats_add_int(w, stats, STAT_PADDED_SIZE, (int64_t)b->padded);
	stats_add_int(w, stats, STAT_PADDING, (int64_t)(b->padded - b->size));
	(void)xspace_event_name(w->xspace, "ConcatInputTensors", NULL, &name);
	return writer_event(w, name, b->start_ns, b->start_ns, stats);
}

/* When the first request of a batch was answered, UINT64_MAX: none was within the window. */
static uint64_t first_answer(const struct timeline *t, const struct batch *b)
{
	uint64_t first = UINT64_MAX;

	for (uint64_t i = b->first_task; i < b->first_task + b->n_tasks; i++) {
		uint32_t request = t->batch_tasks[i].request;
		const struct request *q =
			request && request <= t->n_requests ? &t->requests[request - 1] : NULL;

		if (q && !(q->flags & REQUEST_NOT_WHOLE) && q->end_ns > b->start_ns)
			first = MIN(first, q->end_ns);
	}
	return first;
}

static void batch_stats(struct writer *w, const struct span *s, const struct batch *b,
			struct stats *stats)
{
	stats_add_int(w, stats, STAT_REQUESTS, (int64_t)b->n_tasks);
	if (b->size)
		stats_add_int(w, stats, STAT_BATCH_SIZE, (int64_t)b->size);
	stats_add_truncated(w, stats, s->flags & SPAN_TRUNCATED_START,
			    s->flags & SPAN_TRUNCATED_END);
	if (s->flags & SPAN_END_NOT_SEEN)
		stats_add_text(w, stats, STAT_END, "not seen");
}

/*
 * Readers know batches by the name ProcessBatch, and assume that a request lasts at least as long
 * as its batch. A batch may go on after its first requests are answered: then the event of that
 * name ends with the first answer, inside an event for the whole. next is the next span of the
 * thread or NULL: an event that begins at the same time cannot be longer than it.
 */
static int write_batch(struct writer *w, const struct span *s, const struct span *next,
		       struct thread_line *line)
{
	const struct timeline *t = w->timeline;
	const struct batch *b = &t->batches[s->batch];
	uint64_t context = lanes_batch_context(t, (uint32_t)s->batch);
	uint64_t answer = next && next->start_ns == s->start_ns ? UINT64_MAX : first_answer(t, b);
	struct stats stats = { .n = 0 };
	uint32_t whole = 0, processing = 0, work = 0;
	int r = 0;

	line->batch_end_ns = s->end_ns;
	batch_stats(w, s, b, &stats);
	if (!context || answer < s->end_ns) {
		(void)xspace_event_name(w->xspace, "batch", NULL, &whole);
		r = writer_event(w, whole, s->start_ns, s->end_ns, &stats);
	}
	if (!context || r < 0)
		return r;
	stats_add_int(w, &stats, STAT_STEP, (int64_t)context);
	stats_add_context(w, &stats, CONTEXT_BATCH, STAT_CONSUMER, context);
	(void)xspace_event_name(w->xspace, "ProcessBatch", NULL, &processing);
	if (b->size && b->padded >= b->size)
		line->inputs = b;
	r = writer_event(w, processing, s->start_ns, MIN(s->end_ns, answer), &stats);
	if (r < 0)
		return r;
	/* Readers show no step without an event in it. It has the arrow to the piece in a child. */
	stats.n = 0;
	if (s->flags & SPAN_CHILD)
		stats_add_context(w, &stats, CONTEXT_EXECUTOR, STAT_PRODUCER, s->context);
	(void)xspace_event_name(w->xspace, "process", NULL, &work);
	return writer_event(w, work, s->start_ns, MIN(s->end_ns, answer), &stats);
}

static int write_span(struct writer *w, const struct span *s, const struct span *next,
		      struct thread_line *line)
{
	struct stats *stats;
	int r = write_inputs(w, line, s->start_ns);

	if (r < 0)
		return r;
	if (s->kind == SPAN_BATCH && s->batch >= 0 && s->batch < w->timeline->n_batches)
		return write_batch(w, s, next, line);
	if (s->kind == SPAN_RUN) {
		r = write_link(w, s, line);
		if (r < 0)
			return r;
	}
	stats = writer_stats(w);
	span_stats(w, s, line, stats);
	return writer_event(w, writer_form(w, s->name, span_form(s)), s->start_ns, s->end_ns,
			    stats);
}

/* Writes the line of one thread's spans, if any of them is shown. */
static int write_thread(struct writer *w, const struct span *spans, uint64_t n_spans)
{
	struct thread_line line = { .request = 0 };
	const struct span *end = spans + n_spans;
	bool open = false;
	int r;

	for (const struct span *s = spans; s < end; s++) {
		if (!writer_shows(w, s))
			continue;
		if (!open) {
			r = thread_line_begin(w, s->thread);
			if (r < 0)
				return r;
			open = true;
		}
		r = write_span(w, s, s + 1 < end ? s + 1 : NULL, &line);
		if (r < 0)
			return r;
	}
	if (!open)
		return 0;
	r = write_inputs(w, &line, UINT64_MAX);
	return r < 0 ? r : xspace_line_end(w->xspace);
}

/* Writes what was not recorded, and when, on a line before those of the threads. */
static int write_gaps(struct writer *w)
{
	const struct timeline *t = w->timeline;
	int r = 0;

	for (uint32_t i = 0; i < t->n_gaps && r >= 0; i++) {
		struct stats stats = { .n = 0 };
		uint32_t name = 0;

		if (!i)
			r = writer_line_begin(w, &(struct xspace_line){ .id = GAPS_LINE,
									.name = "not captured" });
		(void)xspace_event_name(w->xspace, t->gaps[i].text, NULL, &name);
		if (r >= 0)
			r = writer_event(w, name, t->gaps[i].start_ns,
					 t->gaps[i].end_ns ?: t->end_ns, &stats);
	}
	return r < 0 || !t->n_gaps ? r : xspace_line_end(w->xspace);
}

static int write_host(struct writer *w, const struct startups *startups)
{
	const struct timeline *t = w->timeline;
	int r = writer_plane_begin(w, PLANE_HOST, "/host:CPU");

	if (r >= 0)
		r = write_gaps(w);
	if (r >= 0)
		r = lanes_write(w);
	for (uint64_t i = 0, end; i < t->n_spans && r >= 0; i = end) {
		for (end = i + 1; end < t->n_spans && t->spans[end].thread == t->spans[i].thread;)
			end++;
		r = write_thread(w, t->spans + i, end - i);
	}
	if (r >= 0)
		r = counters_write(w);
	if (r >= 0)
		r = memory_write(w);
	if (r >= 0)
		r = samples_write(w);
	if (r >= 0)
		r = startups_write(w, startups);
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

static int write_slice(struct writer *w, const struct cpu_slice *slice)
{
	const struct thread *thread = &w->timeline->threads[slice->thread];
	uint32_t *id = &w->ids.threads[slice->thread];
	struct stats *stats = writer_stats(w);
	char name[sizeof(thread->name) + 1];

	if (!*id) {
		snprintf(name, sizeof(name), "%.*s", (int)sizeof(thread->name), thread->name);
		(void)xspace_event_name(w->xspace, name[0] ? name : "unnamed thread", NULL, id);
	}
	stats_add_int(w, stats, STAT_TID, thread->tid);
	stats_add_int(w, stats, STAT_PID, w->timeline->processes[thread->process].pid);
	stats_add_reason(w, stats, slice->reason);
	stats_add_thread(w, stats, STAT_WAKER, slice->waker);
	return writer_event(w, *id, slice->start_ns, slice->end_ns, stats);
}

static int write_sched(struct writer *w)
{
	const struct timeline *t = w->timeline;
	int r = writer_plane_begin(w, PLANE_SCHED, "/device:CUSTOM:sched");

	for (uint64_t i = 0; i < t->n_slices && r >= 0; i++) {
		bool first = !i || t->slices[i - 1].cpu != t->slices[i].cpu;
		bool last = i + 1 == t->n_slices || t->slices[i + 1].cpu != t->slices[i].cpu;
		unsigned int cpu = t->slices[i].cpu;
		char name[16];

		snprintf(name, sizeof(name), "CPU %u", cpu);
		if (first)
			r = writer_line_begin(w, &(struct xspace_line){ .id = cpu,
									.name = name,
									.display_id = cpu + 1 });
		if (r >= 0)
			r = write_slice(w, &t->slices[i]);
		if (r >= 0 && last)
			r = xspace_line_end(w->xspace);
	}
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

static int write_environment(struct writer *w)
{
	const struct timeline *t = w->timeline;
	struct stats stats = { .n = 0 };
	int r = writer_plane_begin(w, PLANE_ENVIRONMENT, "Task Environment");

	if (r < 0)
		return r;
	stats_add(w, &stats, STAT_START_TIME, XSPACE_UINT64, t->start_unix_ns);
	stats_add(w, &stats, STAT_STOP_TIME, XSPACE_UINT64,
		  t->start_unix_ns + (t->end_ns - t->start_ns));
	for (unsigned int i = 0; i < stats.n && r >= 0; i++)
		r = xspace_plane_stat(w->xspace, &stats.list[i]);
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

int export_xspace(const struct timeline *t, const struct export_options *options,
		  struct xspace_result *ret)
{
	_cleanup_(writer_done) struct writer w;
	int r = writer_init(&w, t, options);

	if (r < 0)
		return r;
	if (w.level >= 1) {
		r = write_host(&w, options->startups);
		if (r >= 0)
			r = metadata_write(&w, options->modules);
		if (r < 0)
			return r;
	}
	if (w.level >= 3 && t->n_slices) {
		r = write_sched(&w);
		if (r < 0)
			return r;
	}
	if (options->extras.device_plane) {
		r = device_write(&w);
		if (r < 0)
			return r;
	}
	r = write_environment(&w);
	if (r < 0)
		return r;
	(void)diagnostics_write(&w, options);
	return xspace_finish(w.xspace, ret);
}

static void free_exported(struct exported *exported)
{
	xspace_result_done(&(struct xspace_result){ .chunks = exported->chunks,
						    .n_chunks = exported->n_chunks,
						    .blocks = exported->memory });
}

static int make(const struct timeline *t, const struct export_options *options,
		struct exported *ret)
{
	struct xspace_result result = {};
	int r = export_xspace(t, options, &result);

	if (r < 0)
		return r;
	*ret = (struct exported){ .chunks = result.chunks,
				  .n_chunks = result.n_chunks,
				  .size = result.size,
				  .n_events = result.n_events,
				  .memory = result.blocks,
				  .free = free_exported };
	return 0;
}

static const char *warning(const struct timeline *t, const struct export_options *options)
{
	return options->extras.device_plane ? device_warning(t, options->level) : NULL;
}

const struct exporter xspace_exporter = { .name = "xspace", .make = make, .warning = warning };
