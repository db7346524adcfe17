/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/timeline.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

int timeline_warn(struct timeline *t, const char *format, ...)
{
	char **warnings, *text;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	warnings = realloc(t->warnings, (t->n_warnings + 1) * sizeof(warnings[0]));
	if (!warnings) {
		free(text);
		return -ENOMEM;
	}
	t->warnings = warnings;
	t->warnings[t->n_warnings++] = text;
	return 0;
}

struct timeline *timeline_free(struct timeline *t)
{
	if (!t)
		return NULL;
	for (uint32_t i = 0; i < t->n_names; i++) {
		free(t->names[i].name);
		free(t->names[i].display);
	}
	for (uint32_t i = 0; i < t->n_warnings; i++)
		free(t->warnings[i]);
	free(t->names);
	free(t->warnings);
	for (uint32_t i = 0; i < t->n_gaps; i++)
		free(t->gaps[i].text);
	free(t->gaps);
	free(t->spans);
	free(t->kinds);
	free(t->slices);
	free(t->memory);
	free(t->requests);
	free(t->segments);
	free(t->hops);
	free(t->batches);
	free(t->batch_tasks);
	free(t->handlers);
	for (uint32_t i = 0; i < t->n_texts; i++)
		free(t->texts[i]);
	free(t->texts);
	stacks_done(&t->stacks);
	free(t->threads);
	free(t->processes);
	free(t);
	return NULL;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static int compare_slices(const void *a, const void *b)
{
	const struct cpu_slice *x = a, *y = b;

	if (x->cpu != y->cpu)
		return (int)x->cpu - (int)y->cpu;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

/* Where the spans of a thread are put. */
struct room {
	uint64_t first, end; /* of those that are there */
	bool disordered;
};

/* By thread. Spans come almost in order of start, so this is most of the work. */
static void part_spans(const struct timeline *t, struct room *rooms, struct span *sorted,
		       uint8_t *kinds)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < t->n_spans; i++)
		rooms[t->spans[i].thread].end++;
	for (uint32_t i = 0; i < t->n_threads; i++) {
		rooms[i].first = sum;
		sum += rooms[i].end;
		rooms[i].end = rooms[i].first;
	}
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];
		struct room *room = &rooms[s->thread];

		if (room->end > room->first && compare_spans(&sorted[room->end - 1], s) > 0)
			room->disordered = true;
		kinds[room->end] = s->kind;
		sorted[room->end++] = *s;
	}
}

/* By thread, then start, longer first. */
static int sort_spans(struct timeline *t)
{
	_cleanup_free_ struct room *rooms = calloc((size_t)t->n_threads + 1, sizeof(rooms[0]));
	struct span *sorted = malloc(MAX(t->n_spans, 1u) * sizeof(sorted[0]));
	uint8_t *kinds = malloc(MAX(t->n_spans, 1u));

	if (!rooms || !sorted || !kinds) {
		free(sorted);
		free(kinds);
		return -ENOMEM;
	}
	part_spans(t, rooms, sorted, kinds);
	free(t->spans);
	free(t->kinds);
	t->spans = sorted;
	t->kinds = kinds;
	for (uint32_t i = 0; i < t->n_threads; i++) {
		const struct room *room = &rooms[i];

		if (!room->disordered)
			continue;
		qsort(sorted + room->first, room->end - room->first, sizeof(sorted[0]),
		      compare_spans);
		for (uint64_t k = room->first; k < room->end; k++)
			kinds[k] = sorted[k].kind;
	}
	return 0;
}

uint64_t timeline_next(const struct timeline *t, uint64_t from, unsigned kinds)
{
	while (from < t->n_spans &&
	       !(kinds >> (t->kinds ? t->kinds[from] : t->spans[from].kind) & 1))
		from++;
	return from;
}

/* The sum of the time that threads spent off the CPU like this; NULL: it is no such span. */
static uint64_t *off_sum(struct timeline *t, const struct span *s)
{
	switch (s->kind) {
	case SPAN_BLOCKED:
		return &t->blocked_ns;
	case SPAN_RUNNABLE:
		return &t->runnable_ns;
	case SPAN_THROTTLED:
		return &t->throttled_ns;
	default:
		return NULL;
	}
}

const struct quota *timeline_quota(const struct timeline *t, uint32_t name)
{
	for (uint32_t i = 0; i < t->n_quotas && name != TEXT_NONE; i++)
		if (t->quotas[i].name == name)
			return &t->quotas[i];
	return NULL;
}

