#include "daemon/export/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

/* The same on every line: viewers want one small base, and no event at absolute 0, which they take for "not set". */
#define BASE_NS 1000
#define PS_PER_NS 1000

/* Line ids are thread ids, which are below this. */
#define GAPS_LINE 0x7fffffff

enum plane_id { PLANE_HOST = 1, PLANE_SCHED, PLANE_ENVIRONMENT };

/* The type of the contexts that tie a run to its pieces; readers know 2 as an executor's. */
#define CONTEXT_EXECUTOR 2

enum stat {
	STAT_ID,
	STAT_ROOT,
	STAT_PRODUCER_TYPE,
	STAT_PRODUCER,
	STAT_CONSUMER_TYPE,
	STAT_CONSUMER,
	STAT_ITERATION,
	STAT_CUT,
	STAT_END,
	STAT_WAKER,
	STAT_REASON,
	STAT_TID,
	STAT_PID,
	STAT_START_TIME,
	STAT_STOP_TIME,
	STAT_COUNT,
};

static const char *const stat_names[STAT_COUNT] = {
	[STAT_ID] = "id",
	[STAT_ROOT] = "_r",
	[STAT_PRODUCER_TYPE] = "_pt",
	[STAT_PRODUCER] = "_p",
	[STAT_CONSUMER_TYPE] = "_ct",
	[STAT_CONSUMER] = "_c",
	[STAT_ITERATION] = "iter_num",
	[STAT_CUT] = "cut",
	[STAT_END] = "end",
	[STAT_WAKER] = "waker",
	[STAT_REASON] = "reason",
	[STAT_TID] = "tid",
	[STAT_PID] = "pid",
	[STAT_START_TIME] = "profile_start_time",
	[STAT_STOP_TIME] = "profile_stop_time",
};

/* The event names that one entry of the timeline's names can stand for. */
enum form {
	FORM_PLAIN,
	FORM_BLOCKED,
	FORM_BLOCKED_IN_OP,
	FORM_RUNNABLE,
	FORM_RUNNABLE_IN_OP,
	FORM_COUNT,
};

/* Ids of the open plane, 0 where none was asked for yet. */
struct plane_ids {
	uint32_t stats[STAT_COUNT];
	uint32_t *forms;          /* by name and enum form */
	uint32_t *reasons;        /* by name, as a string */
	uint32_t *threads;        /* by thread, its name as an event */
	uint32_t *thread_strings; /* by thread, "name/tid" */
};

struct writer {
	const struct timeline *timeline;
	unsigned int level;
	struct xspace *xspace;
	struct plane_ids ids;
	uint32_t *order;                     /* display id of a thread's line */
	uint64_t last_offset, last_duration; /* on the open line */
	uint64_t n_disordered;
};

/* The stats of one event as they are collected. */
struct stats {
	struct xspace_stat list[XSPACE_EVENT_STATS_MAX];
	unsigned int n;
};

static void writer_done(struct writer *w)
{
	xspace_free(w->xspace);
	free(w->ids.forms);
	free(w->ids.reasons);
	free(w->ids.threads);
	free(w->ids.thread_strings);
	free(w->order);
}

static int compare_threads(const void *a, const void *b, void *timeline)
{
	const struct timeline *t = timeline;
	const struct thread *x = &t->threads[*(const uint32_t *)a], *y = &t->threads[*(const uint32_t *)b];

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Lines are shown by process and tid, in whatever order the threads were first seen. */
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
		w->order[sorted[i]] = i + 1;
	return 0;
}

static int writer_init(struct writer *w, const struct timeline *t, const struct export_options *options)
{
	*w = (struct writer){ .timeline = t, .level = MIN(options->level, 3u) };
	/* One more than needed, so that an empty table is not taken for a failure. */
	w->ids.forms = calloc((size_t)t->n_names * FORM_COUNT + 1, sizeof(uint32_t));
	w->ids.reasons = calloc((size_t)t->n_names + 1, sizeof(uint32_t));
	w->ids.threads = calloc((size_t)t->n_threads + 1, sizeof(uint32_t));
	w->ids.thread_strings = calloc((size_t)t->n_threads + 1, sizeof(uint32_t));
	if (!w->ids.forms || !w->ids.reasons || !w->ids.threads || !w->ids.thread_strings)
		return -ENOMEM;
	return xspace_new(options->max_bytes, &w->xspace);
}

