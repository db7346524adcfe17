/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of messages at sockets in, requests out: what each one is, when it happened, and which
 * request a run belongs to. */
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "daemon/correlate/correlate.h"
#include "lib/base/macro.h"
#include "tests/unit/packed.h"

enum {
	S_RUN,
	S_RUN_END,
	S_STREAM,
	S_OPERATIONS,
	S_MARK,
	S_MARK_END,
	S_RUN_OF_PEER,
	S_ASK,
	S_ANSWER,
	S_PEER,
	S_MODEL,
	S_TAKE_UP,
	S_BATCH,
	S_BATCH_END,
	N_SITES
};

static const struct probe_row probes[N_SITES] = {
	[S_RUN] = { OPEN(RUN), .value = { ARGUMENT_1 }, .group = 1, .event = "Run" },
	[S_RUN_END] = { CLOSE(RUN), .group = 1 },
	[S_STREAM] = { OPEN(STREAM), .action = ACTION_READ },
	[S_OPERATIONS] = { POINT(STREAM), .action = ACTION_READ },
	[S_MARK] = { OPEN(RUN), .usdt = "request_begin", .slack = SLACK_ANY, .group = 2 },
	[S_MARK_END] = { CLOSE(RUN), .usdt = "request_end", .group = 2 },
	[S_RUN_OF_PEER] = { OPEN(RUN), .of_peer = true, .group = 1, .event = "Infer" },
	[S_ASK] = { ENQUEUE(STREAM), .value = { ARGUMENT_1 } },
	[S_MODEL] = { POINT(RUN), .action = ACTION_TEXT_NUL, .value = { ARGUMENT_1 } },
	[S_PEER] = { POINT(REQUEST), .value = { ARGUMENT_1 } },
	[S_ANSWER] = { DEQUEUE(STREAM), .value = { ARGUMENT_1 } },
	[S_TAKE_UP] = { DEQUEUE(BATCH), .action = ACTION_READ, .value2 = { ARGUMENT_2 } },
	[S_BATCH] = { OPEN(BATCH), .event = "Batch" },
	[S_BATCH_END] = { CLOSE(BATCH) },
};

static bool any(const char *s, uint32_t size)
{
	return size > 0;
}

static const char *const cheap[] = { NULL };
static const struct pack pack = { .name = "test",
				  .rows = probes,
				  .n_rows = N_SITES,
				  .cheap_types = cheap,
				  .names = { .is_name = any, .is_type = any, .type_distance = 16 },
				  .stream_bits = { 1, 2, 4, 64 } };

#define WINDOW_START 1000
#define WINDOW_END 900000
#define RECORDS_MAX 1024
#define PORT 8501

static union {
	struct record head;
	struct record_message message;
	struct record_headers headers;
	struct record_field field;
	struct record_ready ready;
	struct record_accepted accepted;
	struct record_unseen unseen;
	struct record_probe2 probe;
	struct record_wake wake;
	struct record_text text;
} space[RECORDS_MAX];
static unsigned n_records;
static uint64_t n_finished; /* until the window closed */

/* The connection, stream and thread of the next records. */
static uint8_t target;
static uint32_t inode;     /* 0: the socket's number */
static bool server = true; /* it is known that the target serves there */

static void *add(uint64_t time, uint32_t tid, uint8_t kind, size_t size)
{
	struct record *r = &space[n_records].head;

	memset(&space[n_records++], 0, sizeof(space[0]));
	*r = (struct record){ .time = time,
			      .tid = tid,
			      .kind = kind,
			      .size8 = (uint8_t)(size / 8),
			      .target = target };
	return r;
}

static void fill(struct record_message *m, uint64_t socket, uint8_t direction, uint8_t protocol,
		 unsigned part)
{
	m->began = m->head.time - 10;
	m->socket = socket;
	m->inode = inode ?: (uint32_t)socket;
	m->bytes = 100;
	m->local_port = PORT;
	m->peer_port = (uint16_t)(40000 + socket);
	m->part = (uint16_t)(part | (server ? MESSAGE_SERVER : 0));
	m->direction = direction;
	m->protocol = protocol;
}

/* As the kernel's programs count them. */
static uint32_t ordinals[64][2];

/* HTTP/1: part of a message. */
static struct record_message *message(uint64_t time, uint32_t tid, uint64_t socket,
				      uint8_t direction, unsigned part)
{
	struct record_message *m = add(time, tid, RECORD_MESSAGE, sizeof(*m));
	uint32_t *ordinal = &ordinals[(socket ^ inode) % 64][direction];

	fill(m, socket, direction, MESSAGE_HTTP1, part);
	*ordinal += (part & MESSAGE_FIRST) != 0;
	m->ordinal = *ordinal;
	return m;
}

static struct record_field *text(uint64_t time, uint64_t socket, uint8_t name, const char *bytes,
				 size_t size)
{
	struct record_field *r = add(time, 1, RECORD_FIELD, sizeof(*r));

	r->socket = socket;
	r->inode = inode ?: (uint32_t)socket;
	r->direction = MESSAGE_READ;
	r->name = name;
	r->size = (uint16_t)size;
	memcpy(r->text, bytes, MIN(size, sizeof(r->text)));
	return r;
}

static void line(uint64_t time, uint64_t socket, const char *bytes)
{
	text(time, socket, FIELD_REQUEST_LINE, bytes, strlen(bytes));
}

/* A whole request, "POST /path". */
static struct record_message *asked(uint64_t time, uint32_t tid, uint64_t socket, const char *bytes)
{
	line(time, socket, bytes);
	return message(time, tid, socket, MESSAGE_READ,
		       MESSAGE_FIRST | MESSAGE_LAST | MESSAGE_IS_REQUEST);
}

static struct record_message *answered(uint64_t time, uint32_t tid, uint64_t socket,
				       uint16_t status)
{
	struct record_message *m =
		message(time, tid, socket, MESSAGE_WRITTEN, MESSAGE_FIRST | MESSAGE_LAST);

	m->status = status;
	return m;
}

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3 };
#define STATIC_200 8
#define STATIC_POST 3

/* HTTP/2: a frame, or the end of a stream. */
static struct record_message *frame(uint64_t time, uint32_t tid, uint64_t socket, uint32_t stream,
				    uint8_t direction, uint8_t type, unsigned part)
{
	struct record_message *m = add(time, tid, RECORD_MESSAGE, sizeof(*m));

	fill(m, socket, direction, MESSAGE_HTTP2, part);
	m->stream = stream;
	m->type = type;
	return m;
}

static struct record_headers *headers(uint64_t time, uint32_t tid, uint64_t socket, uint32_t stream,
				      uint8_t direction)
{
	struct record_headers *h = add(time, tid, RECORD_MESSAGE, sizeof(*h));

	fill(&h->message, socket, direction, MESSAGE_HTTP2, MESSAGE_FIRST);
	h->message.stream = stream;
	h->message.type = HEADERS;
	return h;
}

static struct record_field *field(uint64_t time, uint64_t socket, uint32_t stream, uint8_t name,
				  const char *bytes)
{
	struct record_field *r = text(time, socket, name, bytes, strlen(bytes));

	r->stream = stream;
	return r;
}

static void asked2(uint64_t time, uint32_t tid, uint64_t socket, uint32_t stream, const char *path)
{
	field(time, socket, stream, FIELD_PATH, path);
	headers(time, tid, socket, stream, MESSAGE_READ)->method = STATIC_POST;
	frame(time, tid, socket, stream, MESSAGE_READ, DATA, MESSAGE_FIRST | MESSAGE_LAST);
}

static void answered2(uint64_t time, uint32_t tid, uint64_t socket, uint32_t stream)
{
	headers(time, tid, socket, stream, MESSAGE_WRITTEN)->status = STATIC_200;
	frame(time, tid, socket, stream, MESSAGE_WRITTEN, DATA, MESSAGE_FIRST | MESSAGE_LAST);
}

static struct record_ready *ready(uint64_t time, uint64_t socket, uint32_t position)
{
	struct record_ready *r = add(time, 0, RECORD_READY, sizeof(*r));

	r->socket = socket;
	r->position = position;
	return r;
}

static void unseen(uint64_t time, uint8_t what)
{
	struct record_unseen *r = add(time, 1, RECORD_UNSEEN, sizeof(*r));

	r->head.site = what;
}

static void ran_at(uint8_t site, uint64_t start, uint64_t end, uint32_t tid)
{
	struct record_probe *r = add(start, tid, RECORD_PROBE, sizeof(*r));

	r->head.site = site;
	r->stack = 500;
	r->value = start;
	r = add(end, tid, RECORD_PROBE, sizeof(*r));
	r->head.site = S_RUN_END;
	r->stack = 450;
}

/* A run, known by its start. */
static void ran(uint64_t start, uint64_t end, uint32_t tid)
{
	ran_at(S_RUN, start, end, tid);
}

/* gRPC's library makes an object for a stream of a transport. */
static void stream_begins(uint64_t time, uint32_t tid, uint32_t transport, uint64_t object,
			  uint64_t stream)
{
	struct record_probe2 *r = add(time, tid, RECORD_PROBE, sizeof(*r));

	r->probe.head.site = S_STREAM;
	r->probe.stack = 400;
	r->probe.tag = transport;
	r->probe.value = object;
	r->value2 = stream;
}

/* A row with a value. */
static void valued(uint8_t site, uint64_t time, uint32_t tid, uint32_t stack, uint64_t value)
{
	struct record_probe *r = add(time, tid, RECORD_PROBE, sizeof(*r));

	r->head.site = site;
	r->stack = stack;
	r->value = value;
}

enum { SEND_HEADERS = 1, SEND_TRAILERS = 2, SEND_MESSAGE = 4, RECEIVE_MESSAGE = 16, ABORT = 64 };

static void stream_wants(uint64_t time, uint32_t tid, uint64_t object, uint64_t bits)
{
	struct record_probe2 *r = add(time, tid, RECORD_PROBE, sizeof(*r));

	r->probe.head.site = S_OPERATIONS;
	r->probe.stack = 400;
	r->probe.value = object;
	r->value2 = 0xabcdef00 | bits;
}

#define SYSCALL_FUTEX 202

static void waits(uint64_t time, uint32_t tid)
{
	struct record_switch *r = add(time, tid, RECORD_SWITCH, sizeof(*r));

	r->flags = SWITCH_OUT;
	r->state = 1;
	r->syscall = SYSCALL_FUTEX;
}

static void woken_by(uint64_t time, uint32_t tid, uint32_t waker)
{
	struct record_wake *r = add(time, tid, RECORD_WAKE, sizeof(*r));

	r->waker_tid = waker;
	r->waker_syscall = SYSCALL_FUTEX;
}

static void woken(uint64_t time, uint32_t tid)
{
	woken_by(time, tid, 1);
}

static uint64_t shed_ns; /* 0: nothing is shed */
static enum probe_kind shed_kind = KIND_SOCKETS;
static uint64_t lost_ns; /* a record was lost then; 0: none was */

static int compare(const void *a, const void *b)
{
	const uint64_t x = space[*(const unsigned *)a].head.time,
		       y = space[*(const unsigned *)b].head.time;

	return x != y ? (x < y ? -1 : 1) : *(const unsigned *)a < *(const unsigned *)b ? -1 : 1;
}