struct open_span {
	uint64_t end_ns;
	struct span *span;
	struct span *op; /* the innermost operation that encloses the next span */
	bool working;    /* inside a run or a piece of one */
	bool running;    /* inside a run */
};

/* One pass over a thread: self times, and what its work spent off the CPU. */
static void measure_thread(struct timeline *t, uint64_t first, uint64_t end,
			   struct open_span *stack, uint32_t stack_size)
{
	uint32_t depth = 0;

	for (uint64_t i = first; i < end; i++) {
		struct span *s = &t->spans[i];
		uint64_t duration = s->end_ns - s->start_ns;
		uint64_t *off = off_sum(t, s);
		struct open_span *up;

		while (depth && stack[depth - 1].end_ns <= s->start_ns &&
		       !(duration == 0 && stack[depth - 1].end_ns == s->start_ns))
			depth--;
		up = depth ? &stack[depth - 1] : NULL;
		s->self_ns = duration;
		if (s->kind == SPAN_RUN && up && up->running)
			s->flags |= SPAN_INNER;
		if (s->kind == SPAN_OP && up && up->op)
			up->op->self_ns -= MIN(up->op->self_ns, duration);
		if (off) {
			if (up && up->working) {
				*off += duration;
				t->running_ns -= MIN(t->running_ns, duration);
			}
		} else if (!(up && up->working)) {
			t->running_ns += duration;
		}
		if (depth < stack_size)
			stack[depth++] = (struct open_span){
				.end_ns = s->end_ns,
				.span = s,
				.op = s->kind == SPAN_OP ? s
				      : up               ? up->op
							 : NULL,
				.running = s->kind == SPAN_RUN || (up && up->running),
				.working = (up && up->working) || s->kind < SPAN_BLOCKED
			};
	}
}

static void count_runs(struct timeline *t)
{
	TIMELINE_EACH (t, i, 1 << SPAN_RUN)
		if (!(t->spans[i].flags & SPAN_INNER)) {
			if (t->spans[i].flags & SPAN_NOT_WHOLE)
				t->n_runs_truncated++;
			else
				t->n_runs++;
		}
}

int timeline_finish(struct timeline *t)
{
	enum { DEPTH_MAX = 4096 };
	_cleanup_free_ struct open_span *stack = malloc(DEPTH_MAX * sizeof(stack[0]));
	int r;

	if (!stack)
		return -ENOMEM;
	r = sort_spans(t);
	if (r < 0)
		return r;
	if (t->n_slices)
		qsort(t->slices, t->n_slices, sizeof(t->slices[0]), compare_slices);
	for (uint64_t first = 0, end; first < t->n_spans; first = end) {
		for (end = first + 1;
		     end < t->n_spans && t->spans[end].thread == t->spans[first].thread;)
			end++;
		measure_thread(t, first, end, stack, DEPTH_MAX);
	}
	count_runs(t);
	return 0;
}

/*
 * A tree over the lanes whose leaves are when a lane is free, 0 for one that was never used, and
 * whose nodes are the earliest of these below them.
 */
static uint32_t take_lane(uint64_t *free_at, uint32_t n_leaves, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t node = 1;

	while (node < n_leaves)
		node = 2 * node + (free_at[2 * node] > start_ns);
	free_at[node] = end_ns + 1;
	for (uint32_t up = node / 2; up; up /= 2)
		free_at[up] = MIN(free_at[2 * up], free_at[2 * up + 1]);
	return node - n_leaves;
}

int timeline_assign_lanes(struct timeline *t)
{
	_cleanup_free_ uint64_t *free_at = NULL;
	uint32_t n_leaves = 1;

	while (n_leaves < t->n_requests)
		n_leaves *= 2;
	free_at = calloc(2 * (size_t)n_leaves, sizeof(free_at[0]));
	if (!free_at)
		return -ENOMEM;
	t->n_lanes = 0;
	for (uint32_t i = 0; i < t->n_requests; i++) {
		struct request *q = &t->requests[i];

		q->lane = 0;
		if (q->flags & REQUEST_FILTERED)
			continue;
		q->lane = take_lane(free_at, n_leaves, q->start_ns, q->end_ns);
		t->n_lanes = MAX(t->n_lanes, q->lane + 1);
	}
	return 0;
}
