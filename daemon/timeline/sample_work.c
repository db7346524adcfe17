/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/sample_work.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/macro.h"
#include "lib/base/map.h"
#include "lib/base/search.h"

/* Spans of a thread that are open at a time; deeper ones are not looked at. */
#define OPEN_MAX 256

/* A piece of a request's critical path that a thread ran. */
struct stretch {
	uint64_t start_ns, end_ns;
	uint32_t thread, request; /* index */
	uint8_t phase;
};

struct search {
	struct timeline *t;
	struct map request_of;     /* index, by the context of a run */
	struct stretch *stretches; /* by thread and start */
	size_t n_stretches;
	/* Of the current thread. */
	uint64_t next; /* index of the first span that is not open yet */
	const struct span *open[OPEN_MAX];
	unsigned n_open;
};

static int list_runs(struct search *s)
{
	int r = 0;

	TIMELINE_EACH (s->t, i, 1 << SPAN_RUN) {
		const struct span *span = &s->t->spans[i];

		if (span->context && span->request && r >= 0)
			r = map_put(&s->request_of, span->context, span->request - 1);
	}
	return r;
}

static int compare_stretches(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int list_stretches(struct search *s)
{
	const struct timeline *t = s->t;

	s->stretches = malloc((t->n_segments + 1) * sizeof(s->stretches[0]));
	if (!s->stretches)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_requests; i++)
		for (uint64_t k = 0; k < t->requests[i].n_segments; k++) {
			const struct segment *g = &t->segments[t->requests[i].first_segment + k];

			if (g->thread != THREAD_NONE &&
			    (g->activity == ACTIVITY_RUNNING || g->activity == ACTIVITY_UNKNOWN))
				s->stretches[s->n_stretches++] =
					(struct stretch){ .start_ns = g->start_ns,
							  .end_ns = g->end_ns,
							  .thread = g->thread,
							  .request = i,
							  .phase = g->phase };
		}
	if (s->n_stretches)
		qsort(s->stretches, s->n_stretches, sizeof(s->stretches[0]), compare_stretches);
	return 0;
}

/* The last stretch of the thread that contains the time; NULL: none. */
static const struct stretch *find_stretch(const struct search *s, uint32_t thread, uint64_t at)
{
	size_t after =
		SEARCH_FIRST(s->n_stretches, i,
			     s->stretches[i].thread < thread || (s->stretches[i].thread == thread &&
								 s->stretches[i].start_ns <= at));
	const struct stretch *last = after ? &s->stretches[after - 1] : NULL;

	return last && last->thread == thread && at < last->end_ns ? last : NULL;
}

static uint8_t phase_at(const struct timeline *t, const struct request *q, uint64_t at)
{
	const struct segment *list = t->segments + q->first_segment;
	size_t i = SEARCH_FIRST(q->n_segments, k, list[k].end_ns <= at);

	return i < q->n_segments && list[i].start_ns <= at ? list[i].phase : PHASE_COUNT;
}

/* Opens the thread's spans up to a time. */
static void open_spans(struct search *s, uint32_t thread, uint64_t at)
{
	const struct timeline *t = s->t;

	for (; s->next < t->n_spans && t->spans[s->next].thread == thread &&
	       t->spans[s->next].start_ns <= at;
	     s->next++) {
		while (s->n_open && s->open[s->n_open - 1]->end_ns <= t->spans[s->next].start_ns)
			s->n_open--;
		if (s->n_open < OPEN_MAX)
			s->open[s->n_open++] = &t->spans[s->next];
	}
}

/* The request + 1 that a span is work for, 0: unknown. */
static uint32_t request_of(const struct search *s, const struct span *span)
{
	const uint64_t *found;

	if (span->kind == SPAN_RUN)
		return span->request;
	if (span->kind != SPAN_EXECUTOR && span->kind != SPAN_DONE)
		return 0;
	found = map_get(&s->request_of, span->context);
	return found ? (uint32_t)*found + 1 : 0;
}

static void find_work(struct search *s, struct stack_sample *sample)
{
	const struct stretch *stretch;

	open_spans(s, sample->thread, sample->at_ns);
	for (unsigned i = s->n_open; i-- > 0;) {
		const struct span *span = s->open[i];

		if (span->end_ns <= sample->at_ns)
			continue;
		if (span->kind == SPAN_OP && sample->op == STACK_NONE)
			sample->op = span->name;
		if (!sample->request)
			sample->request = request_of(s, span);
	}
	stretch = find_stretch(s, sample->thread, sample->at_ns);
	if (stretch && (!sample->request || sample->request == stretch->request + 1)) {
		sample->request = stretch->request + 1;
		sample->phase = stretch->phase;
	} else if (sample->request && sample->request <= s->t->n_requests) {
		sample->phase = phase_at(s->t, &s->t->requests[sample->request - 1], sample->at_ns);
	}
}

/* Samples by their indices, so that each thread's come together. */
struct place {
	uint32_t thread, sample;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static int find_all(struct search *s)
{
	struct stacks *stacks = &s->t->stacks;
	_cleanup_free_ struct place *places = malloc(stacks->n_samples * sizeof(places[0]));
	uint32_t thread = THREAD_NONE;

	if (!places)
		return -ENOMEM;
	for (uint32_t i = 0; i < stacks->n_samples; i++)
		places[i] = (struct place){ .thread = stacks->samples[i].thread, .sample = i };
	qsort(places, stacks->n_samples, sizeof(places[0]), compare_places);
	for (size_t i = 0; i < stacks->n_samples; i++) {
		if (places[i].thread != thread) {
			thread = places[i].thread;
			s->n_open = 0;
			s->next = SEARCH_FIRST(s->t->n_spans, k, s->t->spans[k].thread < thread);
		}
		find_work(s, &stacks->samples[places[i].sample]);
	}
	return 0;
}

int sample_work_find(struct timeline *t)
{
	struct search s = { .t = t };
	int r;

	if (!t->stacks.n_samples)
		return 0;
	r = list_runs(&s);
	if (r >= 0)
		r = list_stretches(&s);
	if (r >= 0)
		r = find_all(&s);
	map_done(&s.request_of);
	free(s.stretches);
	return r;
}