/* What is true for every timeline, whatever the input. */
static void check_all(const struct timeline *t)
{
	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *q = &t->requests[i];
		uint64_t sum = 0;

		for (unsigned p = 0; p < PHASE_COUNT; p++)
			sum += q->phases[p];
		CHECK_EQ(sum, q->end_ns - q->start_ns);
		CHECK(q->start_ns >= t->start_ns && q->start_ns <= q->end_ns &&
		      q->end_ns <= t->end_ns);
		CHECK(!i || t->requests[i - 1].start_ns <= q->start_ns);
	}
	for (uint64_t i = 0; i < t->n_spans; i++)
		CHECK(t->spans[i].request <= t->n_requests);
}

/* Feeds what was added, in order of time, as the rings are read. */
static struct timeline *run(void)
{
	const struct correlate_target targets[] = {
		{ .pid = 77, .name = "server", .packs = set_of(&pack) },
		{ .pid = 78, .name = "other", .packs = set_of(&pack) }
	};
	struct correlator *c = NULL;
	struct timeline *t = NULL;
	unsigned order[RECORDS_MAX];

	for (unsigned i = 0; i < n_records; i++)
		order[i] = i;
	qsort(order, n_records, sizeof(order[0]), compare);
	CHECK_EQ(correlator_new(WINDOW_START, &c), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(targets); i++)
		CHECK_EQ(correlator_add_target(c, &targets[i]), 0);
	for (unsigned i = 0; i < n_records; i++) {
		if (shed_ns && space[order[i]].head.time >= shed_ns) {
			CHECK_EQ(correlator_shed(c, shed_kind, shed_ns, "too expensive"), 0);
			shed_ns = 0;
		}
		CHECK_EQ(correlator_feed(c, &space[order[i]].head), 0);
	}
	if (lost_ns)
		CHECK_EQ(correlator_note_loss(c, lost_ns, lost_ns), 0);
	n_finished = correlator_n_finished(c);
	CHECK_EQ(correlator_finish(c, WINDOW_END, 5000000000, &t), 0);
	correlator_free(c);
	n_records = 0;
	memset(ordinals, 0, sizeof(ordinals));
	shed_ns = 0;
	lost_ns = 0;
	shed_kind = KIND_SOCKETS;
	target = 0;
	inode = 0;
	server = true;
	check_all(t);
	return t;
}

static const char *text_at(const struct timeline *t, uint32_t index)
{
	return index == TEXT_NONE ? "" : t->texts[index];
}

/* The request with this path ("": none); another one is returned if it is missing. */
static const struct request *find(const struct timeline *t, const char *path)
{
	static const struct request none = { .status = -2 };

	for (uint32_t i = 0; i < t->n_requests; i++)
		if (!strcmp(text_at(t, t->requests[i].path), path))
			return &t->requests[i];
	fprintf(stderr, "  no request '%s'\n", path);
	check_failures++;
	return &none;
}

/* The path of the request to which the run that began then belongs; NULL: none. */
static const char *owner(const struct timeline *t, uint64_t start)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_RUN && t->spans[i].start_ns == start)
			return t->spans[i].request
				       ? text_at(t, t->requests[t->spans[i].request - 1].path)
				       : NULL;
	return "no such run";
}

static void expect_times(const struct request *q, uint64_t start, uint64_t read_start,
			 uint64_t read_end, uint64_t write_start, uint64_t end)
{
	CHECK_EQ(q->start_ns, start);
	CHECK_EQ(q->read_start_ns, read_start);
	CHECK_EQ(q->read_end_ns, read_end);
	CHECK_EQ(q->write_start_ns, write_start);
	CHECK_EQ(q->end_ns, end);
}

static bool warns(const struct timeline *t, const char *part)
{
	for (uint32_t i = 0; i < t->n_warnings; i++)
		if (strstr(t->warnings[i], part))
			return true;
	return false;
}

TEST(requests_on_one_connection_follow_each_other)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	answered(2500, 1, 5, 200);
	asked(3000, 1, 5, "GET /b");
	answered(3500, 2, 5, 404);
	t = run();
	CHECK_EQ(t->n_requests, 2);
	expect_times(find(t, "/a"), 2000, 2000, 2000, 2490, 2500);
	CHECK_EQ(find(t, "/a")->status, 200);
	CHECK_EQ(find(t, "/a")->stream, 1);
	CHECK_EQ(find(t, "/b")->status, 404);
	CHECK_EQ(find(t, "/b")->stream, 2);
	CHECK_STR(text_at(t, find(t, "/b")->method), "GET");
	CHECK_EQ(find(t, "/b")->connection, find(t, "/a")->connection);
	CHECK_EQ(find(t, "/b")->local_port, PORT);
	CHECK_EQ(find(t, "/b")->peer_port, 40005);
	CHECK_EQ(find(t, "/b")->protocol, PROTOCOL_HTTP1);
	CHECK_EQ(find(t, "/b")->flags, REQUEST_NO_ARRIVAL);
	CHECK_EQ(t->threads[find(t, "/b")->read_thread].tid, 1);
	CHECK_EQ(t->threads[find(t, "/b")->write_thread].tid, 2);
	timeline_free(t);
}

TEST(a_message_in_several_calls_is_one)
{
	struct timeline *t;

	line(2000, 5, "POST /a");
	message(2000, 1, 5, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_IS_REQUEST)->bytes = 50;
	message(2200, 3, 5, MESSAGE_READ, MESSAGE_LAST | MESSAGE_IS_REQUEST)->bytes = 700;
	message(2500, 1, 5, MESSAGE_WRITTEN, MESSAGE_FIRST)->status = 200;
	message(2900, 1, 5, MESSAGE_WRITTEN, MESSAGE_LAST)->bytes = 9000;
	t = run();
	CHECK_EQ(t->n_requests, 1);
	expect_times(find(t, "/a"), 2000, 2000, 2200, 2490, 2900);
	CHECK_EQ(find(t, "/a")->bytes_in, 700);
	CHECK_EQ(find(t, "/a")->bytes_out, 9000);
	CHECK_EQ(t->threads[find(t, "/a")->read_thread].tid, 3);
	timeline_free(t);
}

TEST(pipelined_requests_are_answered_in_their_order)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2000, 1, 5, "POST /b");
	asked(2000, 1, 5, "POST /c");
	answered(2500, 1, 5, 201);
	asked(2600, 1, 5, "POST /d");
	answered(2700, 1, 5, 202);
	answered(2700, 1, 5, 203);
	answered(2900, 1, 5, 205);
	t = run();
	CHECK_EQ(t->n_requests, 4);
	CHECK_EQ(find(t, "/a")->status, 201);
	CHECK_EQ(find(t, "/b")->status, 202);
	CHECK_EQ(find(t, "/c")->status, 203);
	CHECK_EQ(find(t, "/d")->status, 205);
	CHECK_EQ(find(t, "/c")->stream, 3);
	timeline_free(t);
}

TEST(an_answer_before_the_request_was_read_is_its_answer)
{
	struct timeline *t;

	line(2000, 5, "POST /early");
	message(2000, 1, 5, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_IS_REQUEST);
	answered(2500, 1, 5, 413);
	message(2600, 1, 5, MESSAGE_READ, MESSAGE_LAST | MESSAGE_IS_REQUEST);
	asked(3000, 1, 5, "POST /next");
	answered(3500, 1, 5, 200);
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK_EQ(find(t, "/early")->status, 413);
	CHECK_EQ(find(t, "/early")->end_ns, 2500);
	CHECK_EQ(find(t, "/early")->read_end_ns, 0);
	CHECK_EQ(find(t, "/next")->status, 200);
	timeline_free(t);
}

TEST(an_answer_that_ends_with_its_connection_ends_with_its_last_bytes)
{
	struct timeline *t;
	struct record_message *m;

	asked(2000, 1, 5, "GET /a");
	message(2500, 1, 5, MESSAGE_WRITTEN, MESSAGE_FIRST)->status = 200;
	m = message(4000, 1, 5, MESSAGE_WRITTEN, MESSAGE_LAST | MESSAGE_CLOSED);
	m->began = 2600;
	m->bytes = 5000;
	t = run();
	CHECK_EQ(find(t, "/a")->end_ns, 2600);
	CHECK_EQ(find(t, "/a")->bytes_out, 5000);
	CHECK_EQ(find(t, "/a")->flags, REQUEST_NO_ARRIVAL);
	timeline_free(t);
}

static struct record_departure *departed(uint64_t time, uint64_t socket, uint32_t position,
					 uint8_t reason, bool discarded)
{
	struct record_departure *r = add(time, 0, RECORD_DEPARTURE, sizeof(*r));

	*r = (struct record_departure){ .head = r->head,
					.socket = socket,
					.inode = inode ?: (uint32_t)socket,
					.position = position,
					.bytes = 46,
					.reason = reason,
					.discarded = discarded };
	return r;
}

/* An answer whose end is in the socket when its call returns. */
static struct record_message *held(uint64_t time, uint32_t tid, uint64_t socket, uint32_t position)
{
	struct record_message *m = answered(time, tid, socket, 200);

	m->part |= MESSAGE_HELD;
	m->position = position;
	return m;
}

TEST(an_answer_whose_end_left_unseen_ends_with_its_call)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	held(2500, 1, 5, 100);
	/* Seen by a packet that came much later. */
	departed(4000, 5, 100, HELD_NAGLE, false)->at_once = 1;
	t = run();
	CHECK_EQ(find(t, "/a")->end_ns, 2500);
	CHECK_EQ(find(t, "/a")->held_bytes, 0);
	CHECK_EQ(find(t, "/a")->phases[PHASE_SEND_HELD], 0);
	CHECK_EQ(find(t, "/a")->flags, REQUEST_NO_ARRIVAL);
	timeline_free(t);
}

TEST(an_answer_ends_when_its_last_byte_has_left_the_socket)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	held(2500, 1, 5, 100);
	/* Pipelined, and of another connection. */
	asked(3000, 1, 5, "POST /b");
	held(3500, 1, 5, 200);
	departed(3600, 6, 200, HELD_CORK, false);
	departed(4000, 5, 150, HELD_NAGLE, false);
	/* It was closed before its bytes left. */
	message(4500, 1, 5, MESSAGE_WRITTEN, MESSAGE_CLOSED);
	departed(5000, 5, 200, HELD_WINDOW, false);
	asked(6000, 1, 7, "POST /reset");
	held(6500, 1, 7, 100);
	departed(7000, 7, 100, HELD_REASONS, true);
	asked(8000, 1, 8, "POST /open");
	held(8500, 1, 8, 100);
	t = run();
	CHECK_EQ(t->n_requests, 4);
	CHECK_EQ(find(t, "/a")->held_ns, 2500);
	CHECK_EQ(find(t, "/a")->end_ns, 4000);
	CHECK_EQ(find(t, "/a")->held_reason, HELD_NAGLE);
	CHECK_EQ(find(t, "/a")->held_bytes, 46);
	CHECK_EQ(find(t, "/a")->phases[PHASE_SEND_HELD], 1500);
	CHECK_EQ(find(t, "/b")->end_ns, 5000);
	CHECK_EQ(find(t, "/b")->held_reason, HELD_WINDOW);
	CHECK_EQ(find(t, "/b")->flags, REQUEST_NO_ARRIVAL);
	CHECK_EQ(find(t, "/reset")->end_ns, 7000);
	CHECK_EQ(find(t, "/reset")->held_reason, HELD_UNKNOWN);
	CHECK(find(t, "/reset")->flags & REQUEST_RESET);
	CHECK(find(t, "/open")->flags & REQUEST_TRUNCATED_END);
	CHECK_EQ(find(t, "/open")->phases[PHASE_SEND_HELD], WINDOW_END - 8500);
	timeline_free(t);
}

