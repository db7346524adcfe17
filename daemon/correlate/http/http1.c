/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: requests of a connection are answered in their order. */
#include "daemon/correlate/http/http1.h"
#include "daemon/correlate/http/connections.h"
#include "daemon/correlate/http/fields.h"
#include "lib/base/macro.h"

#define STATUS_REQUEST_TIMEOUT 408

/*
 * More was answered than was read. Either records of requests were lost, and then their numbers are
 * missing; or answers to requests of before the window were still to come, and each of them was
 * taken for that of a later request.
 */
static void connection_explain(struct correlator *c, uint32_t connection, uint32_t n_missing)
{
	struct connection *conn = &c->requests->connections[connection];
	uint32_t n_before = conn->ahead - MIN(conn->ahead, n_missing);

	/* Those before the first one that was read were taken for answers to what came before the
	 * window. */
	if (conn->n_requests ? n_before : n_missing)
		connection_doubt(c, connection);
	conn->offset += n_before;
	conn->ahead = 0;
}

/* A message's number shows that records were lost, of which nobody told. */
static void notice_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	from = MAX(from, c->start_ns);
	if (!losses_within(&c->losses, from, to))
		correlator_fail(c, losses_add(&c->losses, from, to));
}

/* The first bytes of the next request were read. */
static void connection_reads(struct correlator *c, uint32_t connection,
			     const struct record_message *m)
{
	struct connection *conn = &c->requests->connections[connection];

	if (conn->n_requests && !is_behind(conn->read_ordinal, m->ordinal)) {
		connection_end_requests(c, connection, m->head.time, REQUEST_LOST);
		conn->counts_lost = true;
	}
	if (is_behind(conn->read_ordinal + 1, m->ordinal))
		notice_loss(c, conn->read_ns, m->head.time);
	if (conn->ahead)
		connection_explain(c, connection, m->ordinal - conn->read_ordinal - 1);
	if (!conn->n_requests)
		conn->first_ordinal = m->ordinal;
	conn->read_ordinal = m->ordinal;
	conn->read_ns = m->head.time;
}

static void on_http1_read(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[connection];
	uint32_t request = conn->reading;

	if (m->part & MESSAGE_FIRST) {
		if (request != NO_REQUEST)
			request_end(c, request, m->head.time, REQUEST_LOST);
		connection_reads(c, connection, m);
		request = request_add(c, connection, m->head.time);
		if (request == NO_REQUEST)
			return;
		conn = &r->connections[connection];
		request_begin(c, request, m, m->position - m->bytes, PROTOCOL_HTTP1);
		r->list[request].stream = ++conn->n_requests;
		r->states[request].ordinal = m->ordinal;
		conn->reading = request;
		if (conn->last == NO_REQUEST)
			conn->first = request;
		else
			r->states[conn->last].next = request;
		conn->last = request;
	}
	if (request == NO_REQUEST || r->states[request].ordinal != m->ordinal)
		return;
	r->list[request].bytes_in = m->bytes;
	if (conn->line != TEXT_NONE) {
		fields_set_request_line(c, &r->list[request], conn->line);
		conn->line = TEXT_NONE;
	}
	if (m->part & MESSAGE_LAST) {
		conn->reading = NO_REQUEST;
		request_read(c, request, m);
	}
}

/* The request that is answered: the oldest, unless records of others were lost. */
static uint32_t find_answered(struct correlator *c, uint32_t connection,
			      const struct record_message *m)
{
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[connection];
	uint32_t request = conn->first, ordinal;
	bool before;

	/* The counts began anew: the oldest is taken for the one that is answered. */
	if (m->part & MESSAGE_FIRST && conn->written_ordinal &&
	    !is_behind(conn->written_ordinal, m->ordinal))
		conn->counts_lost = true;
	if (conn->counts_lost)
		conn->offset = m->ordinal - (request == NO_REQUEST ? conn->read_ordinal
								   : r->states[request].ordinal);
	conn->counts_lost = false;
	ordinal = m->ordinal - conn->offset;
	if (is_behind(conn->written_ordinal + 1, m->ordinal))
		notice_loss(c, conn->written_ns, m->head.time);
	conn->written_ordinal = m->ordinal;
	conn->written_ns = m->head.time;
	while (request != NO_REQUEST && is_behind(r->states[request].ordinal, ordinal)) {
		request_end(c, request, m->head.time, REQUEST_LOST);
		conn = &r->connections[connection];
		request = conn->first;
	}
	if (request != NO_REQUEST && r->states[request].ordinal == ordinal)
		return request;
	if (!(m->part & MESSAGE_FIRST))
		return NO_REQUEST;
	/* Nobody asked for it: an idle connection is told that it took too long. */
	if (request == NO_REQUEST && m->status == STATUS_REQUEST_TIMEOUT && conn->n_requests) {
		conn->offset++;
		return NO_REQUEST;
	}
	/* Of a request whose own records were lost, or from before the window: what is read next
	 * tells. */
	if (request == NO_REQUEST && is_behind(conn->read_ordinal, ordinal))
		conn->ahead = ordinal - conn->read_ordinal;
	/* What passed before the first answer was the rest of what it answers. */
	before = (!conn->n_requests || is_behind(ordinal, conn->first_ordinal)) &&
		 (!conn->passed || (conn->passed == PASSED_FIRST && m->ordinal == 1));
	request = request_unread(c, connection, m, PROTOCOL_HTTP1, before);
	if (request == NO_REQUEST)
		return request;
	conn = &r->connections[connection];
	r->states[request].ordinal = ordinal;
	r->states[request].next = conn->first;
	if (conn->first == NO_REQUEST)
		conn->last = request;
	conn->first = request;
	return request;
}

static void on_http1_written(struct correlator *c, uint32_t connection,
			     const struct record_message *m)
{
	struct requests *r = c->requests;
	uint32_t request;

	/* Closing says nothing of a message, unless it ends one. */
	if (m->part & MESSAGE_CLOSED && !(m->part & MESSAGE_LAST))
		return;
	request = find_answered(c, connection, m);
	if (request == NO_REQUEST)
		return;
	if (m->part & MESSAGE_FIRST)
		request_answer(c, request, m);
	if (m->status)
		r->list[request].status = m->status;
	r->list[request].bytes_out = m->bytes;
	/* An answer whose end is the connection's was sent when its last bytes were. */
	if (m->part & MESSAGE_LAST)
		request_end(c, request, m->part & MESSAGE_CLOSED ? m->began : m->head.time,
			    r->states[request].answering ? 0 : REQUEST_LOST);
}

void http1_on_message(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct connection *conn = &c->requests->connections[connection];
	bool request = m->part & MESSAGE_IS_REQUEST, read = m->direction == MESSAGE_READ;

	/* Requests that are written, and answers that are read, are those of a client. */
	if (request != read) {
		conn->client = true;
		return;
	}
	conn->server = true;
	if (read)
		on_http1_read(c, connection, m);
	else
		on_http1_written(c, connection, m);
}