static int plane_begin(struct writer *w, enum plane_id id, const char *name)
{
	const struct timeline *t = w->timeline;

	memset(w->ids.stats, 0, sizeof(w->ids.stats));
	memset(w->ids.forms, 0, (size_t)t->n_names * FORM_COUNT * sizeof(uint32_t));
	memset(w->ids.reasons, 0, (size_t)t->n_names * sizeof(uint32_t));
	memset(w->ids.threads, 0, (size_t)t->n_threads * sizeof(uint32_t));
	memset(w->ids.thread_strings, 0, (size_t)t->n_threads * sizeof(uint32_t));
	return xspace_plane_begin(w->xspace, id, name);
}

/*
 * The functions from here to the events leave errors to the xspace, which keeps the first one and returns it from
 * every later call.
 */
static uint32_t string_id(struct writer *w, uint32_t *cache, const char *text)
{
	if (!*cache)
		(void)xspace_stat_name(w->xspace, text, cache);
	return *cache;
}

static void stats_add(struct writer *w, struct stats *stats, enum stat stat, enum xspace_value type, uint64_t value)
{
	uint32_t name = string_id(w, &w->ids.stats[stat], stat_names[stat]);

	stats->list[stats->n++] = (struct xspace_stat){ .name = name, .type = type, .value = value };
}

static void stats_add_int(struct writer *w, struct stats *stats, enum stat stat, int64_t value)
{
	stats_add(w, stats, stat, XSPACE_INT64, (uint64_t)value);
}

/* Contexts above the range of int64 are the one integer that readers accept as uint64. */
static void stats_add_context(struct writer *w, struct stats *stats, enum stat type, enum stat stat, uint64_t context)
{
	if (!context)
		return;
	stats_add_int(w, stats, type, CONTEXT_EXECUTOR);
	stats_add(w, stats, stat, context > INT64_MAX ? XSPACE_UINT64 : XSPACE_INT64, context);
}

static void stats_add_text(struct writer *w, struct stats *stats, enum stat stat, const char *text)
{
	uint32_t id = 0;

	stats_add(w, stats, stat, XSPACE_STRING, string_id(w, &id, text));
}

static void stats_add_reason(struct writer *w, struct stats *stats, uint32_t name)
{
	const char *reason = w->timeline->names[name].name;

	if (reason[0])
		stats_add(w, stats, STAT_REASON, XSPACE_STRING, string_id(w, &w->ids.reasons[name], reason));
}

/* "name/tid", as the runtime's own profiler names the line of a thread. */
static const char *thread_title(const struct thread *thread, char *buffer, size_t size)
{
	snprintf(buffer, size, "%.*s/%u", (int)sizeof(thread->name), thread->name, thread->tid);
	return buffer;
}

static void stats_add_waker(struct writer *w, struct stats *stats, int64_t waker)
{
	char title[64];
	uint32_t *id;

	if (waker < 0 || waker >= w->timeline->n_threads)
		return;
	id = &w->ids.thread_strings[waker];
	if (!*id)
		thread_title(&w->timeline->threads[waker], title, sizeof(title));
	stats_add(w, stats, STAT_WAKER, XSPACE_STRING, string_id(w, id, title));
}

/* Which form of its name a span has. */
static enum form span_form(const struct span *s)
{
	bool in_op = s->flags & SPAN_IN_OP;

	switch (s->kind) {
	case SPAN_BLOCKED:
		return in_op ? FORM_BLOCKED_IN_OP : FORM_BLOCKED;
	case SPAN_RUNNABLE:
		return in_op ? FORM_RUNNABLE_IN_OP : FORM_RUNNABLE;
	default:
		return FORM_PLAIN;
	}
}