TEST(a_closed_connection_aborts_requests_in_progress)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /done");
	answered(2100, 1, 5, 200);
	asked(2200, 1, 5, "POST /waits");
	line(2300, 5, "POST /half");
	message(2300, 1, 5, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_IS_REQUEST);
	message(2400, 1, 5, MESSAGE_READ, MESSAGE_CLOSED | MESSAGE_IS_REQUEST)->protocol =
		MESSAGE_NEW;
	t = run();
	CHECK_EQ(t->n_requests, 3);
	CHECK_EQ(find(t, "/done")->flags, REQUEST_NO_ARRIVAL);
	CHECK_EQ(find(t, "/waits")->flags, REQUEST_NO_ARRIVAL | REQUEST_RESET);
	CHECK_EQ(find(t, "/half")->flags, REQUEST_NO_ARRIVAL | REQUEST_RESET);
	CHECK_EQ(find(t, "/half")->end_ns, 2400);
	timeline_free(t);
}

TEST(requests_at_either_edge_of_the_window_are_truncated)
{
	struct timeline *t;

	answered(2000, 1, 5, 200);
	message(2100, 1, 6, MESSAGE_WRITTEN,
		MESSAGE_LAST); /* the rest of an answer that began before */
	asked(3000, 1, 5, "POST /after");
	line(4000, 7, "POST /half");
	message(4000, 1, 7, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_IS_REQUEST);
	t = run();
	CHECK_EQ(t->n_requests, 3);
	CHECK_EQ(find(t, "")->flags, REQUEST_TRUNCATED_START);
	expect_times(find(t, ""), WINDOW_START, 0, 0, 1990, 2000);
	CHECK_EQ(find(t, "/after")->flags, REQUEST_TRUNCATED_END | REQUEST_NO_ARRIVAL);
	CHECK_EQ(find(t, "/after")->end_ns, WINDOW_END);
	CHECK_EQ(find(t, "/half")->flags, REQUEST_TRUNCATED_END | REQUEST_NO_ARRIVAL);
	timeline_free(t);
}

TEST(messages_that_cannot_be_followed_are_lost_but_later_ones_are_not)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /lost");
	message(2100, 1, 5, MESSAGE_READ, MESSAGE_LOST)->protocol = MESSAGE_NEW;
	asked(2200, 1, 5, "POST /whole");
	answered(2300, 1, 5, 200);
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK(find(t, "/lost")->flags & REQUEST_LOST);
	CHECK_EQ(find(t, "/whole")->flags, REQUEST_NO_ARRIVAL);
	timeline_free(t);
	line(3000, 6, "POST /restarted");
	message(3000, 1, 6, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_IS_REQUEST);
	asked(3100, 1, 6,
	      "POST /instead"); /* its end was not recorded, and neither was that of its answer */
	answered(3200, 1, 6, 200)->ordinal = 2;
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK(find(t, "/restarted")->flags & REQUEST_LOST);
	CHECK_EQ(find(t, "/instead")->status, 200);
	timeline_free(t);
}

TEST(calls_that_a_target_makes_are_not_requests_to_it)
{
	struct timeline *t;

	line(2000, 5, "POST /client");
	space[n_records - 1].field.direction = MESSAGE_WRITTEN;
	message(2000, 1, 5, MESSAGE_WRITTEN, MESSAGE_FIRST | MESSAGE_LAST | MESSAGE_IS_REQUEST);
	message(2500, 1, 5, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_LAST)->status = 200;
	server = false;
	frame(3000, 1, 6, 0, MESSAGE_WRITTEN, 0, MESSAGE_PREFACE);
	field(3000, 6, 1, FIELD_PATH, "/client2");
	headers(3000, 1, 6, 1, MESSAGE_WRITTEN);
	headers(3100, 1, 6, 1, MESSAGE_READ)->status = STATIC_200;
	frame(3100, 1, 6, 1, MESSAGE_READ, DATA, MESSAGE_FIRST | MESSAGE_LAST);
	t = run();
	CHECK_EQ(t->n_requests, 0);
	CHECK_EQ(t->n_warnings, 0);
	timeline_free(t);
}

TEST(streams_are_distinguished_in_any_order)
{
	struct timeline *t;

	server = false;
	frame(1900, 1, 5, 0, MESSAGE_READ, 0, MESSAGE_PREFACE);
	for (uint32_t s = 1; s < 9; s += 2) {
		field(2000 + s, 5, s, FIELD_PATH, (char[]){ '/', (char)('0' + s), 0 });
		headers(2000 + s, 1, 5, s, MESSAGE_READ)->method = STATIC_POST;
	}
	for (uint32_t s = 7; s < 9; s -= 2)
		frame(2100 + s, 2, 5, s, MESSAGE_READ, DATA, MESSAGE_FIRST | MESSAGE_LAST)->bytes =
			1000 + s;
	for (uint32_t s = 1; s < 9; s += 2)
		headers(2200 + s, 3, 5, s, MESSAGE_WRITTEN)->status = STATIC_200;
	for (uint32_t s = 7; s < 9; s -= 2) {
		frame(2300 + s, 3, 5, s, MESSAGE_WRITTEN, DATA, MESSAGE_FIRST)->bytes = 2000 + s;
		frame(2400 + s, 3, 5, s, MESSAGE_WRITTEN, DATA, MESSAGE_LAST);
	}
	t = run();
	CHECK_EQ(t->n_requests, 4);
	for (uint32_t s = 1; s < 9; s += 2) {
		const struct request *q = find(t, (char[]){ '/', (char)('0' + s), 0 });

		expect_times(q, 2000 + s, 2000 + s, 2100 + s, 2190 + s, 2400 + s);
		CHECK_EQ(q->stream, s);
		CHECK_EQ(q->protocol, PROTOCOL_HTTP2);
		CHECK_EQ(q->bytes_in, 1100 + s);
		CHECK_EQ(q->bytes_out, 2100 + s);
		CHECK_EQ(q->status, 200);
		CHECK_EQ(q->grpc_status, -1);
		CHECK_STR(text_at(t, q->method), "POST");
		CHECK_EQ(t->threads[q->read_thread].tid, 2);
	}
	timeline_free(t);
}

TEST(trailers_end_a_stream_and_keep_its_fields)
{
	struct timeline *t;
	struct record_field *f;

	field(2000, 5, 1, FIELD_PATH, "/pkg.Service/Call");
	headers(2000, 1, 5, 1, MESSAGE_READ)->method = STATIC_POST;
	headers(2050, 1, 5, 1, MESSAGE_READ); /* the request has trailers, too */
	frame(2050, 1, 5, 1, MESSAGE_READ, HEADERS, MESSAGE_LAST);
	headers(2100, 1, 5, 1, MESSAGE_WRITTEN)->status = STATIC_200;
	frame(2150, 1, 5, 1, MESSAGE_WRITTEN, DATA, MESSAGE_FIRST);
	f = field(2200, 5, 1, FIELD_GRPC_STATUS, "14");
	f->direction = MESSAGE_WRITTEN;
	headers(2200, 1, 5, 1, MESSAGE_WRITTEN);
	frame(2200, 1, 5, 1, MESSAGE_WRITTEN, HEADERS, MESSAGE_LAST);
	t = run();
	CHECK_EQ(t->n_requests, 1);
	expect_times(find(t, "/pkg.Service/Call"), 2000, 2000, 2050, 2090, 2200);
	CHECK_STR(text_at(t, find(t, "/pkg.Service/Call")->method), "POST");
	CHECK_EQ(find(t, "/pkg.Service/Call")->status, 200);
	CHECK_EQ(find(t, "/pkg.Service/Call")->grpc_status, 14);
	timeline_free(t);
}

TEST(a_reset_stream_is_aborted_unless_it_was_complete)
{
	struct timeline *t;

	asked2(2000, 1, 5, 1, "/client");
	frame(2100, 1, 5, 1, MESSAGE_READ, RST_STREAM, MESSAGE_FIRST);
	answered2(2150, 1, 5, 1); /* on its way already */
	asked2(2200, 1, 5, 3, "/server");
	headers(2300, 1, 5, 3, MESSAGE_WRITTEN)->status = STATIC_200;
	frame(2400, 1, 5, 3, MESSAGE_WRITTEN, RST_STREAM, MESSAGE_FIRST);
	asked2(2500, 1, 5, 5, "/over");
	answered2(2600, 1, 5, 5);
	frame(2700, 1, 5, 5, MESSAGE_WRITTEN, RST_STREAM, MESSAGE_FIRST);
	frame(2800, 1, 5, 7, MESSAGE_READ, RST_STREAM,
	      MESSAGE_FIRST); /* of streams that were never seen */
	frame(2800, 1, 5, 9, MESSAGE_WRITTEN, RST_STREAM, MESSAGE_FIRST);
	frame(2800, 1, 5, 11, MESSAGE_READ, DATA, MESSAGE_FIRST | MESSAGE_LAST);
	t = run();
	CHECK_EQ(t->n_requests, 3);
	CHECK(find(t, "/client")->flags & REQUEST_RESET);
	CHECK_EQ(find(t, "/client")->end_ns, 2100);
	CHECK_EQ(find(t, "/client")->status, -1);
	CHECK_EQ(find(t, "/client")->bytes_out, 0);
	CHECK(find(t, "/server")->flags & REQUEST_RESET);
	CHECK_EQ(find(t, "/server")->status, 200);
	CHECK_EQ(find(t, "/over")->end_ns, 2600);
	CHECK(!(find(t, "/over")->flags & REQUEST_RESET));
	timeline_free(t);
}

TEST(paths_come_from_literals_and_from_the_table)
{
	static const uint8_t coded[] = {
		0x60, 0xd5, 0x48, 0x5f, 0x2b, 0xce, 0x9a, 0x68
	}; /* "/index.html" */
	struct record_headers *h;
	struct record_field *f;
	struct timeline *t;

	f = field(2000, 5, 1, FIELD_PATH, "/kept");
	f->inserted = 1;
	f->number = 70000;
	h = headers(2000, 1, 5, 1, MESSAGE_READ);
	h->inserted = 70001;
	answered2(2010, 1, 5, 1);
	/* Only the low halves of numbers are reported. */
	h = headers(2100, 1, 5, 3, MESSAGE_READ);
	h->inserted = 70003;
	h->n_references = 2;
	h->references[0] = (uint16_t)70002;
	h->references[1] = (uint16_t)70000;
	answered2(2110, 1, 5, 3);
	f = text(2200, 5, FIELD_PATH, (const char *)coded, sizeof(coded));
	f->stream = 5;
	f->huffman = 1;
	headers(2200, 1, 5, 5, MESSAGE_READ);
	answered2(2210, 1, 5, 5);
	headers(2300, 1, 5, 7, MESSAGE_READ)->path = 4; /* of the static table */
	answered2(2310, 1, 5, 7);
	/* Another connection's table is another one. */
	h = headers(2400, 1, 6, 1, MESSAGE_READ);
	h->inserted = 70003;
	h->n_references = 1;
	h->references[0] = (uint16_t)70000;
	answered2(2410, 1, 6, 1);
	t = run();
	CHECK_EQ(t->n_requests, 5);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_STR(text_at(t, t->requests[i].path),
			  ((const char *[]){ "/kept", "/kept", "/index.html", "/", "" })[i]);
	timeline_free(t);
}

