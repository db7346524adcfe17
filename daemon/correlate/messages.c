#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

#define CONNECTIONS_MAX (1u << 18)
/* Frames of HTTP/2 (RFC 9113, 6). */
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST_STREAM = 3, FRAME_CONTINUATION = 9 };
#define STATUS_REQUEST_TIMEOUT 408
/* A position is behind another one by less than this; sequence numbers wrap. */
#define POSITION_MAX (1u << 30)

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
	free(r->waiting);
	free(r->losses);
	map_done(&r->connection_of_socket);
	map_done(&r->arrivals_of_socket);
	map_done(&r->request_of_stream);
	free(r);
	return NULL;
}

/* Counts of messages, and of bytes, wrap. */
static bool is_behind(uint32_t number, uint32_t other)
{
	return (int32_t)(number - other) < 0;
}

static const char *text_of(const struct correlator *c, uint32_t text)
{
	return text == TEXT_NONE ? "" : c->t->texts[text];
}

static void put(struct correlator *c, struct map *map, uint64_t key, uint64_t value)
{
	if (map_put(map, key, value) < 0)
		c->error = -ENOMEM;
}

/* Keys may be any number but one. */
static uint64_t socket_key(uint64_t socket)
{
	return socket == UINT64_MAX ? 0 : socket;
}

static uint64_t stream_key(const struct connection *conn, uint32_t stream)
{
	return conn->number << 32 | stream;
}

static struct arrivals *arrivals_get(struct correlator *c, uint64_t socket)
{
	struct requests *r = c->requests;
	uint64_t *found = map_get(&r->arrivals_of_socket, socket_key(socket));
	struct arrivals *a;

	if (found)
		return &r->arrivals[*found];
	if (r->n_arrivals >= CONNECTIONS_MAX)
		return NULL;
	a = correlator_grow(c, r->arrivals, &r->arrivals_size, r->n_arrivals, sizeof(*a));
	if (!a)
		return NULL;
	r->arrivals = a;
	put(c, &r->arrivals_of_socket, socket_key(socket), r->n_arrivals);
	a[r->n_arrivals] = (struct arrivals){};
	return &a[r->n_arrivals++];
}

static void on_ready(struct correlator *c, const struct record_ready *record)
{
	struct arrivals *a = arrivals_get(c, record->socket);

	c->requests->n_ready++;
	if (!a)
		return;
	/* The same bytes can be told of more than once. */
	if (a->n && a->entries[(a->n - 1) % READY_MAX].position == record->position)
		return;
	a->entries[a->n % READY_MAX].time = record->head.time;
	a->entries[a->n % READY_MAX].position = record->position;
	a->n++;
}

/*
 * When the byte at that sequence number came, 0: not known. *ret_since: what was lost before that time changes nothing about it.
 * *ret_until: the number behind the last byte that came with it.
 */
static uint64_t arrival_of(struct correlator *c, uint64_t socket, uint32_t position, uint64_t *ret_since, uint32_t *ret_until)
{
	const struct arrivals *a = arrivals_get(c, socket);
	uint32_t most = POSITION_MAX;
	uint64_t first = 0;
	unsigned n;

	*ret_since = c->start_ns;
	if (!a)
		return 0;
	n = MIN(a->n, (unsigned)READY_MAX);
	for (unsigned i = 1; i <= n; i++) {
		uint64_t time = a->entries[(a->n - i) % READY_MAX].time;
		uint32_t behind = a->entries[(a->n - i) % READY_MAX].position - position;

		/* The earliest that tells of more than what came before; those of an earlier connection are not in their order. */
		if (!behind || behind > most) {
			*ret_since = time;
			return first;
		}
		most = behind;
		first = time;
		*ret_until = position + behind;
	}
	if (a->n <= READY_MAX)
		return first;
	/* When even the oldest one does, an older one may have been forgotten. */
	*ret_since = first;
	return 0;
}

static void on_unseen(struct correlator *c, const struct record_unseen *record)
{
	if (record->head.site <= UNSEEN_OTHER)
		c->requests->n_unseen[record->head.site]++;
}

