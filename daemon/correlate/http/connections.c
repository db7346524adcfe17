/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/connections.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/http/http2.h"
#include "lib/base/macro.h"

#define FRAME_HEAD_BYTES 9

uint32_t request_add(struct correlator *c, uint32_t connection, uint64_t start)
{
	struct connection *conn = connections_get(&c->connections, connection);
	uint32_t request = requests_add(c, connection, conn->process, start);

	if (request != NO_REQUEST)
		conn->n_open++;
	return request;
}

/* The process has no more to do for it. */
static void request_answered(struct correlator *c, uint32_t request)
{
	struct request_state *s = requests_state(&c->requests, request);

	if (s->answered)
		return;
	s->answered = true;
	connections_get(&c->connections, s->connection)->n_open--;
	attribution_on_end(c, request);
	http1_forget(c, s->connection, request);
}

void request_end_counted(struct correlator *c, uint32_t request, uint64_t end, unsigned flags)
{
	struct requests *r = &c->requests;
	struct request *q = requests_get(r, request);

	requests_note_end(r, request);
	q->end_ns = MAX(end, q->start_ns);
	/* Records still arrive while the window closes. */
	q->accepted_ns = MIN(q->accepted_ns, q->end_ns);
	q->read_start_ns = MIN(q->read_start_ns, q->end_ns);
	q->read_end_ns = MIN(q->read_end_ns, q->end_ns);
	q->write_start_ns = MIN(q->write_start_ns, q->end_ns);
	q->held_ns = MIN(q->held_ns, q->end_ns);
	q->flags |= (uint16_t)flags;
	request_answered(c, request);
}

void request_end(struct correlator *c, uint32_t request, uint64_t end, unsigned flags)
{
	struct request_state *s = requests_state(&c->requests, request);

	if (s->done)
		return;
	request_end_counted(c, request, end, flags);
	/* It turns out to be truncated when the window has closed. */
	if (!s->came_before || !arrivals_seen(c))
		finished_add(c, requests_get(&c->requests, request));
}

void request_sent(struct correlator *c, uint32_t request, const struct record_message *m,
		  unsigned flags)
{
	struct request_state *s = requests_state(&c->requests, request);
	struct connection *conn = connections_get(&c->connections, s->connection);

	if (!(m->part & MESSAGE_HELD) || flags) {
		request_end(c, request, m->head.time, flags);
		return;
	}
	if (s->answered)
		return;
	requests_get(&c->requests, request)->held_ns = m->head.time;
	s->held_until = m->position;
	s->next_held = conn->first_held;
	conn->first_held = request;
	request_answered(c, request);
}

void connection_on_departure(struct correlator *c, const struct record_departure *d)
{
	struct requests *r = &c->requests;
	uint64_t *found = map_get(&c->connections.of_socket, connections_socket_key(d->socket));
	struct connection *conn = found ? &c->connections.list[*found] : NULL;
	uint32_t *at;

	if (!conn || conn->inode != d->inode)
		return;
	at = &conn->first_held;
	while (*at != NO_REQUEST) {
		uint32_t request = *at;
		struct request *q = requests_get(r, request);

		if (is_behind(d->position, requests_state(r, request)->held_until)) {
			at = &requests_state(r, request)->next_held;
			continue;
		}
		*at = requests_state(r, request)->next_held;
		if (d->at_once) {
			request_end(c, request, q->held_ns, 0);
			continue;
		}
		q->held_reason = d->reason < HELD_REASONS ? d->reason : HELD_UNKNOWN;
		q->held_bytes = d->bytes;
		request_end(c, request, d->head.time, d->discarded ? REQUEST_RESET : 0);
	}
}

void connection_end_requests(struct correlator *c, uint32_t connection, uint64_t time,
			     unsigned flags)
{
	struct requests *r = &c->requests;
	uint32_t first;

	/* From the oldest one of HTTP/1 on, each of which is found at once. */
	while ((first = connections_get(&c->connections, connection)->http1.first) != NO_REQUEST &&
	       !requests_state(r, first)->answered)
		request_end(c, first, time, flags);
	for (uint32_t i = requests_count(r);
	     i > 0 && connections_get(&c->connections, connection)->n_open; i--)
		if (requests_state(r, i - 1)->connection == connection &&
		    !requests_state(r, i - 1)->answered)
			request_end(c, i - 1, time, flags);
}

void connection_close(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags)
{
	struct connection *conn = connections_get(&c->connections, connection);

	connection_end_requests(c, connection, time, flags);
	conn = connections_get(&c->connections, connection);
	fields_done(conn);
	conn->open = false;
}