TEST(after_a_lost_header_block_the_table_is_not_used)
{
	for (unsigned by_loss = 0; by_loss < 2; by_loss++) {
		struct record_headers *h;
		struct record_field *f;
		struct timeline *t;

		f = field(2000, 5, 1, FIELD_PATH, "/kept");
		f->inserted = 1;
		headers(2000, 1, 5, 1, MESSAGE_READ)->inserted = 1;
		answered2(2010, 1, 5, 1);
		if (by_loss)
			message(2050, 1, 5, MESSAGE_READ, MESSAGE_LOST);
		h = headers(2100, 1, 5, 3, MESSAGE_READ);
		h->message.part |= by_loss ? 0 : MESSAGE_NO_FIELDS;
		h->inserted = 1;
		h->n_references = 1;
		answered2(2110, 1, 5, 3);
		t = run();
		CHECK_EQ(t->n_requests, 2);
		CHECK_STR(text_at(t, t->requests[0].path), "/kept");
		CHECK_EQ(t->requests[1].path, TEXT_NONE);
		timeline_free(t);
	}
}

TEST(a_path_without_its_end_is_not_shown_as_one)
{
	char long_path[400];
	struct timeline *t;

	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = 0;
	asked2(2000, 1, 5, 1, long_path);
	asked2(2100, 1, 5, 3, "/a?secret=1");
	t = run();
	CHECK_STR(text_at(t, t->requests[0].path), "(too long)");
	CHECK_STR(text_at(t, t->requests[1].path), "/a");
	timeline_free(t);
}

TEST(an_answer_to_a_stream_from_before_the_window_is_truncated)
{
	struct timeline *t;

	answered2(2000, 1, 5, 41);
	t = run();
	CHECK_EQ(t->n_requests, 1);
	CHECK_EQ(t->requests[0].flags, REQUEST_TRUNCATED_START);
	CHECK_EQ(t->requests[0].stream, 41);
	expect_times(&t->requests[0], WINDOW_START, 0, 0, 1990, 2000);
	timeline_free(t);
}

TEST(an_answer_whose_request_may_be_in_the_window_is_not_marked_as_older)
{
	struct timeline *t;

	/* HTTP/2: any of the bytes may have been its beginning. */
	frame(1500, 1, 5, 0, MESSAGE_READ, DATA, MESSAGE_PASSED);
	answered2(2000, 1, 5, 41);
	/* HTTP/1: they end the request that is answered next; nothing is known about the one after
	 * it. */
	message(2100, 1, 6, MESSAGE_READ, MESSAGE_PASSED)->protocol = MESSAGE_NEW;
	answered(2200, 1, 6, 200);
	answered(2300, 1, 6, 201);
	t = run();
	CHECK_EQ(t->n_requests, 3);
	CHECK_EQ(t->requests[0].status, 200);
	CHECK_EQ(t->requests[0].flags, REQUEST_TRUNCATED_START);
	expect_times(&t->requests[0], WINDOW_START, 0, 0, 2190, 2200);
	CHECK_EQ(t->requests[1].stream, 41);
	CHECK_EQ(t->requests[1].flags, REQUEST_LOST);
	expect_times(&t->requests[1], 1990, 0, 0, 1990, 2000);
	CHECK_EQ(t->requests[2].status, 201);
	CHECK_EQ(t->requests[2].flags, REQUEST_LOST);
	expect_times(&t->requests[2], 2290, 0, 0, 2290, 2300);
	timeline_free(t);
}

TEST(events_before_the_window_are_ignored)
{
	struct timeline *t;

	asked(WINDOW_START - 20, 1, 5, "GET /early");
	answered(2000, 1, 5, 200);
	t = run();
	CHECK_EQ(t->n_requests, 1);
	CHECK_EQ(t->requests[0].path, TEXT_NONE);
	CHECK_EQ(t->requests[0].flags, REQUEST_TRUNCATED_START);
	timeline_free(t);
}

TEST(a_request_begins_when_its_first_byte_arrived)
{
	struct timeline *t;
	struct record_message *m;

	/* The bytes of both came before the first was read; numbers wrap. */
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t base = i ? UINT32_MAX - 150 : 5000;
		const uint64_t socket = 5 + i, at = 2000 + 10000 * i;

		ready(at, socket, base + 100);
		ready(at + 10, socket, base + 100); /* the same once more */
		ready(at + 100, socket, base + 250);
		m = asked(at + 500, 1, socket, i ? "POST /c" : "POST /a");
		m->position = base + 100;
		m = asked(at + 500, 1, socket, i ? "POST /d" : "POST /b");
		m->position = base + 250;
		m->bytes = 150;
		answered(at + 600, 1, socket, 200);
		answered(at + 700, 1, socket, 200);
	}
	t = run();
	expect_times(find(t, "/a"), 2000, 2490, 2500, 2590, 2600);
	expect_times(find(t, "/b"), 2100, 2490, 2500, 2690, 2700);
	expect_times(find(t, "/c"), 12000, 12490, 12500, 12590, 12600);
	expect_times(find(t, "/d"), 12100, 12490, 12500, 12690, 12700);
	CHECK_EQ(find(t, "/c")->flags, 0);
	timeline_free(t);
}

TEST(bytes_that_arrive_while_the_call_waits_begin_the_request)
{
	struct timeline *t;
	struct record_message *m;

	ready(2400, 5, 100);
	m = asked(2500, 1, 5, "POST /a");
	m->began = 1500;
	m->position = 100;
	answered(2600, 1, 5, 200);
	t = run();
	expect_times(find(t, "/a"), 2400, 2400, 2500, 2590, 2600);
	timeline_free(t);
}

static void accepted(uint64_t time, uint64_t socket)
{
	struct record_accepted *r = add(time, 0, RECORD_ACCEPTED, sizeof(*r));

	r->socket = socket;
}

TEST(a_connection_is_accepted_between_the_arrival_of_its_bytes_and_their_reading)
{
	struct timeline *t;

	/* A connection that the socket's number belonged to before. */
	accepted(1900, 5);
	ready(2000, 5, 100)->unaccepted = 1;
	asked(2500, 1, 5, "POST /unknown")->position = 100;
	accepted(2900, 6);
	ready(3000, 6, 100);
	asked(3100, 1, 6, "POST /before")->position = 100;
	ready(3200, 7, 100)->unaccepted = 1;
	accepted(3300, 7);
	asked(3400, 1, 7, "POST /between")->position = 100;
	t = run();
	CHECK_EQ(find(t, "/unknown")->accepted_ns, 0);
	CHECK(find(t, "/unknown")->flags & REQUEST_UNACCEPTED);
	CHECK_EQ(find(t, "/before")->accepted_ns, 0);
	CHECK(!(find(t, "/before")->flags & REQUEST_UNACCEPTED));
	CHECK_EQ(find(t, "/between")->accepted_ns, 3300);
	CHECK(find(t, "/between")->flags & REQUEST_UNACCEPTED);
	timeline_free(t);
}

TEST(a_socket_of_the_same_number_is_another_connection)
{
	struct timeline *t;
	struct record_message *m;

	ready(2000, 5, 1000);
	m = asked(2100, 1, 5, "POST /first");
	m->position = 1000;
	inode = 999;
	ready(3000, 5, 800);
	m = asked(3100, 1, 5, "POST /second");
	m->position = 800;
	answered(3200, 1, 5, 200);
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK(find(t, "/first")->flags & REQUEST_LOST);
	CHECK_EQ(find(t, "/first")->end_ns, 2100);
	CHECK_EQ(find(t, "/second")->start_ns, 3000);
	CHECK_EQ(find(t, "/second")->stream, 1);
	CHECK(find(t, "/second")->connection != find(t, "/first")->connection);
	timeline_free(t);
}

TEST(the_arrival_after_a_segment_that_filled_a_gap_is_unknown)
{
	struct timeline *t;
	struct record_message *m;

	for (unsigned more = 0; more < 2; more++) {
		const uint64_t socket = 5 + more, at = 2000 + 10000 * more;

		ready(at, socket, 100);
		space[n_records - 1].ready.more = more;
		ready(at + 400, socket, 300);
		/* Its bytes may have come with the first. */
		m = asked(at + 500, 1, socket, more ? "POST /after" : "POST /plain");
		m->position = 250;
		m->bytes = 100;
		answered(at + 600, 1, socket, 200);
	}
	t = run();
	CHECK_EQ(find(t, "/plain")->flags, 0);
	CHECK_EQ(find(t, "/plain")->start_ns, 2400);
	CHECK(find(t, "/after")->flags & REQUEST_NO_ARRIVAL);
	CHECK_EQ(find(t, "/after")->start_ns, 12500);
	timeline_free(t);
}

TEST(an_arrival_that_may_have_been_forgotten_is_not_guessed)
{
	struct timeline *t;
	struct record_message *m;

	for (uint32_t i = 0; i < 40; i++)
		ready(2000 + i, 5, 1000 + 10 * i);
	m = asked(2100, 1, 5, "POST /a");
	m->position = 1390;
	m->bytes = 390;
	answered(2200, 1, 5, 200);
	t = run();
	CHECK_EQ(find(t, "/a")->flags, REQUEST_NO_ARRIVAL);
	CHECK_EQ(find(t, "/a")->start_ns, 2100);
	timeline_free(t);
}

TEST(if_the_serving_side_is_unknown_nothing_is_shown_and_a_warning_reports_it)
{
	struct timeline *t;

	server = false;
	asked2(2000, 1, 5, 1, "/a");
	answered2(2100, 1, 5, 1);
	t = run();
	CHECK_EQ(t->n_requests, 0);
	CHECK(warns(t, "it is unknown which side is the server"));
	timeline_free(t);
}

