/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests wait for a run, and which run is of which request. */
#include "daemon/correlate/attribute/claims.h"

#include <string.h>

struct thread_requests *claims_thread(struct correlator *c, uint32_t thread)
{
	struct requests *r = c->requests;
	uint64_t from = r->threads_size;

	while (thread >= r->threads_size) {
		struct thread_requests *threads = correlator_grow(
			c, r->threads, &r->threads_size, r->threads_size, sizeof(*threads));

		if (!threads)
			return NULL;
		r->threads = threads;
		memset(threads + from, 0, (r->threads_size - from) * sizeof(*threads));
		from = r->threads_size;
	}
	return &r->threads[thread];
}

static struct span *span_at(struct correlator *c, uint64_t index)
{
	return &c->t->spans[index];
}

void claims_wait(struct requests *r, uint32_t request)
{
	struct waiting *w = &r->waiting[r->list[request].process];
	struct request_state *s = &r->states[request];

	s->waits = true;
	s->waits_before = NO_REQUEST;
	s->waits_behind = w->n ? w->first : NO_REQUEST;
	if (w->n)
		r->states[w->first].waits_before = request;
	w->first = request;
	w->n++;
}

void claims_stop_waiting(struct requests *r, uint32_t request)
{
	struct waiting *w = &r->waiting[r->list[request].process];
	struct request_state *s = &r->states[request];

	if (!s->waits)
		return;
	s->waits = false;
	if (s->waits_before == NO_REQUEST)
		w->first = s->waits_behind;
	else
		r->states[s->waits_before].waits_behind = s->waits_behind;
	if (s->waits_behind != NO_REQUEST)
		r->states[s->waits_behind].waits_before = s->waits_before;
	w->n--;
}

void claims_remove(struct correlator *c, uint64_t span)
{
	struct requests *r = c->requests;
	uint32_t request = span_at(c, span)->request - 1;

	span_at(c, span)->request = 0;
	if (span_at(c, span)->flags & SPAN_INFERRED)
		r->states[request].n_inferred--;
	span_at(c, span)->flags &= (uint8_t)~SPAN_INFERRED;
	r->list[request].n_runs--;
}

void claims_add(struct correlator *c, uint64_t span, uint32_t request, bool inferred)
{
	struct requests *r = c->requests;

	/* What was inferred gives way to what is known. */
	if (span_at(c, span)->request)
		claims_remove(c, span);
	span_at(c, span)->request = request + 1;
	if (inferred)
		span_at(c, span)->flags |= SPAN_INFERRED;
	r->states[request].n_inferred += inferred;
	r->states[request].last_run = span;
	r->list[request].n_runs++;
	claims_stop_waiting(r, request);
}

bool claims_can_be_of(struct correlator *c, uint64_t span, uint32_t request)
{
	const struct request *q = &c->requests->list[request];
	const struct span *s = span_at(c, span);

	if (q->process != c->t->threads[s->thread].process)
		return false;
	return c->requests->states[request].read && q->read_end_ns <= s->start_ns &&
	       (!q->write_start_ns || s->start_ns <= q->write_start_ns);
}
