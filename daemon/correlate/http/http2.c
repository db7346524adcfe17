/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: each request has a stream of its own. */
#include "daemon/correlate/http/http2.h"

#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"

void http2_on_message(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct requests *r = &c->requests;
	struct connection *conn = connections_get(&c->connections, connection);
	bool read = m->direction == MESSAGE_READ, first = m->part & MESSAGE_FIRST, before;
	uint32_t request;

	if (m->part & MESSAGE_PREFACE) {
		conn->server = read;
		conn->client = !read;
		return;
	}
	if (m->part & MESSAGE_SERVER)
		conn->server = true;
	if (m->part & MESSAGE_NO_FIELDS)
		fields_forget(conn, m->direction);
	if (!conn->server) {
		if (!conn->client)
			messages_note_unknown_role(c);
		return;
	}
	if (!read && first && m->type == FRAME_HEADERS)
		streams_on_written(c, message_thread(c, m), connection, m->stream);
	request = requests_find_stream(r, connection, m->stream);
	/* After a request has ended, resets and the like may still come. */
	if (request != NO_REQUEST && requests_state(r, request)->done)
		return;
	if (request == NO_REQUEST) {
		if (read && (m->type != FRAME_HEADERS || !first))
			return;
		if (!read && m->type == FRAME_RST_STREAM)
			return;
		/* Streams begin in the order of their numbers. */
		before = (!conn->n_requests || m->stream < conn->http2.first_stream) &&
			 !conn->passed;
		request = read ? request_add(c, connection, m->head.time)
			       : request_add_unread(c, connection, m, PROTOCOL_HTTP2, before);
		if (request == NO_REQUEST)
			return;
		conn = connections_get(&c->connections, connection);
		requests_set_stream(c, request, m->stream);
		if (read) {
			if (!conn->n_requests++)
				conn->http2.first_stream = m->stream;
			conn->http2.last_stream = m->stream;
			request_begin(c, request, m, PROTOCOL_HTTP2);
			streams_on_read(c, message_thread(c, m), request);
		}
	}
	if (m->type == FRAME_RST_STREAM) {
		request_end(c, request, m->head.time, REQUEST_RESET);
		return;
	}
	if (first)
		*(read ? &requests_get(r, request)->bytes_in
		       : &requests_get(r, request)->bytes_out) += m->bytes;
	if (first && !read)
		request_answer(c, request, m);
	if (first && m->head.size8 * 8u >= sizeof(struct record_headers))
		fields_set_headers(c, request, (const void *)m);
	if (!(m->part & MESSAGE_LAST))
		return;
	if (read)
		request_read(c, request, m);
	else
		request_sent(c, request, m, 0);
}