TEST(models_and_versions_are_those_of_paths_that_have_them)
{
	static const struct {
		const char *line, *path, *model, *version;
	} cases[] = {
		{ "POST /v1/models/half:predict", "/v1/models/half:predict", "half", "" },
		{ "POST /v1/models/half/versions/12:predict", "/v1/models/half/versions/12:predict",
		  "half", "12" },
		{ "GET /v2/models/a-b.c/infer", "/v2/models/a-b.c/infer", "a-b.c", "" },
		{ "GET /v2/models/m/versions/3/infer", "/v2/models/m/versions/3/infer", "m", "3" },
		{ "GET /v1/models/", "/v1/models/", "", "" },
		{ "GET /v3/models/m", "/v3/models/m", "", "" },
		{ "GET /x/v1/models/m", "/x/v1/models/m", "", "" },
		{ "GET / HTTP/1.1", "/", "", "" },
	};
	struct timeline *t;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		asked(2000 + 100 * i, 1, 5, cases[i].line);
		answered(2050 + 100 * i, 1, 5, 200);
	}
	t = run();
	CHECK_EQ(t->n_requests, ARRAY_SIZE(cases));
	for (uint32_t i = 0; i < MIN(t->n_requests, (uint32_t)ARRAY_SIZE(cases)); i++) {
		CHECK_STR(text_at(t, t->requests[i].path), cases[i].path);
		CHECK_STR(text_at(t, t->requests[i].model), cases[i].model);
		CHECK_STR(text_at(t, t->requests[i].version), cases[i].version);
	}
	timeline_free(t);
}

TEST(a_model_with_a_possibly_truncated_name_is_unknown)
{
	char bytes[RECORD_FIELD_SIZE + 1];
	struct timeline *t;

	memset(bytes, 'm', sizeof(bytes) - 1);
	memcpy(bytes, "POST /v1/models/", 16);
	bytes[sizeof(bytes) - 1] = 0;
	text(2000, 5, FIELD_REQUEST_LINE, bytes, 300);
	message(2000, 1, 5, MESSAGE_READ, MESSAGE_FIRST | MESSAGE_LAST | MESSAGE_IS_REQUEST);
	answered(2050, 1, 5, 200);
	t = run();
	CHECK_EQ(t->n_requests, 1);
	CHECK_EQ(t->requests[0].model, TEXT_NONE);
	timeline_free(t);
}

TEST(each_cause_of_missing_requests_has_one_warning)
{
	struct timeline *t;

	for (unsigned i = 0; i < 5; i++)
		for (uint8_t what = UNSEEN_IO_URING; what <= UNSEEN_OTHER; what++)
			unseen(2000 + i, what);
	unseen(2100, 77);
	t = run();
	CHECK_EQ(t->n_warnings, 3);
	CHECK(warns(t, "io_uring"));
	CHECK(warns(t, "encrypted"));
	CHECK(warns(t, "an unknown protocol"));
	timeline_free(t);
}

static void unseen_at(uint64_t time, uint64_t socket)
{
	struct record_unseen *r = add(time, 1, RECORD_UNSEEN, sizeof(*r));

	r->head.site = UNSEEN_TLS;
	r->socket = socket;
	r->inode = inode ?: (uint32_t)socket;
}

/* A whole request whose bytes a library decrypted. */
static void decrypted(uint64_t time, uint64_t socket)
{
	asked(time, 1, socket, "POST /a")->part |= MESSAGE_DECRYPTED;
	answered(time + 50, 1, socket, 200)->part |= MESSAGE_DECRYPTED;
}

TEST(an_encrypted_connection_is_reported_unless_its_decrypted_bytes_were_seen)
{
	struct timeline *t;

	unseen_at(2000, 5);
	unseen_at(2000, 6);
	t = run();
	CHECK(warns(t, "requests on 2 of them were not read"));
	CHECK(warns(t, "decrypted-requests in a section [access]"));
	timeline_free(t);
	unseen_at(2000, 5);
	decrypted(2100, 5);
	t = run();
	CHECK_EQ(t->n_requests, 1);
	CHECK_EQ(t->n_warnings, 0);
	timeline_free(t);
	/* The one without decrypted bytes. */
	unseen_at(2000, 5);
	unseen_at(2000, 6);
	decrypted(2100, 5);
	t = run();
	CHECK(warns(t, "on 1 of 2 no request was read"));
	timeline_free(t);
}

/* A request of a stream, as far as gRPC's library shows it. */
static void served_encrypted(uint64_t time, uint32_t tid, uint32_t transport, uint64_t object,
			     uint32_t stream)
{
	stream_begins(time, 4, transport, object, stream);
	stream_wants(time + 10, tid, object, RECEIVE_MESSAGE);
	ran(time + 30, time + 50, tid);
	stream_wants(time + 60, tid, object, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
}

TEST(encrypted_requests_are_those_of_the_librarys_streams)
{
	struct timeline *t;
	struct request *q;

	unseen_at(1990, 5);
	served_encrypted(2000, 2, 9, 71, 1);
	served_encrypted(2100, 3, 9, 73, 3);
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK_EQ(n_finished, 2);
	CHECK_EQ(t->n_warnings, 0);
	q = &t->requests[1];
	CHECK_EQ(q->start_ns, 2100);
	CHECK_EQ(q->end_ns, 2160);
	CHECK_EQ(q->stream, 3);
	CHECK_EQ(q->connection, t->requests[0].connection);
	CHECK_EQ(q->flags, REQUEST_AT_LIBRARY | REQUEST_NO_ARRIVAL);
	CHECK_EQ(q->read_start_ns + q->read_end_ns + q->write_start_ns + q->bytes_in, 0);
	CHECK_EQ(q->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(t->n_runs_exact, 2);
	CHECK_EQ(t->threads[q->write_thread].tid, 3);
	CHECK_EQ(q->phases[PHASE_QUEUE], 10);
	CHECK_EQ(q->phases[PHASE_DECODE], 20);
	CHECK_EQ(q->phases[PHASE_ENCODE], 10);
	timeline_free(t);
	/* Without encrypted connections a socket shows all there are. */
	served_encrypted(2000, 2, 9, 71, 1);
	t = run();
	CHECK_EQ(t->n_requests, 0);
	CHECK_EQ(n_finished, 0);
	timeline_free(t);
}

TEST(a_request_that_a_socket_shows_is_not_shown_again_at_the_library)
{
	struct timeline *t;

	/* Both connections have streams 1 and 3 at the same time. The thread that made the object
	 * had read the request, or wrote the answer, or neither. */
	for (unsigned known = 0; known < 3; known++) {
		unseen_at(1990, 6);
		for (uint32_t stream = 1; stream < 4; stream += 2) {
			uint64_t time = 2000 + stream * 100;

			asked2(time, known == 0 ? 4 : 1, 5, stream, "/plain");
			stream_begins(time + 2, 4, 8, 80 + stream, stream);
			stream_begins(time + 3, 4, 9, 90 + stream, stream);
			stream_wants(time + 10, 2, 80 + stream, SEND_HEADERS | SEND_TRAILERS);
			answered2(time + 20, known == 1 ? 2 : 1, 5, stream);
			stream_wants(time + 30, 3, 90 + stream, SEND_HEADERS | SEND_TRAILERS);
		}
		t = run();
		CHECK_EQ(t->n_requests, known < 2 ? 4 : 2);
		for (uint32_t i = 0; i < t->n_requests; i++)
			CHECK_EQ(t->requests[i].flags & REQUEST_AT_LIBRARY,
				 i % 2 && known < 2 ? REQUEST_AT_LIBRARY : 0);
		timeline_free(t);
	}
}

TEST(an_encrypted_request_without_an_answer_is_aborted_or_truncated)
{
	struct timeline *t;

	unseen_at(1990, 5);
	stream_begins(2000, 4, 9, 71, 1);
	stream_begins(2100, 4, 9, 71, 3);
	stream_begins(2200, 4, 9, 73, 5);
	stream_wants(2250, 4, 73, ABORT);
	stream_wants(2260, 4, 73, ABORT);
	t = run();
	CHECK_EQ(t->n_requests, 3);
	CHECK(t->requests[0].flags & REQUEST_RESET);
	CHECK_EQ(t->requests[0].end_ns, 2100);
	CHECK(t->requests[1].flags & REQUEST_TRUNCATED_END);
	CHECK_EQ(t->requests[1].end_ns, WINDOW_END);
	CHECK(t->requests[2].flags & REQUEST_RESET);
	CHECK_EQ(t->requests[2].end_ns, 2250);
	timeline_free(t);
}

TEST(of_more_transports_than_encrypted_connections_not_all_are_encrypted)
{
	struct timeline *t;

	/* One was decrypted, and one is that of an object without a socket. */
	for (uint64_t socket = 5; socket < 9; socket++)
		unseen_at(1990, socket);
	decrypted(1995, 6);
	inode = 0;
	asked(2000, 1, 0, "POST /a")->part |= MESSAGE_DECRYPTED;
	for (uint32_t i = 1; i <= 3; i++)
		served_encrypted(2000 + 100 * i, 2, 10 + i, 70 + i, 1);
	t = run();
	CHECK_EQ(t->n_requests, 4);
	CHECK_EQ(t->requests[2].flags & REQUEST_AT_LIBRARY, REQUEST_AT_LIBRARY);
	CHECK_EQ(t->requests[3].start_ns, 2200);
	timeline_free(t);
}

TEST(many_plaintext_requests_that_a_thread_reads_at_once_are_counted_once)
{
	unseen_at(1990, 6);
	for (uint32_t i = 0; i < 100; i++)
		asked2(2000 + i, 4, 5, 1 + 2 * i, "/plain");
	for (uint32_t i = 0; i < 100; i++)
		stream_begins(2200 + i, 4, 9, 1000 + i, 1 + 2 * i);
	/* Another thread writes what this one passes. */
	for (uint32_t i = 0; i < 100; i++) {
		stream_wants(3000 + 10 * i, 2, 1000 + i, SEND_HEADERS | SEND_TRAILERS);
		answered2(3005 + 10 * i, 1, 5, 1 + 2 * i);
	}
	timeline_free(run());
	CHECK_EQ(n_finished, 100);
}

TEST(a_mark_within_an_encrypted_request_is_not_counted_as_another_one)
{
	struct record_probe *r;

	unseen_at(1990, 5);
	stream_begins(2000, 4, 9, 71, 1);
	r = add(2010, 2, RECORD_PROBE, sizeof(*r));
	r->head.site = S_MARK;
	r->stack = 500;
	r = add(2020, 2, RECORD_PROBE, sizeof(*r));
	r->head.site = S_MARK_END;
	r->stack = 500;
	stream_wants(2060, 2, 71, SEND_HEADERS | SEND_TRAILERS);
	timeline_free(run());
	CHECK_EQ(n_finished, 1);
}

TEST(encrypted_requests_end_where_sockets_or_streams_were_shed)
{
	static const enum probe_kind kinds[] = { KIND_SOCKETS, KIND_RUNS };

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct timeline *t;

		unseen_at(1990, 5);
		unseen_at(1990, 6);
		stream_begins(2000, 4, 9, 71, 1);
		shed_ns = 3000;
		shed_kind = kinds[i];
		stream_wants(3500, 2, 71, SEND_HEADERS | SEND_TRAILERS);
		/* Of a connection that a socket would have shown. */
		served_encrypted(4000, 3, 10, 73, 1);
		t = run();
		CHECK_EQ(n_finished, 0);
		CHECK_EQ(t->n_requests, 1);
		CHECK(t->requests[0].flags & REQUEST_TRUNCATED_END);
		CHECK_EQ(t->requests[0].end_ns, 3000);
		timeline_free(t);
	}
}

TEST(encrypted_requests_of_a_process_end_with_it)
{
	static const uint8_t kinds[] = { RECORD_EXIT, RECORD_EXEC };

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct record_thread *r;
		struct timeline *t;

		unseen_at(1990, 5);
		stream_begins(2000, 4, 9, 71, 1);
		r = add(3000, 77, kinds[i], sizeof(*r));
		r->pid = 77;
		t = run();
		CHECK_EQ(t->n_requests, 1);
		CHECK(t->requests[0].flags & REQUEST_RESET);
		CHECK_EQ(t->requests[0].end_ns, 3000);
		timeline_free(t);
	}
}

