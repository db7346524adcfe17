/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, when their bytes came, and the requests on them. */
#include <stdlib.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/http/arrivals.h"
#include "daemon/correlate/http/connections.h"
#include "daemon/correlate/http/http2.h"
#include "lib/base/macro.h"

uint32_t request_add(struct correlator *c, uint32_t connection, uint64_t start)
{
	struct requests *r = c->requests;
	const struct connection *conn = &r->connections[connection];
	uint64_t size = r->size;
	struct request_state *states;
	struct request *list;

	if (r->n >= REQUESTS_MAX) {
		r->n_left_out++;
		return NO_REQUEST;
	}
	list = correlator_grow(c, r->list, &size, r->n, sizeof(*list));
	if (!list)
		return NO_REQUEST;
	r->list = list;
	size = r->size;
	states = correlator_grow(c, r->states, &size, r->n, sizeof(*states));
	if (!states)
		return NO_REQUEST;
	r->states = states;
	r->size = size;
	list[r->n] = (struct request){ .start_ns = start,
				       .connection = conn->number,
				       .process = conn->process,
				       .read_thread = THREAD_NONE,
				       .write_thread = THREAD_NONE,
				       .run_thread = THREAD_NONE,
				       .method = TEXT_NONE,
				       .path = TEXT_NONE,
				       .model = TEXT_NONE,
				       .version = TEXT_NONE,
				       .status = -1,
				       .grpc_status = -1 };
	states[r->n] = (struct request_state){ .connection = connection, .next = NO_REQUEST };
	r->connections[connection].n_open++;
	r->at_sockets[conn->process] = true;
	return r->n++;
}

void request_end(struct correlator *c, uint32_t request, uint64_t end, unsigned flags)
{
	struct requests *r = c->requests;
	struct request_state *s = &r->states[request];
	struct connection *conn = &r->connections[s->connection];
	struct request *q = &r->list[request];

	if (s->done)
		return;
	s->done = true;
	q->end_ns = MAX(end, q->start_ns);
	/* Records still come while the window closes. */
	q->read_start_ns = MIN(q->read_start_ns, q->end_ns);
	q->read_end_ns = MIN(q->read_end_ns, q->end_ns);
	q->write_start_ns = MIN(q->write_start_ns, q->end_ns);
	q->flags |= (uint8_t)flags;
	conn->n_open--;
	attribution_on_end(c, request);
	/* HTTP/1: out of the list of those that wait for their answer. */
	for (uint32_t *at = &conn->first, last = NO_REQUEST; *at != NO_REQUEST;
	     last = *at, at = &r->states[*at].next)
		if (*at == request) {
			*at = s->next;
			if (conn->last == request)
				conn->last = last;
			break;
		}
	if (conn->reading == request)
		conn->reading = NO_REQUEST;
	if (!(q->flags & REQUEST_NOT_WHOLE) && request_filter_passes(&c->filter, c->t, q))
		correlator_finished(c, q->process, q->end_ns - q->start_ns);
}

void connection_end_requests(struct correlator *c, uint32_t connection, uint64_t time,
			     unsigned flags)
{
	struct requests *r = c->requests;

	for (uint32_t i = r->n; i > 0 && r->connections[connection].n_open; i--)
		if (r->states[i - 1].connection == connection && !r->states[i - 1].done)
			request_end(c, i - 1, time, flags);
}

void connection_close(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags)
{
	struct connection *conn = &c->requests->connections[connection];

	connection_end_requests(c, connection, time, flags);
	conn = &c->requests->connections[connection];
	free(conn->fields);
	conn->fields = NULL;
	conn->open = false;
}

uint32_t connection_get(struct correlator *c, uint64_t socket, uint32_t inode, uint8_t target,
			uint64_t time)
{
	struct requests *r = c->requests;
	uint64_t *found = map_get(&r->connection_of_socket, requests_socket_key(socket));
	struct connection *conn;

	if (found) {
		conn = &r->connections[*found];
		if (conn->inode == inode && conn->open)
			return (uint32_t)*found;
		connection_close(c, (uint32_t)*found, MIN(conn->last_ns, time), REQUEST_LOST);
	}
	if (r->n_connections >= CONNECTIONS_MAX)
		return NO_REQUEST;
	conn = correlator_grow(c, r->connections, &r->connections_size, r->n_connections,
			       sizeof(*conn));
	if (!conn)
		return NO_REQUEST;
	r->connections = conn;
	correlator_put(c, &r->connection_of_socket, requests_socket_key(socket), r->n_connections);
	conn += r->n_connections;
	*conn = (struct connection){ .socket = socket,
				     .inode = inode,
				     .process = target,
				     .number = r->n_connections + 1,
				     .first = NO_REQUEST,
				     .last = NO_REQUEST,
				     .reading = NO_REQUEST,
				     .line = TEXT_NONE,
				     .open = true };
	return r->n_connections++;
}

