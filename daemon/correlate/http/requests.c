/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/requests.h"

#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

static bool reserve(struct correlator *c)
{
	struct requests *r = &c->requests;
	uint64_t size = r->size;
	struct request_state *states;
	struct request *list;

	list = correlator_grow(c, r->list, &size, r->n, sizeof(*list));
	if (!list)
		return false;
	r->list = list;
	size = r->size;
	states = correlator_grow(c, r->states, &size, r->n, sizeof(*states));
	if (!states)
		return false;
	r->states = states;
	r->size = size;
	return true;
}

uint32_t requests_add(struct correlator *c, uint32_t connection, uint32_t process, uint64_t start)
{
	struct requests *r = &c->requests;

	if (r->n >= REQUESTS_MAX) {
		r->n_left_out++;
		return NO_REQUEST;
	}
	if (!reserve(c))
		return NO_REQUEST;
	r->list[r->n] = (struct request){ .start_ns = start,
					  .connection = (uint64_t)connection + 1,
					  .process = process,
					  .read_thread = THREAD_NONE,
					  .write_thread = THREAD_NONE,
					  .run_thread = THREAD_NONE,
					  .method = TEXT_NONE,
					  .path = TEXT_NONE,
					  .model = TEXT_NONE,
					  .version = TEXT_NONE,
					  .status = -1,
					  .grpc_status = -1 };
	r->states[r->n] = (struct request_state){ .connection = connection,
						  .next = NO_REQUEST,
						  .next_held = NO_REQUEST };
	r->any[process] = true;
	r->n_open[process]++;
	return r->n++;
}

void requests_note_end(struct requests *r, uint32_t request)
{
	r->states[request].done = true;
	r->n_open[r->list[request].process]--;
}

void requests_note_unread(struct requests *r, uint32_t process)
{
	r->any[process] = true;
	r->n_open[process]++;
}

void requests_note_unread_end(struct requests *r, uint32_t process)
{
	r->n_open[process]--;
}

uint32_t correlator_n_open(const struct correlator *c, unsigned target)
{
	return c->requests.n_open[target];
}

uint64_t requests_oldest_open(struct requests *r)
{
	while (r->first_open < r->n && r->states[r->first_open].done)
		r->first_open++;
	return r->first_open < r->n ? r->list[r->first_open].start_ns : UINT64_MAX;
}

static uint64_t stream_key(uint32_t connection, uint32_t stream)
{
	return ((uint64_t)connection + 1) << 32 | stream;
}

void requests_set_stream(struct correlator *c, uint32_t request, uint32_t stream)
{
	struct requests *r = &c->requests;

	r->list[request].stream = stream;
	correlator_put(c, &r->of_stream, stream_key(r->states[request].connection, stream),
		       request);
}

uint32_t requests_find_stream(const struct requests *r, uint32_t connection, uint32_t stream)
{
	uint64_t *found = map_get(&r->of_stream, stream_key(connection, stream));

	return found ? (uint32_t)*found : NO_REQUEST;
}

void requests_note_finished(struct correlator *c, uint64_t span)
{
	const struct span *s = &c->t->spans[span];
	struct request q = { .start_ns = s->start_ns,
			     .end_ns = s->end_ns,
			     .process = c->t->threads[s->thread].process,
			     .path = TEXT_NONE,
			     .model = TEXT_NONE,
			     .status = -1,
			     .grpc_status = -1 };

	/* A mark within a request at a socket, or at the library, is part of that one. */
	if (s->kind == SPAN_RUN && c->requests.any[q.process])
		return;
	if (s->flags & SPAN_NOT_WHOLE)
		return;
	if (s->kind == SPAN_HANDLER && s->handler >= 0 && (uint64_t)s->handler < c->t->n_handlers) {
		q.path = c->t->handlers[s->handler].path;
		q.model = c->t->handlers[s->handler].model;
	}
	finished_add(c, &q);
}

uint64_t requests_left_out(const struct requests *r)
{
	return r->n_left_out;
}

void requests_take(struct requests *r, struct timeline *t)
{
	t->requests = TAKE_PTR(r->list);
	t->n_requests = r->n;
	r->n = 0;
}

void requests_done(struct requests *r)
{
	free(r->list);
	free(r->states);
	map_done(&r->of_stream);
}