TEST(requests_end_where_their_probes_were_shed)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	answered(2100, 1, 5, 200);
	asked(2500, 1, 5, "POST /b");
	shed_ns = 3000;
	answered(3500, 1, 5, 200);
	asked(3600, 1, 5, "POST /c");
	t = run();
	CHECK_EQ(t->n_requests, 2);
	CHECK(!(find(t, "/a")->flags & REQUEST_TRUNCATED_END));
	CHECK(find(t, "/b")->flags & REQUEST_TRUNCATED_END);
	CHECK_EQ(find(t, "/b")->end_ns, 3000);
	timeline_free(t);
}

TEST(runs_between_reading_and_answering_belong_to_that_request)
{
	struct timeline *t;

	ran(1500, 1600, 1);
	asked(2000, 1, 5, "POST /a");
	ran(2100, 2200, 1);
	ran(2300, 2400, 1);
	answered(2500, 1, 5, 200);
	ran(2600, 2700, 1);
	asked(3000, 1, 6, "POST /b");
	answered(3500, 1, 6, 200);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_STR(owner(t, 2300), "/a");
	CHECK(!owner(t, 1500));
	CHECK(!owner(t, 2600));
	CHECK_EQ(find(t, "/a")->n_runs, 2);
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(find(t, "/b")->attribution, ATTRIBUTION_NONE);
	CHECK_EQ(t->n_runs_exact, 2);
	CHECK_EQ(t->n_runs_orphaned, 2);
	timeline_free(t);
}

TEST(a_thread_that_only_writes_an_answer_has_executed_its_runs)
{
	struct timeline *t;

	asked2(2000, 1, 5, 1, "/a");
	ran(2100, 2200, 2);
	ran(2210, 2290, 2);
	answered2(2300, 2, 5, 1);
	asked2(2400, 1, 5, 3, "/b");
	ran(2500, 2600, 2);
	answered2(2700, 2, 5, 3);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_STR(owner(t, 2210), "/a");
	CHECK_STR(owner(t, 2500), "/b");
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(find(t, "/a")->run_thread, find(t, "/a")->write_thread);
	timeline_free(t);
}