/* Makes "off_cpu/reason:OffCpuBlocked" with only what readers accept in the name of an operation. */
static const char *off_cpu_name(const char *reason, char *buffer, size_t size)
{
	static const char prefix[] = "off_cpu/", suffix[] = ":OffCpuBlocked";
	size_t n = strlen(prefix), end = size - sizeof(suffix);

	memcpy(buffer, prefix, n);
	for (const char *p = reason[0] ? reason : "unknown"; *p && n < end; p++) {
		bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');

		buffer[n++] = letter || strchr("_.->/", *p) ? *p : '_';
	}
	memcpy(buffer + n, suffix, sizeof(suffix));
	return buffer;
}

/*
 * Off CPU inside an operation is named like an operation of its own, so that the operation's self time is its time on a
 * CPU; elsewhere the name must not read as an operation. Viewers show the same words for both.
 */
static uint32_t span_event_name(struct writer *w, const struct span *s)
{
	const struct span_name *name = &w->timeline->names[s->name];
	enum form form = span_form(s);
	uint32_t *id = &w->ids.forms[(size_t)s->name * FORM_COUNT + form];
	char op[128], words[128];

	if (*id)
		return *id;
	snprintf(words, sizeof(words), "blocked: %.100s", name->name[0] ? name->name : "unknown");
	switch (form) {
	case FORM_BLOCKED:
		(void)xspace_event_name(w->xspace, words, NULL, id);
		break;
	case FORM_BLOCKED_IN_OP:
		(void)xspace_event_name(w->xspace, off_cpu_name(name->name, op, sizeof(op)), words, id);
		break;
	case FORM_RUNNABLE:
		(void)xspace_event_name(w->xspace, "waiting for a CPU", NULL, id);
		break;
	case FORM_RUNNABLE_IN_OP:
		(void)xspace_event_name(w->xspace, "off_cpu/runqueue:OffCpuRunnable", "waiting for a CPU", id);
		break;
	default:
		(void)xspace_event_name(w->xspace, name->name, name->display, id);
		break;
	}
	return *id;
}

static bool span_shown(const struct writer *w, const struct span *s)
{
	switch (s->kind) {
	case SPAN_RUN:
		return true;
	case SPAN_SCHEDULE:
		return w->level >= 3;
	case SPAN_OP:
		return w->level >= (s->flags & SPAN_CHEAP ? 3 : 2);
	default:
		return w->level >= 2;
	}
}

static void span_stats(struct writer *w, const struct span *s, struct stats *stats)
{
	bool off_cpu = s->kind == SPAN_BLOCKED || s->kind == SPAN_RUNNABLE;
	static const char *const cuts[] = {
		[SPAN_CUT_START] = "start", [SPAN_CUT_END] = "end", [SPAN_CUT_START | SPAN_CUT_END] = "start and end"
	};
	unsigned int cut = s->flags & (SPAN_CUT_START | SPAN_CUT_END);

	if ((s->kind == SPAN_RUN || s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE) && s->id >= 0)
		stats_add_int(w, stats, STAT_ID, s->id);
	if (s->kind == SPAN_RUN) {
		stats_add_int(w, stats, STAT_ROOT, 1);
		stats_add_context(w, stats, STAT_PRODUCER_TYPE, STAT_PRODUCER, s->context);
	}
	if (s->kind == SPAN_EXECUTOR)
		stats_add_int(w, stats, STAT_ITERATION, 0);
	if (s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE)
		stats_add_context(w, stats, STAT_CONSUMER_TYPE, STAT_CONSUMER, s->context);
	if (s->kind == SPAN_RUNNABLE)
		stats_add_reason(w, stats, s->name);
	if (off_cpu)
		stats_add_waker(w, stats, s->id);
	if (cut)
		stats_add_text(w, stats, STAT_CUT, cuts[cut]);
	if (s->flags & SPAN_END_BOUND)
		stats_add_text(w, stats, STAT_END, s->kind == SPAN_OP && w->timeline->ops_at_entry ? "next entry" : "not seen");
}

