/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/summary/memory_use.h"
#include "daemon/export/xspace/lanes.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"

/* Ids of lines: above those of lanes, below that of the gaps. */
#define COUNTER_LINE 0x7ffffff0
/* What readers look for. */
#define COUNTER_LINE_NAME "_counters_"

enum counter {
	COUNTER_IN_FLIGHT,
	COUNTER_QUEUE,
	COUNTER_BATCH_QUEUE,
	COUNTER_RUNNABLE,
	COUNTER_WAITING,
	COUNTER_THROTTLED,
	COUNTER_MEMORY,
	/* of the first allocator, and so on */ COUNTER_COUNT = COUNTER_MEMORY + ALLOCATOR_COUNT
};

/* Viewers have room for one series in each. */
static const struct {
	const char *name;
	unsigned int level; /* host_tracer_level that it is shown from */
	enum stat series;
} counters[COUNTER_COUNT] = {
	[COUNTER_IN_FLIGHT] = { "requests in flight", 1, STAT_REQUESTS },
	[COUNTER_QUEUE] = { "requests queued", 1, STAT_REQUESTS },
	[COUNTER_BATCH_QUEUE] = { "tasks in batch queues", 1, STAT_TASKS },
	[COUNTER_RUNNABLE] = { "runnable threads", 2, STAT_THREADS },
	[COUNTER_WAITING] = { "threads waiting for a CPU", 2, STAT_THREADS },
	[COUNTER_THROTTLED] = { "throttled threads", 2, STAT_THREADS },
	[COUNTER_MEMORY + ALLOCATOR_CPU] = { "allocated: cpu", 1, STAT_BYTES },
	[COUNTER_MEMORY + ALLOCATOR_BFC] = { "allocated: BFC", 1, STAT_BYTES },
};

struct change {
	uint64_t at_ns; /* since the window's start */
	int64_t by;
};

struct changes {
	const struct timeline *timeline;
	struct memory_use memory[ALLOCATOR_COUNT];
	struct change *list;
	size_t n, allocated;
	int64_t begin; /* the value when the window began */
	uint64_t until_ns;
};

/* Since when a kind of probes other than executors and operations was shed: the curves stop there.
 */
static uint64_t known_until(const struct timeline *t)
{
	uint64_t until = t->end_ns;

	for (uint32_t i = 0; i < t->n_gaps; i++)
		if (t->gaps[i].of < GAP_OF_EXECUTORS)
			until = MIN(until, t->gaps[i].start_ns);
	return until;
}

static int changes_note(struct changes *c, uint64_t at_ns, int64_t by)
{
	if (at_ns >= c->until_ns && c->until_ns < c->timeline->end_ns)
		return 0;
	if (array_reserve(&c->list, c->n, &c->allocated, sizeof(c->list[0]), 1) < 0)
		return -ENOMEM;
	c->list[c->n++] = (struct change){ .at_ns = at_ns - c->timeline->start_ns, .by = by };
	return 0;
}

/* Adds one from start_ns until end_ns. */
static int changes_add(struct changes *c, uint64_t start_ns, uint64_t end_ns)
{
	const struct timeline *t = c->timeline;
	uint64_t start = MAX(start_ns, t->start_ns), end = MIN(end_ns, t->end_ns);
	int r;

	if (start >= end)
		return 0;
	r = changes_note(c, start, 1);
	return r < 0 ? r : changes_note(c, end, -1);
}

static int add_requests(struct changes *c, bool queued)
{
	const struct timeline *t = c->timeline;
	int r = 0;

	for (uint32_t i = 0; i < t->n_requests && r >= 0; i++) {
		const struct request *q = &t->requests[i];

		if (!writer_shows_request(q))
			continue;
		if (!queued)
			r = changes_add(c, q->start_ns, q->end_ns);
		for (uint64_t k = q->first_segment;
		     queued && k < q->first_segment + q->n_segments && r >= 0; k++)
			if (t->segments[k].phase == PHASE_QUEUE ||
			    t->segments[k].phase == PHASE_ACCEPT_QUEUE)
				r = changes_add(c, t->segments[k].start_ns, t->segments[k].end_ns);
	}
	return r;
}

static int add_tasks(struct changes *c)
{
	const struct timeline *t = c->timeline;
	int r = 0;

	for (uint64_t i = 0; i < t->n_batch_tasks && r >= 0; i++) {
		const struct batch_task *task = &t->batch_tasks[i];

		/* How long a batch waited is unknown if its begin was not seen. */
		if (task->batch < t->n_batches)
			r = changes_add(c, task->queued_ns, t->batches[task->batch].start_ns);
	}
	return r;
}

