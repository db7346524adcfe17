/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/attribute/claims.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"

/* Of a request; zeros: none. */
struct claim {
	bool waits; /* for a run; its neighbors in that list, NO_REQUEST: none */
	bool by_stream;
	uint32_t waits_before, waits_behind;
	uint32_t n_inferred; /* of its runs */
	uint64_t last_run;   /* index of the latest one's span */
};

/* NULL: no memory. */
static struct claim *claim_of(struct correlator *c, uint32_t request)
{
	struct claims *claims = &c->claims;
	uint64_t from = claims->size;

	while (request >= claims->size) {
		struct claim *list = correlator_grow(c, claims->list, &claims->size, claims->size,
						     sizeof(*list));

		if (!list)
			return NULL;
		claims->list = list;
		memset(list + from, 0, (claims->size - from) * sizeof(*list));
		from = claims->size;
	}
	return &claims->list[request];
}

static struct span *span_at(const struct correlator *c, uint64_t index)
{
	return &c->t->spans[index];
}

static struct waiting *waiting_of(struct correlator *c, uint32_t request)
{
	return &c->claims.waiting[requests_get(&c->requests, request)->process];
}

void claims_wait(struct correlator *c, uint32_t request)
{
	struct waiting *w = waiting_of(c, request);
	struct claim *claim = claim_of(c, request);

	if (!claim)
		return;
	claim->waits = true;
	claim->waits_before = NO_REQUEST;
	claim->waits_behind = w->n ? w->first : NO_REQUEST;
	if (w->n)
		c->claims.list[w->first].waits_before = request;
	w->first = request;
	w->n++;
}

void claims_stop_waiting(struct correlator *c, uint32_t request)
{
	struct waiting *w = waiting_of(c, request);
	struct claim *claim = claim_of(c, request);

	if (!claim || !claim->waits)
		return;
	claim->waits = false;
	if (claim->waits_before == NO_REQUEST)
		w->first = claim->waits_behind;
	else
		c->claims.list[claim->waits_before].waits_behind = claim->waits_behind;
	if (claim->waits_behind != NO_REQUEST)
		c->claims.list[claim->waits_behind].waits_before = claim->waits_before;
	w->n--;
}

uint32_t claims_only_waiting(const struct correlator *c, uint32_t process)
{
	return process < RECORD_MAX_TARGETS && c->claims.waiting[process].n == 1
		       ? c->claims.waiting[process].first
		       : NO_REQUEST;
}

void claims_remove(struct correlator *c, uint64_t span)
{
	uint32_t request = span_at(c, span)->request - 1;
	struct claim *claim = claim_of(c, request);

	if (!claim)
		return;
	span_at(c, span)->request = 0;
	if (span_at(c, span)->flags & SPAN_INFERRED)
		claim->n_inferred--;
	span_at(c, span)->flags &= (uint16_t)~SPAN_INFERRED;
	requests_get(&c->requests, request)->n_runs--;
}

void claims_remove_inferred(struct correlator *c, uint32_t request)
{
	const struct claim *claim = claim_of(c, request);
	const struct span *last = claim && claim->n_inferred ? span_at(c, claim->last_run) : NULL;

	if (last && last->request == request + 1 && last->flags & SPAN_INFERRED)
		claims_remove(c, claim->last_run);
}

void claims_add(struct correlator *c, uint64_t span, uint32_t request, bool inferred)
{
	struct claim *claim = claim_of(c, request);

	if (!claim)
		return;
	/* What was inferred gives way to what is known. */
	if (span_at(c, span)->request)
		claims_remove(c, span);
	span_at(c, span)->request = request + 1;
	if (inferred)
		span_at(c, span)->flags |= SPAN_INFERRED;
	claim->n_inferred += inferred;
	claim->last_run = span;
	requests_get(&c->requests, request)->n_runs++;
	claims_stop_waiting(c, request);
}

bool claims_can_be_of(struct correlator *c, uint64_t span, uint32_t request)
{
	const struct request *q = requests_get(&c->requests, request);
	const struct span *s = span_at(c, span);

	if (q->process != c->t->threads[s->thread].process)
		return false;
	return requests_state(&c->requests, request)->read && q->read_end_ns <= s->start_ns &&
	       (!q->write_start_ns || s->start_ns <= q->write_start_ns);
}

bool claims_is_last(const struct correlator *c, uint64_t span)
{
	return c->claims.list[span_at(c, span)->request - 1].last_run == span;
}

bool claims_has_inferred(const struct correlator *c, uint32_t request)
{
	return request < c->claims.size && c->claims.list[request].n_inferred;
}

void claims_note_stream(struct correlator *c, uint32_t request)
{
	struct claim *claim = claim_of(c, request);

	if (claim)
		claim->by_stream = true;
}

bool claims_is_by_stream(const struct correlator *c, uint32_t request)
{
	return request < c->claims.size && c->claims.list[request].by_stream;
}

void claims_done(struct claims *claims)
{
	free(claims->list);
}
