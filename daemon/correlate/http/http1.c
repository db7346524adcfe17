/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: requests of a connection are answered in their order. */
#include "daemon/correlate/http/http1.h"

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/http/connections.h"
#include "lib/base/macro.h"

#define STATUS_REQUEST_TIMEOUT 408

/*
 * There were more answers than requests. Either records of requests were lost, and then their
 * numbers are missing; or there were outstanding answers to requests from before the window, and
 * each of them was taken for that of a later request.
 */
static void connection_explain(struct correlator *c, uint32_t connection, uint32_t n_missing)
{
	struct connection *conn = connections_get(&c->connections, connection);
	uint32_t n_before = conn->http1.ahead - MIN(conn->http1.ahead, n_missing);

	/* Answers before the first request that was read were taken for those of requests from
	 * before the window. */
	if (conn->n_requests ? n_before : n_missing)
		connection_make_ambiguous(c, connection);
	conn->http1.offset += n_before;
	conn->http1.ahead = 0;
}

/* A message's number shows that records were lost, although no loss was reported. */
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
	struct connection *conn = connections_get(&c->connections, connection);

	if (conn->n_requests && !is_behind(conn->http1.read_ordinal, m->ordinal)) {
		connection_end_requests(c, connection, m->head.time, REQUEST_LOST);
		conn->http1.counts_lost = true;
	}
	if (is_behind(conn->http1.read_ordinal + 1, m->ordinal))
		notice_loss(c, conn->http1.read_ns, m->head.time);
	if (conn->http1.ahead)
		connection_explain(c, connection, m->ordinal - conn->http1.read_ordinal - 1);
	if (!conn->n_requests)
		conn->http1.first_ordinal = m->ordinal;
	conn->http1.read_ordinal = m->ordinal;
	conn->http1.read_ns = m->head.time;
}

static void on_http1_read(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct requests *r = &c->requests;
	struct connection *conn = connections_get(&c->connections, connection);
	uint32_t request = conn->http1.reading;

	if (m->part & MESSAGE_FIRST) {
		if (request != NO_REQUEST)
			request_end(c, request, m->head.time, REQUEST_LOST);
		connection_reads(c, connection, m);
		request = request_add(c, connection, m->head.time);
		if (request == NO_REQUEST)
			return;
		conn = connections_get(&c->connections, connection);
		request_begin(c, request, m, PROTOCOL_HTTP1);
		requests_get(r, request)->stream = ++conn->n_requests;
		requests_state(r, request)->ordinal = m->ordinal;
		conn->http1.reading = request;
		if (conn->http1.last == NO_REQUEST)
			conn->http1.first = request;
		else
			requests_state(r, conn->http1.last)->next = request;
		conn->http1.last = request;
	}
	if (request == NO_REQUEST || requests_state(r, request)->ordinal != m->ordinal)
		return;
	requests_get(r, request)->bytes_in = m->bytes;
	fields_use_request_line(c, conn, requests_get(r, request));
	if (m->part & MESSAGE_LAST) {
		conn->http1.reading = NO_REQUEST;
		request_read(c, request, m);
	}
}