/* A new request; NO_REQUEST: no room. */
static uint32_t request_add(struct correlator *c, uint32_t connection, uint64_t start)
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
	list[r->n] = (struct request){ .start_ns = start, .connection = conn->number, .process = conn->process, .read_thread = THREAD_NONE,
				       .write_thread = THREAD_NONE, .run_thread = THREAD_NONE, .method = TEXT_NONE, .path = TEXT_NONE,
				       .model = TEXT_NONE, .version = TEXT_NONE, .status = -1, .grpc_status = -1 };
	states[r->n] = (struct request_state){ .connection = connection, .next = NO_REQUEST };
	r->connections[connection].n_open++;
	return r->n++;
}

/* It is over at that time. */
static void request_end(struct correlator *c, uint32_t request, uint64_t end, unsigned flags)
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
	for (uint32_t *at = &conn->first, last = NO_REQUEST; *at != NO_REQUEST; last = *at, at = &r->states[*at].next)
		if (*at == request) {
			*at = s->next;
			if (conn->last == request)
				conn->last = last;
			break;
		}
	if (conn->reading == request)
		conn->reading = NO_REQUEST;
	if (!(q->flags & REQUEST_NOT_WHOLE) && request_filter_passes(&c->filter, c->t, q))
		c->n_finished++;
}

/* Everything that goes on at a connection. */
static void connection_end_requests(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags)
{
	struct requests *r = c->requests;

	for (uint32_t i = r->n; i > 0 && r->connections[connection].n_open; i--)
		if (r->states[i - 1].connection == connection && !r->states[i - 1].done)
			request_end(c, i - 1, time, flags);
}

static void connection_close(struct correlator *c, uint32_t connection, uint64_t time, unsigned flags)
{
	struct connection *conn = &c->requests->connections[connection];

	connection_end_requests(c, connection, time, flags);
	conn = &c->requests->connections[connection];
	free(conn->fields);
	conn->fields = NULL;
	conn->open = false;
}

static uint32_t connection_get(struct correlator *c, uint64_t socket, uint32_t inode, uint8_t target, uint64_t time)
{
	struct requests *r = c->requests;
	uint64_t *found = map_get(&r->connection_of_socket, socket_key(socket));
	struct connection *conn;

	if (found) {
		conn = &r->connections[*found];
		if (conn->inode == inode && conn->open)
			return (uint32_t)*found;
		connection_close(c, (uint32_t)*found, MIN(conn->last_ns, time), REQUEST_LOST);
	}
	if (r->n_connections >= CONNECTIONS_MAX)
		return NO_REQUEST;
	conn = correlator_grow(c, r->connections, &r->connections_size, r->n_connections, sizeof(*conn));
	if (!conn)
		return NO_REQUEST;
	r->connections = conn;
	put(c, &r->connection_of_socket, socket_key(socket), r->n_connections);
	conn += r->n_connections;
	*conn = (struct connection){ .socket = socket, .inode = inode, .process = target, .number = r->n_connections + 1, .first = NO_REQUEST,
				     .last = NO_REQUEST, .reading = NO_REQUEST, .line = TEXT_NONE, .open = true };
	return r->n_connections++;
}

static struct fields *fields_get(struct correlator *c, struct connection *conn, uint8_t direction)
{
	if (!conn->fields) {
		conn->fields = calloc(2, sizeof(*conn->fields));
		if (!conn->fields) {
			c->error = -ENOMEM;
			return NULL;
		}
		for (unsigned i = 0; i < 2; i++)
			for (unsigned k = 0; k <= FIELD_REQUEST_LINE; k++)
				conn->fields[i].pending[k] = TEXT_NONE;
	}
	return &conn->fields[direction & 1];
}