TEST(the_thread_that_passes_the_answer_to_the_stream_has_executed_its_runs)
{
	struct timeline *t;

	asked2(2000, 1, 5, 1, "/a");
	asked2(2000, 1, 5, 3, "/b");
	stream_begins(2010, 4, 9, 71, 1);
	stream_begins(2011, 4, 9, 73, 3);
	stream_wants(2020, 2, 71, RECEIVE_MESSAGE);
	stream_wants(2021, 3, 73, RECEIVE_MESSAGE);
	ran(2100, 2200, 2);
	ran(2110, 2190, 3);
	/* One thread writes both answers, its own last. */
	stream_wants(2300, 2, 71, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
	stream_wants(2301, 3, 73, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
	answered2(2310, 3, 5, 1);
	answered2(2311, 3, 5, 3);
	/* Another object at that address; a thread that runs no more writes for it. Calls that its
	 * own thread makes to others are part of its work. */
	asked2(2400, 1, 5, 5, "/c");
	stream_begins(2410, 4, 9, 71, 5);
	stream_wants(2420, 4, 71, RECEIVE_MESSAGE);
	ran(2500, 2600, 4);
	stream_begins(2601, 4, 8, 90, 0);
	stream_wants(2602, 4, 90, SEND_HEADERS | SEND_TRAILERS);
	stream_wants(2610, 4, 71, SEND_TRAILERS);
	answered2(2620, 2, 5, 5);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_STR(owner(t, 2110), "/b");
	CHECK_STR(owner(t, 2500), "/c");
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(find(t, "/b")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(t->n_runs_orphaned, 0);
	timeline_free(t);
}

TEST(a_run_is_of_the_stream_that_is_passed_the_answer_which_it_was_to_make)
{
	struct timeline *t;

	/* One thread begins both runs, another passes both answers, in the other order. */
	asked2(2000, 1, 5, 1, "/a");
	asked2(2000, 1, 5, 3, "/b");
	asked2(2000, 1, 5, 5, "/c");
	for (unsigned i = 0; i < 3; i++)
		stream_begins(2010 + i, 4, 9, 71 + 2 * i, 1 + 2 * i);
	valued(S_ASK, 2100, 2, 600, 0xa1);
	ran_at(S_RUN_OF_PEER, 2110, 2120, 2);
	valued(S_ASK, 2130, 2, 600, 0xa2);
	ran_at(S_RUN_OF_PEER, 2140, 2150, 2);
	/* No object of an answer. */
	ran_at(S_RUN_OF_PEER, 2160, 2170, 2);
	valued(S_ANSWER, 2300, 3, 500, 0xa2);
	stream_wants(2301, 3, 73, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
	answered2(2318, 3, 5, 3);
	valued(S_ANSWER, 2340, 3, 500, 0xa1);
	stream_wants(2341, 3, 71, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
	answered2(2358, 3, 5, 1);
	/* After the function has returned; and an object that no run was to make. */
	valued(S_ASK, 2420, 2, 600, 0xa1);
	ran_at(S_RUN_OF_PEER, 2430, 2440, 2);
	valued(S_ANSWER, 2450, 3, 300, 0xa1);
	stream_wants(2451, 3, 75, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
	answered2(2470, 3, 5, 5);
	t = run();
	CHECK_STR(owner(t, 2110), "/a");
	CHECK_STR(owner(t, 2140), "/b");
	CHECK(!owner(t, 2160));
	CHECK(!owner(t, 2430));
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(find(t, "/c")->n_runs, 0);
	timeline_free(t);
}

/* A run makes a message of the answer to a stream: begins 10 ns, and is passed 100 ns, after that.
 * One that it makes earlier is left to others, as the stream is busy. */
static void answers_message(uint64_t time, uint64_t object, uint64_t bits)
{
	valued(S_ASK, time, 2, 600, 0xa1);
	ran_at(S_RUN_OF_PEER, time + 10, time + 20, 2);
	valued(S_ANSWER, time + 50, 3, 500, 0xa1);
	valued(S_ANSWER, time + 100, 3, 500, 0xa1);
	stream_wants(time + 101, 3, object, bits | SEND_MESSAGE);
}

TEST(runs_that_make_messages_of_an_answer_are_of_their_stream_while_it_is_read_and_answered)
{
	struct timeline *t;
	const struct request *q;

	field(2000, 5, 1, FIELD_PATH, "/stream");
	headers(2000, 2, 5, 1, MESSAGE_READ)->method = STATIC_POST;
	stream_begins(2010, 4, 9, 71, 1);
	frame(2020, 2, 5, 1, MESSAGE_READ, DATA, MESSAGE_FIRST);
	answers_message(2100, 71, SEND_HEADERS);
	headers(2210, 3, 5, 1, MESSAGE_WRITTEN)->status = STATIC_200;
	answers_message(2300, 71, 0);
	/* One waits for the stream, another one at its address has no run and is an error. */
	valued(S_ASK, 2420, 2, 600, 0xa1);
	ran_at(S_RUN_OF_PEER, 2430, 2440, 2);
	valued(S_ANSWER, 2450, 3, 500, 0xa1);
	valued(S_ASK, 2460, 2, 600, 0xa1);
	valued(S_ANSWER, 2470, 3, 500, 0xa1);
	stream_wants(2471, 3, 71, SEND_MESSAGE);
	frame(2500, 2, 5, 1, MESSAGE_READ, DATA, MESSAGE_LAST);
	/* The last message comes after the last question, and a late one after the end. */
	answers_message(2510, 71, 0);
	stream_wants(2620, 3, 71, SEND_TRAILERS);
	frame(2630, 3, 5, 1, MESSAGE_WRITTEN, DATA, MESSAGE_LAST);
	answers_message(2700, 71, 0);
	t = run();
	q = find(t, "/stream");
	CHECK_EQ(q->n_runs, 3);
	CHECK_EQ(q->attribution, ATTRIBUTION_EXACT);
	CHECK(q->flags & REQUEST_STREAMING);
	CHECK_STR(owner(t, 2110), "/stream");
	CHECK_STR(owner(t, 2310), "/stream");
	CHECK_STR(owner(t, 2520), "/stream");
	CHECK(!owner(t, 2430));
	CHECK(!owner(t, 2710));
	/* When a message was read, and when that of the answer was written, is unknown. */
	CHECK_EQ(q->phases[PHASE_EXECUTE], 30);
	CHECK_EQ(q->phases[PHASE_UNKNOWN], q->end_ns - q->start_ns - 30);
	timeline_free(t);
}

/* A thread begins a run which is to make that answer, for the stream of the object. */
static void ran_to_answer(uint64_t time, uint64_t answer)
{
	asked2(time, 1, 5, 1, "/a");
	asked2(time, 1, 5, 3, "/b");
	stream_begins(time + 10, 4, 9, 71, 1);
	stream_begins(time + 11, 4, 9, 73, 3);
	valued(S_ASK, time + 100, 2, 600, answer);
	ran_at(S_RUN_OF_PEER, time + 110, time + 120, 2);
}

TEST(an_answer_that_its_function_did_not_pass_is_not_that_of_a_later_stream)
{
	struct timeline *t;

	enum { PASSES_IT, RETURNS, READS, N };

	for (unsigned how = 0; how < N; how++) {
		ran_to_answer(2000, 0xa1);
		valued(S_ANSWER, 2300, 3, 500, 0xa1);
		if (how == RETURNS)
			valued(S_RUN_END, 2305, 3, 510, 0);
		if (how == READS)
			stream_wants(2305, 3, 71, RECEIVE_MESSAGE);
		stream_wants(2310, 3, 73, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
		answered2(2330, 3, 5, 3);
		t = run();
		if (how == PASSES_IT)
			CHECK_STR(owner(t, 2110), "/b");
		else
			CHECK(!owner(t, 2110));
		timeline_free(t);
	}
}

TEST(a_request_during_which_a_record_was_lost_gets_no_run_by_its_answer)
{
	struct timeline *t;

	for (unsigned late = 0; late < 2; late++) {
		ran_to_answer(2000, 0xa1);
		valued(S_ANSWER, 2300, 3, 500, 0xa1);
		stream_wants(2310, 3, 71, SEND_HEADERS | SEND_MESSAGE | SEND_TRAILERS);
		answered2(2330, 3, 5, 1);
		lost_ns = late ? 2400 : 2200;
		t = run();
		if (late)
			CHECK_STR(owner(t, 2110), "/a");
		else
			CHECK(!owner(t, 2110));
		timeline_free(t);
	}
}

TEST(runs_before_a_thread_took_up_a_stream_do_not_belong_to_it)
{
	struct timeline *t;

	asked2(1500, 1, 5, 1, "/first");
	stream_begins(1510, 1, 9, 69, 1);
	stream_wants(1520, 2, 69, SEND_HEADERS | SEND_TRAILERS);
	answered2(1530, 2, 5, 1);
	asked2(2000, 1, 5, 3, "/a");
	asked2(2001, 1, 5, 5, "/b");
	stream_begins(2010, 1, 9, 71, 3);
	stream_begins(2011, 1, 9, 73, 5);
	stream_wants(2020, 2, 71, RECEIVE_MESSAGE);
	ran(2100, 2200, 2);
	/* The first one's answer is not passed to anyone: it was cancelled. */
	frame(2150, 1, 5, 3, MESSAGE_READ, RST_STREAM, MESSAGE_FIRST);
	stream_wants(2210, 2, 73, RECEIVE_MESSAGE);
	ran(2220, 2290, 2);
	stream_wants(2300, 2, 73, SEND_HEADERS);
	answered2(2310, 1, 5, 5);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK_STR(owner(t, 2220), "/b");
	timeline_free(t);
}

/* Two streams of a transport that is taken for a connection; another thread writes the second one's
 * answer. */
static void two_streams(uint32_t stream, uint32_t transport)
{
	asked2(2000, 1, 5, 1, "/a");
	asked2(2000, 1, 5, 3, "/b");
	stream_begins(2010, 4, 9, 71, 1);
	stream_begins(2011, 4, transport, 73, stream);
	stream_wants(2020, 2, 71, RECEIVE_MESSAGE);
	stream_wants(2021, 3, 73, RECEIVE_MESSAGE);
	ran(2100, 2200, 2);
	ran(2110, 2190, 3);
	stream_wants(2300, 2, 71, SEND_HEADERS);
	answered2(2310, 2, 5, 1);
	stream_wants(2320, 3, 73, SEND_HEADERS);
}

TEST(runs_of_a_thread_with_two_streams_may_belong_to_either)
{
	struct timeline *t;

	/* Like an event loop, which runs one and continues with the other one while that waits. */
	asked2(2000, 1, 5, 1, "/a");
	asked2(2000, 1, 5, 3, "/b");
	stream_begins(2010, 1, 9, 71, 1);
	stream_begins(2011, 1, 9, 73, 3);
	stream_wants(2020, 2, 71, RECEIVE_MESSAGE);
	stream_wants(2021, 2, 73, RECEIVE_MESSAGE);
	ran(2100, 2200, 2);
	ran(2210, 2290, 2);
	stream_wants(2300, 2, 71, SEND_HEADERS | SEND_TRAILERS);
	answered2(2310, 2, 5, 1);
	stream_wants(2320, 2, 73, SEND_HEADERS | SEND_TRAILERS);
	answered2(2330, 2, 5, 3);
	/* It has none now; who has not taken a stream up must have written its answer, too. */
	asked2(2400, 1, 5, 5, "/c");
	asked2(2400, 1, 5, 7, "/d");
	stream_begins(2410, 1, 9, 75, 5);
	stream_begins(2410, 1, 9, 77, 7);
	ran(2420, 2430, 2);
	stream_wants(2440, 2, 75, SEND_HEADERS | SEND_TRAILERS);
	answered2(2450, 2, 5, 5);
	ran(2460, 2470, 2);
	stream_wants(2480, 2, 77, SEND_HEADERS | SEND_TRAILERS);
	answered2(2490, 1, 5, 7);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK(!owner(t, 2210));
	CHECK_STR(owner(t, 2420), "/c");
	CHECK(!owner(t, 2460));
	timeline_free(t);
}

TEST(a_transport_is_not_matched_with_a_connection_without_its_streams)
{
	struct timeline *t;

	two_streams(3, 9);
	answered2(2330, 4, 5, 3);
	t = run();
	CHECK_STR(owner(t, 2110), "/b");
	timeline_free(t);
	/* The connection has no such stream, or not yet. */
	two_streams(5, 9);
	answered2(2330, 4, 5, 3);
	asked2(2400, 1, 5, 5, "/late");
	t = run();
	CHECK(!owner(t, 2110));
	timeline_free(t);
	/* Another transport is taken for it, too. */
	two_streams(3, 8);
	answered2(2330, 3, 5, 3);
	ran(2400, 2500, 3);
	asked2(2350, 1, 5, 5, "/c");
	stream_begins(2360, 4, 8, 75, 5);
	stream_wants(2510, 3, 75, SEND_HEADERS);
	answered2(2520, 4, 5, 5);
	t = run();
	CHECK(!owner(t, 2400));
	timeline_free(t);
	/* What is at an address now is no longer one of its streams: a client's, or an unknown
	 * one. */
	for (unsigned i = 0; i < 2; i++) {
		two_streams(3, 9);
		stream_begins(2310, 4, 9, 73, i ? 1ull << 40 : 0);
		answered2(2330, 4, 5, 3);
		t = run();
		CHECK_STR(owner(t, 2100), "/a");
		CHECK(!owner(t, 2110));
		timeline_free(t);
	}
}

TEST(a_transport_at_a_reused_address_is_another_connection)
{
	struct timeline *t;

	asked2(2000, 1, 5, 1, "/a");
	stream_begins(2010, 1, 9, 71, 1);
	stream_wants(2020, 1, 71, SEND_HEADERS);
	answered2(2030, 1, 5, 1);
	frame(2040, 1, 5, 0, MESSAGE_WRITTEN, DATA, MESSAGE_CLOSED);
	asked2(2100, 1, 6, 1, "/b");
	asked2(2100, 1, 6, 3, "/c");
	stream_begins(2110, 1, 9, 71, 1);
	stream_begins(2110, 1, 9, 73, 3);
	stream_wants(2120, 2, 71, RECEIVE_MESSAGE);
	stream_wants(2120, 3, 73, RECEIVE_MESSAGE);
	ran(2200, 2300, 2);
	ran(2200, 2300, 3);
	stream_wants(2310, 2, 71, SEND_HEADERS);
	answered2(2320, 2, 6, 1);
	stream_wants(2330, 3, 73, SEND_HEADERS);
	answered2(2340, 2, 6, 3);
	t = run();
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_RUN)
			CHECK(t->spans[i].request &&
			      !strcmp(text_at(t, t->requests[t->spans[i].request - 1].path),
				      t->threads[t->spans[i].thread].tid == 2 ? "/b" : "/c"));
	timeline_free(t);
}

/* The server begins with the request of that socket, and runs it. */
static void ran_for(uint64_t start, uint64_t end, uint32_t tid, uint64_t socket)
{
	uint32_t port = 40000 + (uint32_t)socket;

	valued(S_PEER, start - 5, tid, 600, AF_INET | (uint64_t)htons((uint16_t)port) << 16);
	ran_at(S_RUN_OF_PEER, start, end, tid);
}

TEST(a_run_is_of_the_request_that_its_thread_has_read_from_the_peer_at_hand)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2001, 1, 6, "POST /b");
	ran_for(2110, 2120, 1, 6);
	ran_for(2130, 2140, 1, 5);
	/* Another one of that connection; a thread that has not read it. */
	answered(2200, 1, 6, 200);
	asked(2210, 1, 6, "POST /c");
	ran_for(2220, 2230, 2, 6);
	ran_for(2240, 2250, 1, 6);
	answered(2300, 1, 5, 200);
	answered(2310, 1, 6, 200);
	t = run();
	CHECK_STR(owner(t, 2110), "/b");
	CHECK_STR(owner(t, 2130), "/a");
	CHECK(!owner(t, 2220));
	CHECK_STR(owner(t, 2240), "/c");
	CHECK_EQ(find(t, "/b")->attribution, ATTRIBUTION_EXACT);
	timeline_free(t);
}

TEST(a_run_in_a_batch_of_known_requests_is_not_inferred_to_be_of_another_one)
{
	struct timeline *t;

	/* 0: the batch was not seen. */
	for (unsigned batch = 0; batch < 2; batch++) {
		asked(2000, 1, 5, "POST /a");
		asked(2001, 1, 6, "POST /b");
		waits(2010, 2);
		ran_for(2110, 2120, 1, 5);
		woken(2130, 2);
		if (batch)
			valued(S_BATCH, 2140, 2, 600, 0);
		ran(2150, 2160, 2);
		if (!batch)
			ran_for(2170, 2180, 1, 6);
		if (batch)
			valued(S_BATCH_END, 2190, 2, 610, 0);
		answered(2200, 1, 5, 200);
		answered(2300, 1, 6, 200);
		t = run();
		CHECK_STR(owner(t, 2110), "/a");
		CHECK(!owner(t, 2150));
		if (!batch)
			CHECK_STR(owner(t, 2170), "/b");
		CHECK_EQ(find(t, "/b")->attribution, batch ? ATTRIBUTION_NONE : ATTRIBUTION_EXACT);
		timeline_free(t);
	}
}

/* The thread names a model. */
static void named(uint64_t time, uint32_t tid, const char *model)
{
	struct record_text *r = add(time, tid, RECORD_TEXT, sizeof(*r));

	r->probe.head.site = S_MODEL;
	r->probe.stack = 580;
	r->size = (uint32_t)strlen(model);
	memcpy(r->text, model, r->size);
}

TEST(of_several_models_that_a_thread_names_or_after_an_inner_run_none_is_known)
{
	struct timeline *t;

	for (unsigned i = 0; i < 4; i++)
		asked(2000 + i, 1, 5 + i,
		      (const char *[]){ "POST /a", "POST /b", "POST /c", "POST /d" }[i]);
	named(2100, 1, "m");
	named(2101, 1, "n");
	ran_for(2110, 2120, 1, 5);
	/* The same one twice. */
	named(2200, 1, "m");
	named(2201, 1, "m");
	ran_for(2210, 2220, 1, 6);
	valued(S_RUN, 2300, 1, 700, 1);
	named(2301, 1, "m");
	ran_for(2310, 2320, 1, 9);
	valued(S_RUN_END, 2330, 1, 690, 0);
	ran_for(2410, 2420, 1, 7);
	t = run();
	CHECK_EQ(find(t, "/a")->model, TEXT_NONE);
	CHECK_STR(text_at(t, find(t, "/b")->model), "m");
	CHECK_STR(owner(t, 2410), "/c");
	CHECK_EQ(find(t, "/c")->model, TEXT_NONE);
	timeline_free(t);
}

TEST(the_model_that_a_thread_names_is_that_of_its_next_runs_request)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2001, 1, 6, "POST /v2/models/m/infer");
	asked(2002, 1, 7, "POST /c");
	for (unsigned i = 0; i < 2; i++) {
		named(2100 + 100 * i, 1, "named");
		ran_for(2110 + 100 * i, 2120 + 100 * i, 1, 5 + i);
	}
	ran_for(2310, 2320, 1, 7);
	t = run();
	CHECK_STR(text_at(t, find(t, "/a")->model), "named");
	CHECK_STR(text_at(t, find(t, "/v2/models/m/infer")->model), "m");
	CHECK_EQ(find(t, "/c")->model, TEXT_NONE);
	timeline_free(t);
}

TEST(a_run_for_a_peer_of_which_nothing_or_something_else_is_known_is_unattributed)
{
	struct timeline *t;

	/* Pipelined: the first one is served first, the other one later. */
	asked(2000, 1, 5, "POST /a");
	asked(2000, 1, 5, "POST /b");
	ran_for(2110, 2120, 1, 5);
	answered(2200, 1, 5, 200);
	ran_for(2210, 2220, 1, 5);
	answered(2300, 1, 5, 200);
	/* No peer; a second run; another peer; a request over HTTP/2. */
	asked(2400, 3, 6, "POST /c");
	ran_at(S_RUN_OF_PEER, 2410, 2420, 3);
	ran_for(2430, 2440, 3, 9);
	/* The server has answered without a run, and then begins another one. */
	valued(S_PEER, 2441, 3, 400, AF_INET | (uint64_t)htons(40006) << 16);
	ran_at(S_RUN_OF_PEER, 2442, 2443, 3);
	ran_for(2450, 2460, 3, 6);
	ran_for(2470, 2480, 3, 6);
	asked2(2500, 4, 7, 1, "/d");
	ran_for(2510, 2520, 4, 7);
	t = run();
	CHECK_STR(owner(t, 2110), "/a");
	CHECK(!owner(t, 2210));
	CHECK(!owner(t, 2410));
	CHECK(!owner(t, 2430));
	CHECK(!owner(t, 2442));
	CHECK_STR(owner(t, 2450), "/c");
	CHECK(!owner(t, 2470));
	CHECK(!owner(t, 2510));
	timeline_free(t);
}

TEST(of_two_peers_with_one_port_neither_is_known)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2001, 1, 6, "POST /b")->peer_port = 40005;
	ran_for(2110, 2120, 1, 5);
	answered(2125, 1, 6, 200);
	ran_for(2130, 2140, 1, 5);
	answered(2150, 1, 5, 200);
	/* Both are done. */
	asked(2200, 1, 6, "POST /c")->peer_port = 40005;
	ran_for(2210, 2220, 1, 5);
	/* Of three, also after that. */
	asked(2300, 1, 5, "POST /d");
	asked(2301, 1, 7, "POST /e")->peer_port = 40005;
	answered(2310, 1, 5, 200);
	answered(2311, 1, 6, 200);
	answered(2312, 1, 7, 200);
	asked(2320, 1, 5, "POST /f");
	ran_for(2330, 2340, 1, 5);
	t = run();
	CHECK(!owner(t, 2110));
	CHECK(!owner(t, 2130));
	CHECK_STR(owner(t, 2210), "/c");
	CHECK(!owner(t, 2330));
	timeline_free(t);
}