void request_begin(struct correlator *c, uint32_t request, const struct record_message *m,
		   uint32_t first_position, uint8_t protocol)
{
	struct request_state *s = &c->requests->states[request];
	struct request *q = &c->requests->list[request];
	uint64_t arrival;

	s->since_ns = m->head.time;
	arrival = m->local_port ? arrivals_find(c, m->socket, first_position, &s->since_ns,
						&s->came_until)
				: 0;
	q->protocol = protocol;
	q->local_port = m->local_port;
	q->peer_port = m->peer_port;
	q->read_start_ns = m->began;
	/* It cannot have come after it was read. */
	if (arrival && arrival <= m->head.time) {
		q->start_ns = arrival;
		q->read_start_ns = MAX(m->began, arrival);
	} else {
		q->start_ns = q->read_start_ns = m->head.time;
		q->flags |= REQUEST_NO_ARRIVAL;
		/* Nothing has come to the connection since the window opened. */
		s->came_before = m->local_port && s->since_ns == c->start_ns &&
				 !(m->part & MESSAGE_ACCEPTED);
	}
}

uint32_t message_thread(struct correlator *c, const struct record_message *m)
{
	uint32_t thread = correlator_thread(c, m->head.tid);

	if (!c->error)
		c->t->threads[thread].process = m->head.target;
	return thread;
}

/* What came with bytes behind the request's may have waited for them since before the window. */
static void note_end(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct request_state *s = &c->requests->states[request];
	bool ahead =
		m->protocol == MESSAGE_HTTP2 && m->type == FRAME_DATA && m->part & MESSAGE_FIRST;
	uint32_t end = m->position + (ahead ? m->bytes : 0);

	if (s->since_ns == c->start_ns &&
	    !(c->requests->list[request].flags & REQUEST_NO_ARRIVAL) &&
	    is_behind(end, s->came_until))
		s->came_before = m->local_port && !(m->part & MESSAGE_ACCEPTED);
}

void request_read(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = c->requests;
	uint32_t thread = message_thread(c, m);

	if (c->error || r->states[request].read)
		return;
	r->states[request].read = true;
	note_end(c, request, m);
	r->list[request].read_end_ns = m->head.time;
	r->list[request].read_thread = thread;
	attribution_on_read(c, thread, request);
}

void request_answer(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = c->requests;
	uint32_t thread = message_thread(c, m);

	if (c->error || r->states[request].answering)
		return;
	r->states[request].answering = true;
	r->list[request].write_start_ns = MAX(m->began, r->list[request].start_ns);
	r->list[request].write_thread = thread;
	attribution_on_answer(c, thread, request);
}

uint32_t request_unread(struct correlator *c, uint32_t connection, const struct record_message *m,
			uint8_t protocol, bool before)
{
	bool cut = before && !losses_within(&c->losses, c->start_ns, m->head.time);
	uint32_t request =
		request_add(c, connection, cut ? c->start_ns : MAX(m->began, c->start_ns));
	struct request *q;

	if (request == NO_REQUEST)
		return request;
	q = &c->requests->list[request];
	q->flags |= cut ? REQUEST_CUT_START : REQUEST_LOST;
	c->requests->states[request].since_ns = c->start_ns;
	c->requests->states[request].doubtful = !cut;
	q->protocol = protocol;
	q->local_port = m->local_port;
	q->peer_port = m->peer_port;
	c->requests->states[request].read = true;
	return request;
}

void request_set_stream(struct correlator *c, uint32_t request, uint32_t stream)
{
	struct requests *r = c->requests;

	r->list[request].stream = stream;
	correlator_put(c, &r->request_of_stream,
		       requests_stream_key(&r->connections[r->states[request].connection], stream),
		       request);
}

void connection_doubt(struct correlator *c, uint32_t connection)
{
	struct requests *r = c->requests;

	for (uint32_t i = 0; i < r->n; i++)
		if (r->states[i].connection == connection) {
			r->list[i].flags |= REQUEST_LOST;
			r->states[i].doubtful = true;
		}
}