/* Decodes a text in HPACK's Huffman code, as a field that no table knows. */
static uint32_t text_of_huffman(struct correlator *c, const uint8_t *bytes, size_t size)
{
	uint8_t block[RECORD_FIELD_SIZE + 4];
	nghttp2_hd_inflater *inflater;
	uint32_t text = TEXT_NONE;
	nghttp2_nv field;
	int flags = 0;
	size_t n = 0;

	block[n++] = 0x04; /* a literal :path, not put into the table */
	if (size < 0x7f) {
		block[n++] = (uint8_t)(0x80 | size);
	} else {
		block[n++] = 0xff;
		/* At most RECORD_FIELD_SIZE: one more byte holds the rest, or two. */
		if (size - 0x7f >= 0x80)
			return TEXT_NONE;
		block[n++] = (uint8_t)(size - 0x7f);
	}
	memcpy(block + n, bytes, size);
	n += size;
	if (nghttp2_hd_inflate_new(&inflater) != 0) {
		c->error = -ENOMEM;
		return TEXT_NONE;
	}
	if (nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, n, 1) >= 0 && flags & NGHTTP2_HD_INFLATE_EMIT)
		text = correlator_text(c, (const char *)field.value, field.valuelen);
	nghttp2_hd_inflate_del(inflater);
	return text;
}

static uint32_t text_of_field(struct correlator *c, const struct record_field *r)
{
	/* The part of a text that is kept may end within a code; the whole is not known then. */
	if (r->size > RECORD_FIELD_SIZE && (r->huffman || r->name != FIELD_REQUEST_LINE))
		return correlator_text(c, "(too long)", strlen("(too long)"));
	if (r->huffman)
		return text_of_huffman(c, (const uint8_t *)r->text, r->size);
	return correlator_text(c, r->text, MIN(r->size, RECORD_FIELD_SIZE));
}

static void on_field(struct correlator *c, const struct record_field *r)
{
	uint32_t at = connection_get(c, r->socket, r->inode, r->head.target, r->head.time), text;
	struct connection *conn;
	struct fields *f;

	if (at == NO_REQUEST || r->name > FIELD_REQUEST_LINE)
		return;
	text = text_of_field(c, r);
	conn = &c->requests->connections[at];
	if (r->name == FIELD_REQUEST_LINE) {
		if (r->direction == MESSAGE_READ)
			conn->line = text;
		return;
	}
	f = fields_get(c, conn, r->direction);
	if (!f)
		return;
	if (f->stream != r->stream)
		for (unsigned i = 0; i <= FIELD_REQUEST_LINE; i++)
			f->pending[i] = TEXT_NONE;
	f->stream = r->stream;
	f->pending[r->name] = text;
	if (r->inserted)
		f->known[r->number % FIELDS_MAX] = (struct known_field){ .number = r->number, .name = r->name, .set = true, .text = text };
}

/* A text of a block: literal, or one that the table holds. */
static uint32_t field_of(const struct fields *f, const struct record_headers *h, enum record_field_name name)
{
	if (f->stream == h->message.stream && f->pending[name] != TEXT_NONE)
		return f->pending[name];
	for (unsigned i = 0; i < MIN(h->n_references, (unsigned)RECORD_REFERENCES); i++) {
		uint32_t number = h->inserted - (uint16_t)(h->inserted - h->references[i]);
		const struct known_field *k = &f->known[number % FIELDS_MAX];

		if (k->set && k->number == number && k->name == name)
			return k->text;
	}
	return TEXT_NONE;
}

/* "/v1/models/NAME[/versions/VERSION][:verb]", as model servers have it, also with v2. cut: the path goes on, so what ends with it may, too. */
static void set_model(struct correlator *c, struct request *q, bool cut)
{
	const char *path = text_of(c, q->path), *rest, *version;
	char prefix[12] = "/v_/models/";
	size_t n;

	if (strlen(path) < sizeof(prefix) || (path[2] != '1' && path[2] != '2'))
		return;
	prefix[2] = path[2];
	if (strncmp(path, prefix, sizeof(prefix) - 1))
		return;
	rest = path + sizeof(prefix) - 1;
	n = strcspn(rest, "/:");
	if (!n || (cut && !rest[n]))
		return;
	q->model = correlator_text(c, rest, n);
	rest = text_of(c, q->path) + sizeof(prefix) - 1 + n;
	version = "/versions/";
	if (strncmp(rest, version, strlen(version)))
		return;
	rest += strlen(version);
	n = strcspn(rest, "/:");
	if (n && !(cut && !rest[n]))
		q->version = correlator_text(c, rest, n);
}