uint32_t connection_add(struct correlator *c, uint32_t process)
{
	struct connections *all = &c->connections;
	struct connection *list;

	if (all->n >= CONNECTIONS_MAX)
		return NO_REQUEST;
	list = correlator_grow(c, all->list, &all->size, all->n, sizeof(*list));
	if (!list)
		return NO_REQUEST;
	all->list = list;
	list[all->n] = (struct connection){ .process = process,
					    .fields = CONNECTION_FIELDS_NONE,
					    .http1 = HTTP1_CONNECTION_NEW,
					    .first_held = NO_REQUEST,
					    .ambiguous_until = requests_count(&c->requests),
					    .open = true };
	return all->n++;
}

void connection_note_encrypted(struct correlator *c, uint32_t connection)
{
	struct connection *conn = connections_get(&c->connections, connection);

	if (!conn->encrypted && !conn->decrypted)
		c->connections.n_encrypted[conn->process % RECORD_MAX_TARGETS]++;
	conn->encrypted = true;
}

void connection_note_decrypted(struct correlator *c, uint32_t connection)
{
	struct connection *conn = connections_get(&c->connections, connection);

	if (conn->encrypted && !conn->decrypted)
		c->connections.n_encrypted[conn->process % RECORD_MAX_TARGETS]--;
	conn->decrypted = true;
}

void connections_end(struct connections *c, uint64_t time)
{
	if (!c->until_ns)
		c->until_ns = time;
}

void connections_count_encrypted(const struct connections *c,
				 struct encrypted_connections ret[RECORD_MAX_TARGETS])
{
	memset(ret, 0, RECORD_MAX_TARGETS * sizeof(ret[0]));
	for (uint32_t i = 0; i < c->n; i++) {
		const struct connection *conn = &c->list[i];
		struct encrypted_connections *e = &ret[conn->process % RECORD_MAX_TARGETS];

		e->decrypted += conn->decrypted;
		e->objects += conn->decrypted && conn->server && !conn->inode;
		e->sockets += conn->encrypted && !conn->decrypted;
		e->at_library += conn->at_library;
	}
}

uint32_t connection_get(struct correlator *c, uint64_t socket, uint32_t inode, uint8_t target,
			uint64_t time)
{
	struct connections *all = &c->connections;
	uint64_t *found = map_get(&all->of_socket, connections_socket_key(socket));
	struct connection *conn;
	uint32_t added;

	if (found) {
		conn = &all->list[*found];
		if (conn->inode == inode && conn->open)
			return (uint32_t)*found;
		connection_close(c, (uint32_t)*found, MIN(conn->last_ns, time), REQUEST_LOST);
	}
	added = connection_add(c, target);
	if (added == NO_REQUEST)
		return NO_REQUEST;
	correlator_put(c, &all->of_socket, connections_socket_key(socket), added);
	all->list[added].inode = inode;
	return added;
}

/*
 * When the call that read these bytes began. Where the kernel does not report that, the call counts
 * from when its thread got the CPU or ended its call before, whichever was later; without records
 * of the scheduler, from its end.
 */
static uint64_t read_began(struct correlator *c, const struct record_message *m)
{
	uint32_t thread = m->began < m->head.time ? THREAD_NONE : message_thread(c, m);
	const struct thread_state *s =
		thread == THREAD_NONE || c->error ? NULL : thread_state(c, thread);
	uint64_t since = s ? threads_on_cpu_ns(&s->cpu) : 0;

	return since ? MIN(MAX(since, s->passed_ns), m->began) : m->began;
}

void connection_note_call(struct correlator *c, const struct record_message *m)
{
	uint32_t thread = thread_table_find(c, m->head.tid);

	if (thread != THREAD_NONE && !(m->part & MESSAGE_CLOSED))
		thread_state(c, thread)->passed_ns = m->head.time;
}

/* Its first byte came before its connection was accepted. */
static void note_accepted(struct correlator *c, struct request *q, const struct record_message *m)
{
	uint64_t accepted = arrivals_accepted_ns(c, m->socket);

	q->flags |= REQUEST_UNACCEPTED;
	/* An earlier time is that of another connection with this socket's number. */
	if (accepted > q->start_ns && accepted <= m->head.time)
		q->accepted_ns = accepted;
}

uint32_t message_first_position(const struct record_message *m)
{
	return m->position - m->bytes - (m->protocol == MESSAGE_HTTP2 ? FRAME_HEAD_BYTES : 0);
}