TEST(a_run_before_two_answers_is_unattributed)
{
	struct timeline *t;

	asked2(2000, 1, 5, 1, "/a");
	asked2(2010, 1, 5, 3, "/b");
	ran(2100, 2200, 2);
	answered2(2300, 2, 5, 1);
	answered2(2310, 2, 5, 3);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK_EQ(t->n_runs_orphaned, 1);
	timeline_free(t);
}

TEST(a_run_of_a_thread_that_has_read_two_requests_is_unattributed)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2010, 1, 6, "POST /b");
	ran(2100, 2200, 1);
	answered(2300, 1, 5, 200);
	/* The remaining one is unambiguous. */
	ran(2400, 2500, 1);
	answered(2600, 1, 6, 200);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK_STR(owner(t, 2400), "/b");
	timeline_free(t);
}

TEST(pipelined_requests_of_one_thread_are_processed_in_order)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2000, 1, 5, "POST /b");
	ran(2100, 2200, 1);
	answered(2300, 1, 5, 200);
	ran(2400, 2500, 1);
	answered(2600, 1, 5, 200);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_STR(owner(t, 2400), "/b");
	timeline_free(t);
}

TEST(a_thread_that_answers_for_another_while_its_own_request_waits_gets_no_attribution)
{
	struct timeline *t;

	for (uint32_t writer = 1; writer <= 3; writer++) {
		asked(2000, 1, 5, "POST /own");
		asked(2010, 2, 6, "POST /others");
		ran(2100, 2200, 1);
		answered(2300, 1, 6, 200);
		answered(2400, writer, 5, 200);
		t = run();
		CHECK(!owner(t, 2100));
		timeline_free(t);
	}
}

TEST(an_aborted_request_frees_its_thread_for_the_next)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /gone");
	message(2050, 1, 5, MESSAGE_READ, MESSAGE_CLOSED)->protocol = MESSAGE_NEW;
	asked(2100, 1, 6, "POST /next");
	ran(2200, 2300, 1);
	answered(2400, 1, 6, 200);
	t = run();
	CHECK_STR(owner(t, 2200), "/next");
	timeline_free(t);
}

TEST(ambiguous_attributions_are_withdrawn)
{
	struct timeline *t;

	/* 2: one that went on when the answer began, and so cannot have been that one's. */
	for (unsigned other_run = 0; other_run < 3; other_run++) {
		asked2(2000, 1, 5, 1, "/a");
		asked2(2010, 1, 5, 3, "/b");
		ran(2100, 2200, 2);
		if (other_run)
			ran(2110, other_run == 2 ? 2350 : 2210, 3);
		/* Its headers, and maybe those of the other one's worker. */
		answered2(2300, 2, 5, 3);
		answered2(2400, 4, 5, 1);
		t = run();
		if (other_run == 1)
			CHECK(!owner(t, 2100));
		else
			CHECK_STR(owner(t, 2100), "/b");
		timeline_free(t);
	}
}

TEST(a_run_on_a_thread_that_was_woken_since_is_inferred_when_one_request_waits)
{
	struct timeline *t;

	asked(1500, 1, 5, "POST /without");
	answered(1600, 1, 5, 200);
	waits(1700, 2);
	asked(2000, 1, 5, "POST /a");
	woken(2050, 2);
	ran(2100, 2200, 2);
	answered(2300, 3, 5, 200);
	/* Woken before it was read. */
	waits(2350, 2);
	woken(2900, 2);
	asked(3000, 1, 5, "POST /b");
	ran(3100, 3200, 2);
	answered(3300, 3, 5, 200);
	/* Woken by somebody else; and its second run since it was woken. */
	waits(3350, 2);
	asked(4000, 1, 5, "POST /c");
	woken_by(4050, 2, 3);
	ran(4100, 4200, 2);
	answered(4300, 3, 5, 200);
	waits(4350, 2);
	woken(4400, 2);
	ran(4450, 4480, 2);
	asked(4500, 1, 5, "POST /d");
	ran(4600, 4700, 2);
	answered(4800, 3, 5, 200);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_INFERRED);
	CHECK(!owner(t, 3100));
	CHECK_EQ(find(t, "/b")->attribution, ATTRIBUTION_NONE);
	CHECK_EQ(find(t, "/c")->attribution, ATTRIBUTION_NONE);
	CHECK_EQ(find(t, "/d")->attribution, ATTRIBUTION_NONE);
	CHECK_EQ(t->n_runs_inferred, 1);
	CHECK_EQ(t->n_runs_orphaned, 4);
	timeline_free(t);
}

TEST(nothing_is_inferred_when_two_requests_wait)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	asked(2010, 4, 6, "POST /b");
	woken(2050, 2);
	ran(2100, 2200, 2);
	answered(2300, 3, 5, 200);
	answered(2400, 3, 6, 200);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK_EQ(t->n_runs_inferred, 0);
	timeline_free(t);
}

TEST(exact_attribution_replaces_inferred_attribution)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	woken(2050, 2);
	ran(2100, 2200, 2);
	answered(2300, 2, 5, 200);
	t = run();
	CHECK_STR(owner(t, 2100), "/a");
	CHECK_EQ(find(t, "/a")->attribution, ATTRIBUTION_EXACT);
	CHECK_EQ(find(t, "/a")->n_runs, 1);
	timeline_free(t);
}

TEST(runs_of_one_process_do_not_belong_to_requests_of_another)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	target = 1;
	woken(2050, 2);
	ran(2100, 2200, 2);
	asked(2300, 2, 6, "POST /b");
	ran(2400, 2500, 2);
	answered(2600, 2, 6, 200);
	target = 0;
	answered(2700, 1, 5, 200);
	t = run();
	CHECK(!owner(t, 2100));
	CHECK_STR(owner(t, 2400), "/b");
	CHECK_EQ(t->processes[find(t, "/b")->process].pid, 78);
	CHECK_EQ(t->processes[find(t, "/a")->process].pid, 77);
	timeline_free(t);
}

TEST(runs_beyond_the_limit_are_unattributed)
{
	struct timeline *t;

	asked(2000, 1, 5, "POST /a");
	for (unsigned i = 0; i < 100; i++)
		ran(2100 + 10 * i, 2105 + 10 * i, 1);
	answered(9000, 1, 5, 200);
	asked(9100, 1, 5, "POST /b");
	ran(9200, 9300, 1);
	answered(9400, 1, 5, 200);
	t = run();
	CHECK_EQ(find(t, "/a")->n_runs, 0);
	CHECK_STR(owner(t, 9200), "/b");
	timeline_free(t);
}

static uint64_t chance(uint64_t below)
{
	static uint64_t state = 7;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

TEST(no_order_of_records_gives_an_invalid_time)
{
	static const char bytes[RECORD_FIELD_SIZE] = "GET /x";

	for (unsigned round = 0; round < 300; round++) {
		for (unsigned i = 0; i < 200; i++) {
			const uint64_t time = 1000 + chance(5000), socket = 1 + chance(3);
			const uint32_t tid = 1 + (uint32_t)chance(4);
			const unsigned part = (unsigned)chance(512);
			struct record_message *m;
			struct record_headers *h;

			inode = 1 + (uint32_t)chance(2);
			switch (chance(9)) {
			case 0:
				m = message(time, tid, socket, (uint8_t)chance(2), part);
				m->position = (uint32_t)chance(300);
				break;
			case 1:
				m = frame(time, tid, socket, 1 + 2 * (uint32_t)chance(3),
					  (uint8_t)chance(2), (uint8_t)chance(11), part);
				m->position = (uint32_t)chance(300);
				break;
			case 2:
				h = headers(time, tid, socket, 1 + 2 * (uint32_t)chance(3),
					    (uint8_t)chance(2));
				h->n_references = (uint8_t)chance(256);
				h->inserted = (uint32_t)chance(4);
				h->status = (uint8_t)chance(256);
				h->method = (uint8_t)chance(256);
				h->path = (uint8_t)chance(256);
				break;
			case 3:
				text(time, socket, (uint8_t)chance(7), bytes, (size_t)chance(300))
					->huffman = (uint8_t)chance(2);
				break;
			case 4:
				ready(time, socket, (uint32_t)chance(300));
				break;
			case 5:
				woken(time, tid);
				break;
			case 6:
				stream_begins(time, tid, (uint32_t)chance(2), chance(3), chance(6));
				break;
			case 7:
				stream_wants(time, tid, chance(3), chance(256));
				break;
			default:
				ran(time, time + 1 + chance(50), tid);
			}
		}
		timeline_free(run());
	}
}

CHECK_MAIN()