static void set_request_line(struct correlator *c, struct request *q, uint32_t line)
{
	const char *text = text_of(c, line), *target = strchr(text, ' ');
	bool cut = strlen(text) >= RECORD_FIELD_SIZE;
	size_t before;

	if (!target)
		return;
	before = (size_t)(target - text);
	q->method = correlator_text(c, text, before);
	text = text_of(c, line) + before + 1;
	q->path = correlator_text(c, text, strcspn(text, " "));
	set_model(c, q, cut);
}

static void request_begin(struct correlator *c, uint32_t request, const struct record_message *m, uint32_t first_position, uint8_t protocol)
{
	struct request_state *s = &c->requests->states[request];
	struct request *q = &c->requests->list[request];
	uint64_t arrival;

	s->since_ns = m->head.time;
	arrival = m->local_port ? arrival_of(c, m->socket, first_position, &s->since_ns, &s->came_until) : 0;
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
		s->came_before = m->local_port && s->since_ns == c->start_ns && !(m->part & MESSAGE_ACCEPTED);
	}
}

/* The thread that passed a message. */
static uint32_t thread_of(struct correlator *c, const struct record_message *m)
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
	bool ahead = m->protocol == MESSAGE_HTTP2 && m->type == FRAME_DATA && m->part & MESSAGE_FIRST;
	uint32_t end = m->position + (ahead ? m->bytes : 0);

	if (s->since_ns == c->start_ns && !(c->requests->list[request].flags & REQUEST_NO_ARRIVAL) && is_behind(end, s->came_until))
		s->came_before = m->local_port && !(m->part & MESSAGE_ACCEPTED);
}

static void request_read(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = c->requests;
	uint32_t thread = thread_of(c, m);

	if (c->error || r->states[request].read)
		return;
	r->states[request].read = true;
	note_end(c, request, m);
	r->list[request].read_end_ns = m->head.time;
	r->list[request].read_thread = thread;
	attribution_on_read(c, thread, request);
}

static void request_answer(struct correlator *c, uint32_t request, const struct record_message *m)
{
	struct requests *r = c->requests;
	uint32_t thread = thread_of(c, m);

	if (c->error || r->states[request].answering)
		return;
	r->states[request].answering = true;
	r->list[request].write_start_ns = MAX(m->began, r->list[request].start_ns);
	r->list[request].write_thread = thread;
	attribution_on_answer(c, thread, request);
}

/*
 * An answer to what was not seen being read. before: nothing that was read can have been it since the window opened; then it was read before
 * that, unless records were lost.
 */
static uint32_t request_unread(struct correlator *c, uint32_t connection, const struct record_message *m, uint8_t protocol, bool before)
{
	bool cut = before && !requests_lost_within(c->requests, c->start_ns, m->head.time);
	uint32_t request = request_add(c, connection, cut ? c->start_ns : MAX(m->began, c->start_ns));
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

/* Nothing is said of the requests of the connection so far: their answers may be others'. */
static void connection_doubt(struct correlator *c, uint32_t connection)
{
	struct requests *r = c->requests;

	for (uint32_t i = 0; i < r->n; i++)
		if (r->states[i].connection == connection) {
			r->list[i].flags |= REQUEST_LOST;
			r->states[i].doubtful = true;
		}
}

/*
 * More was answered than was read. Either records of requests were lost, and then their numbers are missing; or answers to requests of
 * before the window were still to come, and each of them was taken for that of a later request.
 */
static void connection_explain(struct correlator *c, uint32_t connection, uint32_t n_missing)
{
	struct connection *conn = &c->requests->connections[connection];
	uint32_t n_before = conn->ahead - MIN(conn->ahead, n_missing);

	/* Those before the first one that was read were taken for answers to what came before the window. */
	if (conn->n_requests ? n_before : n_missing)
		connection_doubt(c, connection);
	conn->offset += n_before;
	conn->ahead = 0;
}

/* A message's number shows that records were lost, of which nobody told. */
static void notice_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	from = MAX(from, c->start_ns);
	if (!requests_lost_within(c->requests, from, to))
		requests_note_loss(c, from, to);
}

