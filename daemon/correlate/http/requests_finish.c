/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a timeline whose spans are sorted: adds those that servers mark, attributes the
 * runs within them, and sorts all of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/http/requests_finish.h"
#include "lib/base/macro.h"
#include "lib/base/map.h"

#define DEPTH_MAX 64
#define SERVING (1 << SPAN_RUN | 1 << SPAN_HANDLER)

/* What encloses the span at hand, on one thread. */
struct enclosing {
	uint64_t end_ns;
	uint32_t request; /* index + 1; 0: none */
	bool run;         /* a run, not only a handler or mark */
};

struct finish {
	struct timeline *t;
	const struct losses *losses;
	struct map request_of_context; /* of runs: index + 1 */
	uint64_t size;
};

static int add_request(struct finish *f, const struct span *s, enum protocol protocol,
		       uint32_t *ret)
{
	struct timeline *t = f->t;
	struct request *list;

	if (t->n_requests >= f->size) {
		uint64_t size = MAX((uint64_t)t->n_requests * 2, UINT64_C(64));

		list = realloc(t->requests, size * sizeof(*list));
		if (!list)
			return -ENOMEM;
		t->requests = list;
		f->size = size;
	}
	t->requests[t->n_requests] = (struct request){
		.start_ns = s->start_ns,
		.end_ns = s->end_ns,
		.process = t->threads[s->thread].process,
		.read_thread = THREAD_NONE,
		.write_thread = THREAD_NONE,
		.run_thread = s->thread,
		.method = TEXT_NONE,
		.path = TEXT_NONE,
		.model = TEXT_NONE,
		.version = TEXT_NONE,
		.status = -1,
		.grpc_status = -1,
		.protocol = (uint8_t)protocol,
		.attribution = ATTRIBUTION_EXACT,
	};
	if (s->kind == SPAN_HANDLER && s->handler >= 0 && (uint64_t)s->handler < t->n_handlers) {
		t->requests[t->n_requests].path = t->handlers[s->handler].path;
		t->requests[t->n_requests].model = t->handlers[s->handler].model;
	}
	if (s->flags & SPAN_TRUNCATED_START)
		t->requests[t->n_requests].flags |= REQUEST_TRUNCATED_START;
	if (s->flags & (SPAN_TRUNCATED_END | SPAN_END_NOT_SEEN))
		t->requests[t->n_requests].flags |=
			s->flags & SPAN_TRUNCATED_END ? REQUEST_TRUNCATED_END : REQUEST_LOST;
	if (losses_within(f->losses, s->start_ns, s->end_ns))
		t->requests[t->n_requests].flags |= REQUEST_LOST;
	*ret = ++t->n_requests;
	return 0;
}

/* The request that a span begins, or is part of, as index + 1; 0: none. */
static int request_of_span(struct finish *f, struct span *s, const struct enclosing *up,
			   uint32_t *ret)
{
	bool mark = s->flags & SPAN_MARK;
	uint32_t request = up ? up->request : 0;
	int r = 0;

	if (s->request)
		request = s->request;
	if (!request && (mark || s->kind == SPAN_HANDLER))
		r = add_request(f, s, mark ? PROTOCOL_MARK : PROTOCOL_HANDLER, &request);
	if (request && mark)
		f->t->requests[request - 1].id = (uint64_t)s->request_id;
	*ret = request;
	return r;
}

/* The thread of the span at *at, which becomes the first such span of another thread. */
static int finish_thread(struct finish *f, uint64_t *at)
{
	const struct timeline *t = f->t;
	uint32_t thread = t->spans[*at].thread;
	struct enclosing stack[DEPTH_MAX];
	unsigned depth = 0;

	for (; *at < t->n_spans && t->spans[*at].thread == thread;
	     *at = timeline_next(t, *at + 1, SERVING)) {
		struct span *s = &t->spans[*at];
		const struct enclosing *up;
		bool mark = s->flags & SPAN_MARK;
		uint32_t request;
		int r;

		while (depth && stack[depth - 1].end_ns <= s->start_ns)
			depth--;
		up = depth ? &stack[depth - 1] : NULL;
		r = request_of_span(f, s, up, &request);
		if (r < 0)
			return r;
		if (request && s->context &&
		    map_put(&f->request_of_context, s->context, request) < 0)
			return -ENOMEM;
		/* A span within a mark is a run; a span within a run is part of that run. */
		if (s->kind == SPAN_RUN && !mark && !(up && up->run)) {
			if (request && !s->request)
				f->t->requests[request - 1].n_runs++;
			s->request = request;
		} else {
			if (s->request)
				f->t->requests[s->request - 1].n_runs--;
			s->request = 0;
		}
		if (depth < DEPTH_MAX)
			stack[depth++] =
				(struct enclosing){ .end_ns = s->end_ns,
						    .request = request,
						    .run = (s->kind == SPAN_RUN && !mark) ||
							   (up && up->run) };
	}
	return 0;
}