/* The request that is answered: the oldest, unless records were lost. */
static uint32_t find_answered(struct correlator *c, uint32_t connection,
			      const struct record_message *m)
{
	struct requests *r = &c->requests;
	struct connection *conn = connections_get(&c->connections, connection);
	uint32_t request = conn->http1.first, ordinal;
	bool before;

	/* The counts were reset: the oldest request is taken for the one that is answered. */
	if (m->part & MESSAGE_FIRST && conn->http1.written_ordinal &&
	    !is_behind(conn->http1.written_ordinal, m->ordinal))
		conn->http1.counts_lost = true;
	if (conn->http1.counts_lost)
		conn->http1.offset =
			m->ordinal - (request == NO_REQUEST ? conn->http1.read_ordinal
							    : requests_state(r, request)->ordinal);
	conn->http1.counts_lost = false;
	ordinal = m->ordinal - conn->http1.offset;
	if (is_behind(conn->http1.written_ordinal + 1, m->ordinal))
		notice_loss(c, conn->http1.written_ns, m->head.time);
	conn->http1.written_ordinal = m->ordinal;
	conn->http1.written_ns = m->head.time;
	while (request != NO_REQUEST && is_behind(requests_state(r, request)->ordinal, ordinal)) {
		request_end(c, request, m->head.time, REQUEST_LOST);
		conn = connections_get(&c->connections, connection);
		request = conn->http1.first;
	}
	if (request != NO_REQUEST && requests_state(r, request)->ordinal == ordinal)
		return request;
	if (!(m->part & MESSAGE_FIRST))
		return NO_REQUEST;
	/* It answers no request: the server closes an idle connection with it. */
	if (request == NO_REQUEST && m->status == STATUS_REQUEST_TIMEOUT && conn->n_requests) {
		conn->http1.offset++;
		return NO_REQUEST;
	}
	/* It answers a request whose records were lost, or one from before the window: the next
	 * request that is read decides which. */
	if (request == NO_REQUEST && is_behind(conn->http1.read_ordinal, ordinal))
		conn->http1.ahead = ordinal - conn->http1.read_ordinal;
	/* The bytes before the first answer were the rest of its request. */
	before = (!conn->n_requests || is_behind(ordinal, conn->http1.first_ordinal)) &&
		 (!conn->passed || (conn->passed == PASSED_FIRST && m->ordinal == 1));
	request = request_add_unread(c, connection, m, PROTOCOL_HTTP1, before);
	if (request == NO_REQUEST)
		return request;
	conn = connections_get(&c->connections, connection);
	requests_state(r, request)->ordinal = ordinal;
	requests_state(r, request)->next = conn->http1.first;
	if (conn->http1.first == NO_REQUEST)
		conn->http1.last = request;
	conn->http1.first = request;
	return request;
}

static void on_http1_written(struct correlator *c, uint32_t connection,
			     const struct record_message *m)
{
	struct requests *r = &c->requests;
	uint32_t request;

	/* Closing is not part of a message, unless it ends one. */
	if (m->part & MESSAGE_CLOSED && !(m->part & MESSAGE_LAST))
		return;
	request = find_answered(c, connection, m);
	if (request == NO_REQUEST)
		return;
	if (m->part & MESSAGE_FIRST)
		request_answer(c, request, m);
	if (m->status)
		requests_get(r, request)->status = m->status;
	requests_get(r, request)->bytes_out = m->bytes;
	/* An answer that ends with the connection ended with its last bytes. */
	if (m->part & MESSAGE_LAST && m->part & MESSAGE_CLOSED)
		request_end(c, request, m->began,
			    requests_state(r, request)->answering ? 0 : REQUEST_LOST);
	else if (m->part & MESSAGE_LAST)
		request_sent(c, request, m,
			     requests_state(r, request)->answering ? 0 : REQUEST_LOST);
}

void http1_on_message(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct connection *conn = connections_get(&c->connections, connection);
	bool request = m->part & MESSAGE_IS_REQUEST, read = m->direction == MESSAGE_READ;

	/* A process that writes requests or reads answers is a client there. */
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

void http1_lose_count(struct connection *conn)
{
	conn->http1.counts_lost = true;
}

void http1_forget(struct correlator *c, uint32_t connection, uint32_t request)
{
	struct http1_connection *h = &connections_get(&c->connections, connection)->http1;
	struct requests *r = &c->requests;

	for (uint32_t *at = &h->first, last = NO_REQUEST; *at != NO_REQUEST;
	     last = *at, at = &requests_state(r, *at)->next)
		if (*at == request) {
			*at = requests_state(r, request)->next;
			if (h->last == request)
				h->last = last;
			break;
		}
	if (h->reading == request)
		h->reading = NO_REQUEST;
}