/* Adds an event to the open line, unless it comes before its predecessor: such lines break the readers' nesting. */
static int add_event(struct writer *w, uint32_t name, uint64_t start_ns, uint64_t end_ns, const struct stats *stats)
{
	const struct timeline *t = w->timeline;
	uint64_t start = MIN(MAX(start_ns, t->start_ns), t->end_ns);
	uint64_t end = MAX(MIN(end_ns, t->end_ns), start);
	uint64_t offset = (start - t->start_ns) * PS_PER_NS, duration = (end - start) * PS_PER_NS;

	if (offset < w->last_offset || (offset == w->last_offset && duration > w->last_duration)) {
		w->n_disordered++;
		return 0;
	}
	w->last_offset = offset;
	w->last_duration = duration;
	return xspace_event(w->xspace, name, offset, duration, stats->list, stats->n);
}

static int line_begin(struct writer *w, const struct xspace_line *line)
{
	w->last_offset = 0;
	w->last_duration = UINT64_MAX;
	return xspace_line_begin(w->xspace, line);
}

static int thread_line_begin(struct writer *w, uint32_t index)
{
	const struct timeline *t = w->timeline;
	const struct thread *thread = &t->threads[index];
	const struct process *process = &t->processes[thread->process];
	char name[64], display_name[128];

	thread_title(thread, name, sizeof(name));
	snprintf(display_name, sizeof(display_name), "[%u] %.*s %s", process->pid, (int)sizeof(process->name),
		 process->name, name);
	return line_begin(w, &(struct xspace_line){
		.id = thread->tid,
		.name = name,
		.display_name = t->n_processes > 1 ? display_name : NULL,
		.display_id = w->order[index],
		.timestamp_ns = BASE_NS,
	});
}

/* Writes the line of one thread's spans, when any of them is shown. */
static int write_thread(struct writer *w, const struct span *spans, uint64_t n_spans)
{
	bool open = false;
	int r;

	for (const struct span *s = spans; s < spans + n_spans; s++) {
		struct stats stats = { .n = 0 };

		if (!span_shown(w, s))
			continue;
		if (!open) {
			r = thread_line_begin(w, s->thread);
			if (r < 0)
				return r;
			open = true;
		}
		span_stats(w, s, &stats);
		r = add_event(w, span_event_name(w, s), s->start_ns, s->end_ns, &stats);
		if (r < 0)
			return r;
	}
	return open ? xspace_line_end(w->xspace) : 0;
}

/* What was not captured any more, and from when on, on a line of its own before the threads'. */
static int write_gaps(struct writer *w)
{
	const struct timeline *t = w->timeline;
	int r = 0;

	for (uint32_t i = 0; i < t->n_gaps && r >= 0; i++) {
		struct stats stats = { .n = 0 };
		uint32_t name = 0;

		if (!i)
			r = line_begin(w, &(struct xspace_line){ .id = GAPS_LINE, .name = "not captured", .timestamp_ns = BASE_NS });
		(void)xspace_event_name(w->xspace, t->gaps[i].text, NULL, &name);
		if (r >= 0)
			r = add_event(w, name, t->gaps[i].start_ns, t->end_ns, &stats);
	}
	return r < 0 || !t->n_gaps ? r : xspace_line_end(w->xspace);
}