/* The first bytes of the next request were read. */
static void connection_reads(struct correlator *c, uint32_t connection, const struct record_message *m)
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
		set_request_line(c, &r->list[request], conn->line);
		conn->line = TEXT_NONE;
	}
	if (m->part & MESSAGE_LAST) {
		conn->reading = NO_REQUEST;
		request_read(c, request, m);
	}
}

/* The request that is answered: the oldest, unless records of others were lost. */
static uint32_t find_answered(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[connection];
	uint32_t request = conn->first, ordinal;
	bool before;

	/* The counts began anew: the oldest is taken for the one that is answered. */
	if (m->part & MESSAGE_FIRST && conn->written_ordinal && !is_behind(conn->written_ordinal, m->ordinal))
		conn->counts_lost = true;
	if (conn->counts_lost)
		conn->offset = m->ordinal - (request == NO_REQUEST ? conn->read_ordinal : r->states[request].ordinal);
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
	/* Of a request whose own records were lost, or from before the window: what is read next tells. */
	if (request == NO_REQUEST && is_behind(conn->read_ordinal, ordinal))
		conn->ahead = ordinal - conn->read_ordinal;
	/* What passed before the first answer was the rest of what it answers. */
	before = (!conn->n_requests || is_behind(ordinal, conn->first_ordinal)) && (!conn->passed || m->ordinal == 1);
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

static void on_http1_written(struct correlator *c, uint32_t connection, const struct record_message *m)
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
		request_end(c, request, m->part & MESSAGE_CLOSED ? m->began : m->head.time, r->states[request].answering ? 0 : REQUEST_LOST);
}

static void on_http1(struct correlator *c, uint32_t connection, const struct record_message *m)
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

static void set_headers(struct correlator *c, uint32_t request, const struct record_headers *h)
{
	static const int statuses[] = { 200, 204, 206, 304, 400, 404, 500 };
	static const char *const methods[] = { "GET", "POST" };
	static const char *const paths[] = { "/", "/index.html" };
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[r->states[request].connection];
	struct fields *f = fields_get(c, conn, h->message.direction);
	struct request *q = &r->list[request];
	uint32_t text;

	if (!f)
		return;
	if (h->message.direction == MESSAGE_READ) {
		/* Trailers have neither. */
		text = field_of(f, h, FIELD_METHOD);
		if (text != TEXT_NONE)
			q->method = text;
		if (h->method)
			q->method = correlator_text(c, methods[h->method & 1], strlen(methods[h->method & 1]));
		text = field_of(f, h, FIELD_PATH);
		if (text != TEXT_NONE)
			q->path = text;
		if (h->path)
			q->path = correlator_text(c, paths[h->path & 1], strlen(paths[h->path & 1]));
		/* A query is nobody's business. */
		if (q->path != TEXT_NONE && strchr(text_of(c, q->path), '?'))
			q->path = correlator_text(c, text_of(c, q->path), strcspn(text_of(c, q->path), "?"));
		set_model(c, q, false);
	} else {
		text = field_of(f, h, FIELD_STATUS);
		if (h->status >= 8 && h->status <= 14)
			q->status = statuses[h->status - 8];
		else if (text != TEXT_NONE)
			q->status = atoi(text_of(c, text));
		text = field_of(f, h, FIELD_GRPC_STATUS);
		if (text != TEXT_NONE)
			q->grpc_status = atoi(text_of(c, text));
	}
	for (unsigned i = 0; i <= FIELD_REQUEST_LINE; i++)
		f->pending[i] = TEXT_NONE;
}

static void forget_fields(struct connection *conn, uint8_t direction)
{
	for (unsigned i = 0; conn->fields && i < FIELDS_MAX; i++)
		conn->fields[direction & 1].known[i].set = false;
}