static int add_threads(struct changes *c, enum counter counter)
{
	enum span_kind kind = counter == COUNTER_THROTTLED ? SPAN_THROTTLED : SPAN_RUNNABLE;
	const struct timeline *t = c->timeline;
	int r = 0;

	for (uint64_t i = 0; counter == COUNTER_RUNNABLE && i < t->n_slices && r >= 0; i++)
		r = changes_add(c, t->slices[i].start_ns, t->slices[i].end_ns);
	TIMELINE_EACH (t, i, 1u << kind)
		if (r >= 0)
			r = changes_add(c, t->spans[i].start_ns, t->spans[i].end_ns);
	return r;
}

static int add_memory(struct changes *c, enum allocator allocator)
{
	const struct timeline *t = c->timeline;
	int r = 0;

	c->begin = (int64_t)c->memory[allocator].begin_bytes;
	for (uint64_t i = 0; i < t->n_memory && r >= 0; i++) {
		const struct memory_event *e = &t->memory[i];

		if (e->allocator == allocator)
			r = changes_note(c, MIN(MAX(e->at_ns, t->start_ns), t->end_ns),
					 e->freed ? -(int64_t)e->bytes : (int64_t)e->bytes);
	}
	return r;
}

static int collect(struct changes *c, enum counter counter)
{
	c->n = 0;
	c->begin = 0;
	switch (counter) {
	case COUNTER_IN_FLIGHT:
	case COUNTER_QUEUE:
		return add_requests(c, counter == COUNTER_QUEUE);
	case COUNTER_BATCH_QUEUE:
		return add_tasks(c);
	case COUNTER_RUNNABLE:
	case COUNTER_WAITING:
	case COUNTER_THROTTLED:
		return add_threads(c, counter);
	default:
		return add_memory(c, (enum allocator)(counter - COUNTER_MEMORY));
	}
}

static int compare_changes(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static int write_sample(struct writer *w, enum counter counter, uint32_t name, uint64_t at_ns,
			int64_t value)
{
	struct stats stats = { .n = 0 };
	uint64_t at = w->timeline->start_ns + at_ns;

	stats_add_int(w, &stats, counters[counter].series, value);
	return writer_event(w, name, at, at, &stats);
}

/*
 * Each part of the window of this length has one sample, its highest value. With parts of 1 ns the
 * samples are the changes themselves: of several at the same time, the last.
 */
static int write_samples(struct writer *w, enum counter counter, const struct changes *c,
			 uint64_t part_ns)
{
	int64_t value = c->begin, shown = c->begin;
	uint32_t name = 0;
	int r;

	(void)xspace_event_name(w->xspace, counters[counter].name, NULL, &name);
	/* A curve that starts in the middle would look unknown before. */
	r = c->list[0].at_ns ? write_sample(w, counter, name, 0, value) : 0;
	for (size_t i = 0; i < c->n && r >= 0;) {
		uint64_t part = c->list[i].at_ns / part_ns;
		int64_t most = INT64_MIN;

		/* The value when the part began, unless it changed at that time. */
		if (c->list[i].at_ns > part * part_ns)
			most = value;
		while (i < c->n && c->list[i].at_ns / part_ns == part) {
			uint64_t at = c->list[i].at_ns;

			for (; i < c->n && c->list[i].at_ns == at; i++)
				value += c->list[i].by;
			most = MAX(most, value);
		}
		if (most != shown)
			r = write_sample(w, counter, name, part * part_ns, most);
		shown = most;
		/* Where the next part has no change of its own. */
		if (r >= 0 && value != shown &&
		    (i == c->n || c->list[i].at_ns / part_ns > part + 1)) {
			r = write_sample(w, counter, name, (part + 1) * part_ns, value);
			shown = value;
		}
	}
	return r;
}

/* The number of different times. */
static size_t count_times(const struct changes *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += !i || c->list[i].at_ns != c->list[i - 1].at_ns;
	return n;
}

static int write_counter(struct writer *w, enum counter counter, struct changes *c)
{
	uint64_t window_ns = w->timeline->end_ns - w->timeline->start_ns;
	int r = collect(c, counter);

	if (r < 0 || !c->n)
		return r;
	qsort(c->list, c->n, sizeof(c->list[0]), compare_changes);
	r = writer_line_begin(w, &(struct xspace_line){ .id = COUNTER_LINE + counter,
							.name = COUNTER_LINE_NAME });
	if (r >= 0)
		r = write_samples(w, counter, c,
				  count_times(c) > COUNTER_SAMPLES ? window_ns / COUNTER_SAMPLES + 1
								   : 1);
	return r < 0 ? r : xspace_line_end(w->xspace);
}

int counters_write(struct writer *w)
{
	struct changes changes = { .timeline = w->timeline, .until_ns = known_until(w->timeline) };
	int r = 0;

	memory_use_make(w->timeline, PROCESS_ANY, changes.memory);
	for (enum counter counter = 0; counter < COUNTER_COUNT && r >= 0; counter++)
		if (w->level >= counters[counter].level)
			r = write_counter(w, counter, &changes);
	free(changes.list);
	return r;
}