void request_begin(struct correlator *c, uint32_t request, const struct record_message *m,
		   uint8_t protocol)
{
	struct request_state *s = requests_state(&c->requests, request);
	struct request *q = requests_get(&c->requests, request);
	uint64_t began = read_began(c, m);
	uint32_t thread = message_thread(c, m);
	struct arrival arrival = {};

	s->since_ns = m->head.time;
	s->first_at = message_first_position(m);
	s->has_first = !(m->part & MESSAGE_DECRYPTED);
	switches_interrupt(c, thread);
	attribution_on_begin(c, thread, request);
	contexts_on_read(c, thread, request);
	if (m->local_port)
		arrival = arrivals_find(c, m->socket, s->first_at, &s->since_ns, &s->came_until);
	q->protocol = protocol;
	q->local_port = m->local_port;
	q->peer_port = m->peer_port;
	q->read_start_ns = began;
	/* It cannot have come after it was read. */
	if (arrival.time && arrival.time <= m->head.time) {
		q->start_ns = arrival.time;
		q->read_start_ns = MAX(began, arrival.time);
		if (arrival.unaccepted)
			note_accepted(c, q, m);
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
	uint32_t thread = thread_table_get(c, m->head.tid);

	if (!c->error)
		c->t->threads[thread].process = m->head.target;
	return thread;
}

/* A request whose bytes came together with later bytes may have waited since before the window. */
static void note_end(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct request_state *s = requests_state(&c->requests, request);
	bool ahead =
		m->protocol == MESSAGE_HTTP2 && m->type == FRAME_DATA && m->part & MESSAGE_FIRST;
	uint32_t end = m->position + (ahead ? m->bytes : 0);

	if (s->since_ns == c->start_ns &&
	    !(requests_get(&c->requests, request)->flags & REQUEST_NO_ARRIVAL) &&
	    is_behind(end, s->came_until))
		s->came_before = m->local_port && !(m->part & MESSAGE_ACCEPTED);
}

void request_read(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = &c->requests;
	uint32_t thread = message_thread(c, m);

	if (c->error || requests_state(r, request)->read)
		return;
	requests_state(r, request)->read = true;
	note_end(c, request, m);
	requests_get(r, request)->read_end_ns = m->head.time;
	requests_get(r, request)->read_thread = thread;
	attribution_on_read(c, thread, request);
}

void request_answer(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = &c->requests;
	uint32_t thread = message_thread(c, m);
	struct request *q = requests_get(r, request);

	if (c->error || requests_state(r, request)->answering)
		return;
	requests_state(r, request)->answering = true;
	requests_state(r, request)->answer_at = message_first_position(m);
	q->write_start_ns = MAX(m->began, q->start_ns);
	/* The end of a body that was read unseen is noticed at the end of this call. */
	q->read_end_ns = MIN(q->read_end_ns, q->write_start_ns);
	q->write_thread = thread;
	attribution_on_answer(c, thread, request);
}

uint32_t request_add_unread(struct correlator *c, uint32_t connection,
			    const struct record_message *m, uint8_t protocol, bool before)
{
	bool cut = before && !losses_within(&c->losses, c->start_ns, m->head.time);
	uint32_t request =
		request_add(c, connection, cut ? c->start_ns : MAX(m->began, c->start_ns));
	struct request *q;

	if (request == NO_REQUEST)
		return request;
	q = requests_get(&c->requests, request);
	q->flags |= cut ? REQUEST_TRUNCATED_START : REQUEST_LOST;
	requests_state(&c->requests, request)->since_ns = c->start_ns;
	requests_state(&c->requests, request)->ambiguous = !cut;
	q->protocol = protocol;
	q->local_port = m->local_port;
	q->peer_port = m->peer_port;
	requests_state(&c->requests, request)->read = true;
	return request;
}

void connection_make_ambiguous(struct correlator *c, uint32_t connection)
{
	struct requests *r = &c->requests;

	struct connection *conn = connections_get(&c->connections, connection);

	for (uint32_t i = conn->ambiguous_until; i < requests_count(r); i++)
		if (requests_state(r, i)->connection == connection) {
			requests_get(r, i)->flags |= REQUEST_LOST;
			requests_state(r, i)->ambiguous = true;
		}
	conn->ambiguous_until = requests_count(r);
}

void connections_done(struct connections *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		fields_done(&c->list[i]);
	free(c->list);
	map_done(&c->of_socket);
}