static void on_http2(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	struct requests *r = c->requests;
	struct connection *conn = &r->connections[connection];
	bool read = m->direction == MESSAGE_READ, first = m->part & MESSAGE_FIRST, before;
	uint64_t *found;
	uint32_t request;

	if (m->part & MESSAGE_PREFACE) {
		conn->server = read;
		conn->client = !read;
		return;
	}
	if (m->part & MESSAGE_SERVER)
		conn->server = true;
	if (m->part & MESSAGE_NO_FIELDS)
		forget_fields(conn, m->direction);
	if (!conn->server) {
		r->n_unknown_role += !conn->client;
		return;
	}
	found = map_get(&r->request_of_stream, stream_key(conn, m->stream));
	request = found ? (uint32_t)*found : NO_REQUEST;
	/* Of one that is over, resets and the like may still come. */
	if (request != NO_REQUEST && r->states[request].done)
		return;
	if (request == NO_REQUEST) {
		if (read && (m->type != FRAME_HEADERS || !first))
			return;
		if (!read && m->type == FRAME_RST_STREAM)
			return;
		/* Streams begin in the order of their numbers. */
		before = (!conn->n_requests || m->stream < conn->first_ordinal) && !conn->passed;
		request = read ? request_add(c, connection, m->head.time) : request_unread(c, connection, m, PROTOCOL_HTTP2, before);
		if (request == NO_REQUEST)
			return;
		conn = &r->connections[connection];
		if (read && !conn->n_requests++)
			conn->first_ordinal = m->stream;
		r->list[request].stream = m->stream;
		put(c, &r->request_of_stream, stream_key(conn, m->stream), request);
		if (read)
			request_begin(c, request, m, m->position - m->bytes - 9, PROTOCOL_HTTP2);
	}
	if (m->type == FRAME_RST_STREAM) {
		request_end(c, request, m->head.time, REQUEST_RESET);
		return;
	}
	if (first)
		*(read ? &r->list[request].bytes_in : &r->list[request].bytes_out) += m->bytes;
	if (first && !read)
		request_answer(c, request, m);
	if (first && m->head.size8 * 8u >= sizeof(struct record_headers))
		set_headers(c, request, (const void *)m);
	if (!(m->part & MESSAGE_LAST))
		return;
	if (read)
		request_read(c, request, m);
	else
		request_end(c, request, m->head.time, 0);
}

static void on_message(struct correlator *c, const struct record_message *m)
{
	uint32_t at = connection_get(c, m->socket, m->inode, m->head.target, m->head.time);

	if (at == NO_REQUEST)
		return;
	c->requests->connections[at].last_ns = m->head.time;
	if (m->part & MESSAGE_LOST) {
		forget_fields(&c->requests->connections[at], m->direction);
		connection_end_requests(c, at, m->head.time, REQUEST_LOST);
		c->requests->connections[at].counts_lost = true;
		return;
	}
	if (m->part & MESSAGE_PASSED)
		c->requests->connections[at].passed = true;
	else if (m->protocol == MESSAGE_HTTP1)
		on_http1(c, at, m);
	else if (m->protocol == MESSAGE_HTTP2 && !(m->part & MESSAGE_CLOSED))
		on_http2(c, at, m);
	/* Whoever closes in the middle of a request breaks it off. */
	if (m->part & MESSAGE_CLOSED)
		connection_close(c, at, m->head.time, REQUEST_RESET);
}

void requests_on_record(struct correlator *c, const struct record *r)
{
	if (r->kind == RECORD_MESSAGE)
		on_message(c, (const void *)r);
	else if (r->kind == RECORD_FIELD)
		on_field(c, (const void *)r);
	else if (r->kind == RECORD_READY)
		on_ready(c, (const void *)r);
	else if (r->kind == RECORD_UNSEEN)
		on_unseen(c, (const void *)r);
}