static int write_host(struct writer *w)
{
	const struct timeline *t = w->timeline;
	int r = plane_begin(w, PLANE_HOST, "/host:CPU");

	if (r >= 0)
		r = write_gaps(w);

	for (uint64_t i = 0, end; i < t->n_spans && r >= 0; i = end) {
		for (end = i + 1; end < t->n_spans && t->spans[end].thread == t->spans[i].thread;)
			end++;
		r = write_thread(w, t->spans + i, end - i);
	}
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

static int write_slice(struct writer *w, const struct cpu_slice *slice)
{
	const struct thread *thread = &w->timeline->threads[slice->thread];
	uint32_t *id = &w->ids.threads[slice->thread];
	struct stats stats = { .n = 0 };
	char name[sizeof(thread->name) + 1];

	if (!*id) {
		snprintf(name, sizeof(name), "%.*s", (int)sizeof(thread->name), thread->name);
		(void)xspace_event_name(w->xspace, name[0] ? name : "unnamed thread", NULL, id);
	}
	stats_add_int(w, &stats, STAT_TID, thread->tid);
	stats_add_int(w, &stats, STAT_PID, w->timeline->processes[thread->process].pid);
	stats_add_reason(w, &stats, slice->reason);
	stats_add_waker(w, &stats, slice->waker);
	return add_event(w, *id, slice->start_ns, slice->end_ns, &stats);
}

static int write_sched(struct writer *w)
{
	const struct timeline *t = w->timeline;
	int r = plane_begin(w, PLANE_SCHED, "/device:CUSTOM:sched");

	for (uint64_t i = 0; i < t->n_slices && r >= 0; i++) {
		bool first = !i || t->slices[i - 1].cpu != t->slices[i].cpu;
		bool last = i + 1 == t->n_slices || t->slices[i + 1].cpu != t->slices[i].cpu;
		unsigned int cpu = t->slices[i].cpu;
		char name[16];

		snprintf(name, sizeof(name), "CPU %u", cpu);
		if (first)
			r = line_begin(w, &(struct xspace_line){ .id = cpu, .name = name, .display_id = cpu + 1,
								 .timestamp_ns = BASE_NS });
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
	int r = plane_begin(w, PLANE_ENVIRONMENT, "Task Environment");

	if (r < 0)
		return r;
	stats_add(w, &stats, STAT_START_TIME, XSPACE_UINT64, t->start_unix_ns);
	stats_add(w, &stats, STAT_STOP_TIME, XSPACE_UINT64, t->start_unix_ns + (t->end_ns - t->start_ns));
	for (unsigned int i = 0; i < stats.n && r >= 0; i++)
		r = xspace_plane_stat(w->xspace, &stats.list[i]);
	return r < 0 ? r : xspace_plane_end(w->xspace);
}

static int write_messages(struct writer *w, const struct export_options *options)
{
	const struct timeline *t = w->timeline;
	struct xspace *x = w->xspace;
	char text[160];

	if (options->hostname)
		(void)xspace_hostname(x, options->hostname);
	for (unsigned int i = 0; i < options->n_errors; i++)
		(void)xspace_error(x, options->errors[i]);
	for (unsigned int i = 0; i < options->n_warnings; i++)
		(void)xspace_warning(x, options->warnings[i]);
	for (uint32_t i = 0; i < t->n_warnings; i++)
		(void)xspace_warning(x, t->warnings[i]);
	if (w->n_disordered) {
		snprintf(text, sizeof(text), "%llu events were out of order on their line and are not shown.",
			 (unsigned long long)w->n_disordered);
		(void)xspace_warning(x, text);
	}
	if (!xspace_n_events(x)) {
		if (t->n_spans)
			snprintf(text, sizeof(text),
				 "No activity is shown at host tracer level %u, but %llu events were seen: "
				 "capture with a higher level.",
				 w->level, (unsigned long long)t->n_spans);
		else
			snprintf(text, sizeof(text), "No activity of the profiled processes was seen in the window.");
		return xspace_warning(x, text);
	}
	return 0;
}

int export_xspace(const struct timeline *t, const struct export_options *options, struct xspace_result *ret)
{
	_cleanup_(writer_done) struct writer w;
	int r = writer_init(&w, t, options);

	if (r < 0)
		return r;
	r = order_threads(&w);
	if (r < 0)
		return r;
	if (w.level >= 1) {
		r = write_host(&w);
		if (r < 0)
			return r;
	}
	if (w.level >= 3 && t->n_slices) {
		r = write_sched(&w);
		if (r < 0)
			return r;
	}
	r = write_environment(&w);
	if (r < 0)
		return r;
	(void)write_messages(&w, options);
	return xspace_finish(w.xspace, ret);
}