static void link_batches(struct finish *f)
{
	struct timeline *t = f->t;

	for (uint64_t i = 0; i < t->n_batch_tasks; i++) {
		const uint64_t *found = t->batch_tasks[i].run ? map_get(&f->request_of_context,
									t->batch_tasks[i].run)
							      : NULL;

		t->batch_tasks[i].request = found ? (uint32_t)*found : 0;
	}
}

/* Handlers and marks without known work have no attribution. */
static void mark_without_work(struct timeline *t)
{
	for (uint32_t i = 0; i < t->n_requests; i++)
		if ((t->requests[i].protocol == PROTOCOL_MARK ||
		     t->requests[i].protocol == PROTOCOL_HANDLER) &&
		    !t->requests[i].n_runs)
			t->requests[i].attribution = ATTRIBUTION_NONE;
	for (uint64_t i = 0; i < t->n_batch_tasks; i++)
		if (t->batch_tasks[i].request &&
		    t->requests[t->batch_tasks[i].request - 1].attribution == ATTRIBUTION_NONE)
			t->requests[t->batch_tasks[i].request - 1].attribution = ATTRIBUTION_EXACT;
}

static void count(struct timeline *t)
{
	TIMELINE_EACH (t, i, 1 << SPAN_RUN) {
		const struct span *s = &t->spans[i];

		if (s->flags & SPAN_MARK || (s->flags & SPAN_INNER && !s->request))
			continue;
		if (!s->request)
			t->n_runs_orphaned++;
		else if (s->flags & SPAN_INFERRED)
			t->n_runs_inferred++;
		else
			t->n_runs_exact++;
	}
}

static int compare_requests(const void *a, const void *b, void *list)
{
	const struct request *x = (const struct request *)list + *(const uint32_t *)a,
			     *y = (const struct request *)list + *(const uint32_t *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static int compare_hops(const void *a, const void *b)
{
	const struct hop *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static void link_hops(struct timeline *t)
{
	if (t->n_hops)
		qsort(t->hops, t->n_hops, sizeof(t->hops[0]), compare_hops);
	for (uint32_t i = 0; i < t->n_hops; i++) {
		const struct hop *hop = &t->hops[i];
		struct request *caller = hop->caller ? &t->requests[hop->caller - 1] : NULL;

		t->requests[hop->callee - 1].hop = i + 1;
		if (caller && !caller->n_calls++)
			caller->first_call = i;
	}
}

/* Sorts by start. */
static int sort(struct timeline *t)
{
	_cleanup_free_ uint32_t *order = calloc((size_t)t->n_requests + 1, sizeof(order[0]));
	_cleanup_free_ uint32_t *place = calloc((size_t)t->n_requests + 1, sizeof(place[0]));
	struct request *sorted = malloc(MAX((size_t)t->n_requests, (size_t)1) * sizeof(sorted[0]));

	if (!order || !place || !sorted) {
		free(sorted);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < t->n_requests; i++)
		order[i] = i;
	qsort_r(order, t->n_requests, sizeof(order[0]), compare_requests, t->requests);
	for (uint32_t i = 0; i < t->n_requests; i++) {
		sorted[i] = t->requests[order[i]];
		place[order[i] + 1] = i + 1;
	}
	free(t->requests);
	t->requests = sorted;
	/* No other span has a request. */
	TIMELINE_EACH (t, i, SERVING)
		t->spans[i].request = place[t->spans[i].request];
	for (uint64_t i = 0; i < t->n_batch_tasks; i++)
		t->batch_tasks[i].request = place[t->batch_tasks[i].request];
	for (uint32_t i = 0; i < t->n_hops; i++) {
		t->hops[i].caller = place[t->hops[i].caller];
		t->hops[i].callee = place[t->hops[i].callee];
	}
	link_hops(t);
	return 0;
}

int requests_finish(struct timeline *t, const struct request_filter *filter,
		    const struct losses *losses)
{
	struct finish f = { .t = t, .size = t->n_requests, .losses = losses };
	int r = 0;

	for (uint64_t i = timeline_next(t, 0, SERVING); i < t->n_spans && r >= 0;)
		r = finish_thread(&f, &i);
	if (r >= 0) {
		link_batches(&f);
		mark_without_work(t);
	}
	map_done(&f.request_of_context);
	if (r >= 0)
		r = sort(t);
	for (uint32_t i = 0; i < t->n_requests && r >= 0; i++)
		if (!request_filter_passes(filter, t, &t->requests[i]))
			t->requests[i].flags |= REQUEST_FILTERED;
	if (r >= 0)
		count(t);
	return r;
}