void requests_note_finished(struct correlator *c, uint64_t span)
{
	const struct span *s = &c->t->spans[span];
	uint32_t process = c->t->threads[s->thread].process;
	struct request q = { .start_ns = s->start_ns, .end_ns = s->end_ns, .path = TEXT_NONE, .model = TEXT_NONE };

	/* What is marked within a request at a socket is that one. */
	for (uint32_t i = c->requests->n; s->kind == SPAN_RUN && i > 0; i--)
		if (c->requests->list[i - 1].process == process)
			return;
	if (s->flags & SPAN_NOT_WHOLE)
		return;
	if (s->kind == SPAN_HANDLER && s->id >= 0 && (uint64_t)s->id < c->t->n_handlers) {
		q.path = c->t->handlers[s->id].path;
		q.model = c->t->handlers[s->id].model;
	}
	c->n_finished += request_filter_passes(&c->filter, c->t, &q);
}

void requests_note_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	struct requests *r = c->requests;
	uint32_t at = r->n_losses, end;
	struct loss *losses;

	/* They come nearly in order. */
	while (at > 0 && r->losses[at - 1].to_ns >= from)
		at--;
	for (end = at; end < r->n_losses && r->losses[end].from_ns <= to; end++) {
		from = MIN(from, r->losses[end].from_ns);
		to = MAX(to, r->losses[end].to_ns);
	}
	losses = correlator_grow(c, r->losses, &r->losses_size, r->n_losses, sizeof(*losses));
	if (!losses)
		return;
	r->losses = losses;
	memmove(&losses[at + 1], &losses[end], (r->n_losses - end) * sizeof(losses[0]));
	losses[at] = (struct loss){ .from_ns = from, .to_ns = to };
	r->n_losses += 1 - (end - at);
}

bool requests_lost_within(const struct requests *r, uint64_t from, uint64_t to)
{
	uint32_t low = 0, high = r->n_losses;

	/* The first that ends at or after from. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (r->losses[middle].to_ns < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n_losses && r->losses[low].from_ns <= to;
}

/* Of what went on while records were lost something may be missing: its times, its end, whose it is. */
static void mark_lost(struct requests *r)
{
	for (uint32_t i = 0; i < r->n && r->n_losses; i++)
		if (requests_lost_within(r, MIN(r->list[i].start_ns, r->states[i].since_ns), r->list[i].end_ns)) {
			r->list[i].flags |= REQUEST_LOST;
			r->states[i].doubtful = true;
		}
}

/* What was read and never came has come before the window; where nothing is seen to come, that is not known. */
static void mark_cut(struct requests *r)
{
	for (uint32_t i = 0; i < r->n && r->n_ready; i++)
		if (r->states[i].came_before && !(r->list[i].flags & REQUEST_LOST))
			r->list[i].flags |= REQUEST_CUT_START;
}

void requests_cut(struct correlator *c, uint64_t time)
{
	struct requests *r = c->requests;

	for (uint32_t i = 0; i < r->n; i++)
		if (!r->states[i].done)
			request_end(c, i, time, REQUEST_CUT_END);
}

static void warn_of_unseen(struct correlator *c)
{
	static const char *const texts[] = {
		[UNSEEN_IO_URING] = "A process uses io_uring: requests that pass through it are not seen.",
		[UNSEEN_TLS] = "Some connections are encrypted: requests on them are not seen.",
		[UNSEEN_OTHER] = "Some connections speak a protocol that is not known: requests on them are not seen.",
	};
	const struct requests *r = c->requests;

	for (unsigned i = 0; i < ARRAY_SIZE(texts) && !c->error; i++)
		if (r->n_unseen[i] && timeline_warn(c->t, "%s", texts[i]) < 0)
			c->error = -ENOMEM;
	if (r->n_left_out && timeline_warn(c->t, "%llu requests were left out: a capture holds %u.", (unsigned long long)r->n_left_out,
					   REQUESTS_MAX) < 0)
		c->error = -ENOMEM;
	if (r->n_unknown_role && !r->n && timeline_warn(c->t, "Requests on some connections are not shown: it is not known which side serves.") < 0)
		c->error = -ENOMEM;
}

void requests_close(struct correlator *c)
{
	struct requests *r = c->requests;

	requests_cut(c, c->end_ns);
	mark_lost(r);
	mark_cut(r);
	attribution_close(c);
	warn_of_unseen(c);
	c->t->requests = TAKE_PTR(r->list);
	c->t->n_requests = r->n;
	r->n = 0;
}
