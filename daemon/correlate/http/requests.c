/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/requests.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/http/arrivals.h"
#include "daemon/timeline/filter.h"

uint64_t requests_socket_key(uint64_t socket)
{
	/* Keys of a map may be any number but one. */
	return socket == UINT64_MAX ? 0 : socket;
}

uint64_t requests_stream_key(const struct connection *conn, uint32_t stream)
{
	return conn->number << 32 | stream;
}

int requests_new(struct requests **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct requests *requests_free(struct requests *r)
{
	if (!r)
		return NULL;
	for (uint32_t i = 0; i < r->n_connections; i++)
		free(r->connections[i].fields);
	free(r->list);
	free(r->states);
	free(r->connections);
	free(r->arrivals);
	free(r->threads);
	map_done(&r->connection_of_socket);
	map_done(&r->arrivals_of_socket);
	map_done(&r->request_of_stream);
	free(r);
	return NULL;
}

void requests_note_finished(struct correlator *c, uint64_t span)
{
	const struct span *s = &c->t->spans[span];
	uint32_t process = c->t->threads[s->thread].process;
	struct request q = {
		.start_ns = s->start_ns, .end_ns = s->end_ns, .path = TEXT_NONE, .model = TEXT_NONE
	};

	/* What is marked within a request at a socket is that one. */
	if (s->kind == SPAN_RUN && c->requests->at_sockets[process])
		return;
	if (s->flags & SPAN_NOT_WHOLE)
		return;
	if (s->kind == SPAN_HANDLER && s->id >= 0 && (uint64_t)s->id < c->t->n_handlers) {
		q.path = c->t->handlers[s->id].path;
		q.model = c->t->handlers[s->id].model;
	}
	if (request_filter_passes(&c->filter, c->t, &q))
		correlator_finished(c, process, q.end_ns - q.start_ns);
}

uint32_t requests_find_stream(const struct requests *r, uint32_t connection, uint32_t stream)
{
	uint64_t *found = map_get(&r->request_of_stream,
				  requests_stream_key(&r->connections[connection], stream));

	return found ? (uint32_t)*found : NO_REQUEST;
}
