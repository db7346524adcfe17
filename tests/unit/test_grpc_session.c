/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's session without a socket, with a clock that the test moves: how it handles bytes
 * that no library would send, and silent peers. Together with test_grpc.c and test_grpc_wire.c
 * these cover what a gRPC server has to get right.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/call.h"
#include "lib/grpc/session.h"
#include "tests/unit/check.h"

#define SECOND 1000000000ull
#define BIG_SIZE 1000000
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH_PROMISE,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

static uint64_t now_ns;
static struct grpc_call *held;
static int n_cancelled;
static char big[BIG_SIZE];

static uint64_t test_clock(void)
{
	return now_ns;
}

static struct grpc_body *body_of(const void *bytes, size_t size)
{
	struct grpc_body *body = NULL;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add(body, bytes, size, NULL, NULL), 0);
	return body;
}

static void on_echo(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body = NULL;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add_copy(body, message, size), 0);
	grpc_call_reply(call, body);
}

static void on_big(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_reply(call, body_of(big, sizeof(big)));
}

static void on_cancelled(void *data)
{
	held = NULL;
	n_cancelled++;
}

static void on_hold(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	CHECK_EQ(grpc_call_on_cancel(call, on_cancelled, NULL), 0);
	held = call;
}

static const struct grpc_method methods[] = { { "/t.T/Echo", on_echo },
					      { "/t.T/Big", on_big },
					      { "/t.T/Hold", on_hold } };

/* The peer: what it wants to send, and what it received. */
struct peer {
	struct grpc_service service;
	struct grpc_session session;
	nghttp2_hd_deflater *deflater;
	nghttp2_hd_inflater *inflater;
	int n_wakes, error; /* of the session's last function */
	uint8_t *received;
	size_t n_received, allocated;
};

static void on_wake(void *owner)
{
	((struct peer *)owner)->n_wakes++;
}

static void receive(struct peer *p, const void *bytes, size_t size)
{
	if (p->error == 0)
		p->error = grpc_session_receive(&p->session, bytes, size);
}

/* Reads the session's output, at most this many bytes at a time, and keeps it. */
static void take(struct peer *p, size_t step)
{
	struct iovec iov[GRPC_OUTPUT_PIECES];
	size_t n, size;

	while (p->error == 0) {
		size_t taken = 0;

		p->error = grpc_session_output(&p->session, iov, &n, &size);
		if (p->error < 0 || !size)
			return;
		if (p->n_received + size > p->allocated) {
			p->allocated = (p->n_received + size) * 2;
			p->received = realloc(p->received, p->allocated);
		}
		for (size_t i = 0; i < n && taken < step; i++) {
			size_t part = MIN(iov[i].iov_len, step - taken);

			memcpy(p->received + p->n_received, iov[i].iov_base, part);
			p->n_received += part;
			taken += part;
		}
		grpc_session_written(&p->session, taken);
	}
}

static void send_frame(struct peer *p, uint8_t type, uint8_t flags, uint32_t stream,
		       const void *payload, size_t size)
{
	uint8_t head[9] = { (uint8_t)(size >> 16),
			    (uint8_t)(size >> 8),
			    (uint8_t)size,
			    type,
			    flags,
			    (uint8_t)(stream >> 24),
			    (uint8_t)(stream >> 16),
			    (uint8_t)(stream >> 8),
			    (uint8_t)stream };

	receive(p, head, sizeof(head));
	receive(p, payload, size);
}

static void send_number(struct peer *p, uint8_t type, uint32_t stream, uint32_t number)
{
	const uint8_t bytes[4] = { (uint8_t)(number >> 24), (uint8_t)(number >> 16),
				   (uint8_t)(number >> 8), (uint8_t)number };

	send_frame(p, type, 0, stream, bytes, sizeof(bytes));
}

static void send_setting(struct peer *p, uint16_t id, uint32_t value)
{
	const uint8_t bytes[6] = { (uint8_t)(id >> 8),     (uint8_t)id,
				   (uint8_t)(value >> 24), (uint8_t)(value >> 16),
				   (uint8_t)(value >> 8),  (uint8_t)value };

	send_frame(p, SETTINGS, 0, 0, bytes, sizeof(bytes));
}

static void peer_start(struct peer *p, struct grpc_server_options options)
{
	*p = (struct peer){ 0 };
	now_ns = 1000 * SECOND;
	held = NULL;
	n_cancelled = 0;
	options.methods = methods;
	options.n_methods = ARRAY_SIZE(methods);
	CHECK_EQ(grpc_service_init(&p->service, &options, test_clock), 0);
	CHECK_EQ(grpc_session_init(&p->session, &p->service, on_wake, p), 0);
	nghttp2_hd_deflate_new(&p->deflater, 4096);
	nghttp2_hd_inflate_new(&p->inflater);
}

static void peer_greet(struct peer *p)
{
	receive(p, PREFACE, sizeof(PREFACE) - 1);
	send_frame(p, SETTINGS, 0, 0, "", 0);
	take(p, SIZE_MAX);
	CHECK_EQ(p->error, 0);
}

static void peer_end(struct peer *p)
{
	grpc_session_clear(&p->session);
	grpc_service_clear(&p->service);
	nghttp2_hd_deflate_del(p->deflater);
	nghttp2_hd_inflate_del(p->inflater);
	free(p->received);
}

static size_t header_block(struct peer *p, const char *path, const char *name, const char *value,
			   uint8_t *block, size_t size)
{
	const char *const headers[][2] = { { ":method", "POST" },
					   { ":scheme", "http" },
					   { ":path", path },
					   { ":authority", "here" },
					   { "content-type", "application/grpc+proto" },
					   { name, value } };
	nghttp2_nv nv[ARRAY_SIZE(headers)];
	size_t n = name ? ARRAY_SIZE(headers) : ARRAY_SIZE(headers) - 1;

	for (size_t i = 0; i < n; i++)
		nv[i] = (nghttp2_nv){ (uint8_t *)headers[i][0], (uint8_t *)headers[i][1],
				      strlen(headers[i][0]), strlen(headers[i][1]),
				      NGHTTP2_NV_FLAG_NONE };
	return (size_t)nghttp2_hd_deflate_hd(p->deflater, block, size, nv, n);
}

static void send_headers(struct peer *p, uint32_t stream, const char *path, const char *name,
			 const char *value)
{
	uint8_t block[1024];

	send_frame(p, HEADERS, END_HEADERS, stream, block,
		   header_block(p, path, name, value, block, sizeof(block)));
}

/* A whole request with the message "a". */
static void send_call(struct peer *p, uint32_t stream, const char *path)
{
	send_headers(p, stream, path, "te", "trailers");
	send_frame(p, DATA, END_STREAM, stream, "\0\0\0\0\1a", 6);
}

struct told {
	size_t n, bytes;         /* frames, and payload, of the kind that is looked for */
	uint32_t number, stream; /* of the last one: RST_STREAM's code, GOAWAY's last stream */
	uint32_t code;           /* GOAWAY's */
	size_t largest;
};

/* What the peer received in frames of a type on a stream (0: any). */
static struct told told(const struct peer *p, uint8_t type, uint32_t stream)
{
	struct told t = {};

	for (size_t at = 0; at + 9 <= p->n_received;) {
		const uint8_t *f = p->received + at;
		size_t size = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
		uint32_t of =
			((uint32_t)f[5] << 24 | (uint32_t)f[6] << 16 | (uint32_t)f[7] << 8 | f[8]) &
			INT32_MAX;

		if (f[3] == type && (!stream || of == stream)) {
			t.n++;
			t.bytes += size;
			t.stream = of;
			t.largest = MAX(t.largest, size);
			if (size >= 4)
				t.number = (uint32_t)f[9] << 24 | (uint32_t)f[10] << 16 |
					   (uint32_t)f[11] << 8 | f[12];
			if (size >= 8)
				t.code = (uint32_t)f[13] << 24 | (uint32_t)f[14] << 16 |
					 (uint32_t)f[15] << 8 | f[16];
		}
		at += 9 + size;
	}
	return t;
}

/* The value of a header of the stream's last block; NULL: it has none of this name. */
static const char *told_header(struct peer *p, uint32_t stream, const char *name, char *text,
			       size_t text_size)
{
	const char *found = NULL;

	for (size_t at = 0; at + 9 <= p->n_received;) {
		const uint8_t *f = p->received + at, *in = f + 9;
		size_t size = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2], left = size;
		bool is_of = f[3] == HEADERS && f[8] == stream;
		int flags = 0;

		while (f[3] == HEADERS && left) {
			nghttp2_nv nv;
			ssize_t n = nghttp2_hd_inflate_hd2(p->inflater, &nv, &flags, in, left, 1);

			if (n < 0)
				return NULL;
			in += n;
			left -= (size_t)n;
			if (is_of && flags & NGHTTP2_HD_INFLATE_EMIT &&
			    nv.namelen == strlen(name) && !memcmp(nv.name, name, nv.namelen)) {
				snprintf(text, text_size, "%.*s", (int)nv.valuelen, nv.value);
				found = text;
			}
			if (flags & NGHTTP2_HD_INFLATE_FINAL)
				break;
		}
		if (f[3] == HEADERS)
			nghttp2_hd_inflate_end_headers(p->inflater);
		at += 9 + size;
	}
	return found;
}

/* The stream is answered as expected: the session works. */
static void check_alive(struct peer *p, uint32_t stream)
{
	send_call(p, stream, "/t.T/Echo");
	take(p, SIZE_MAX);
	CHECK_EQ(p->error, 0);
	CHECK_EQ(told(p, DATA, stream).bytes, 6);
	CHECK_EQ(told(p, RST_STREAM, stream).n, 0);
}

TEST(the_content_type_is_echoed_and_the_accepted_encodings_are_listed)
{
	struct peer p;
	char text[64];

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	check_alive(&p, 1);
	CHECK_STR(told_header(&p, 1, "content-type", text, sizeof(text)), "application/grpc+proto");
	peer_end(&p);
	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Echo", "grpc-encoding", "snappy");
	take(&p, SIZE_MAX);
	CHECK_STR(told_header(&p, 1, "grpc-accept-encoding", text, sizeof(text)), "identity,gzip");
	peer_end(&p);
}

TEST(a_te_header_other_than_trailers_is_a_protocol_error)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Echo", "te", "gzip");
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, RST_STREAM, 1).number, NGHTTP2_PROTOCOL_ERROR);
	check_alive(&p, 3);
	peer_end(&p);
}

TEST(answers_come_out_the_same_however_little_is_written_at_a_time)
{
	static const size_t steps[] = { 1, 7, 1000, 65536, SIZE_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct peer p;

		peer_start(&p, (struct grpc_server_options){ 0 });
		peer_greet(&p);
		send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX);
		send_setting(&p, NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 20);
		send_number(&p, WINDOW_UPDATE, 0, 1 << 30);
		send_call(&p, 1, "/t.T/Big");
		send_call(&p, 3, "/t.T/Echo");
		take(&p, steps[i]);
		CHECK_EQ(p.error, 0);
		CHECK_EQ(told(&p, DATA, 1).bytes, 5 + BIG_SIZE);
		CHECK(told(&p, DATA, 1).largest > 16384);
		CHECK_EQ(told(&p, DATA, 3).bytes, 6);
		CHECK_EQ(told(&p, HEADERS, 1).n, 2);
		peer_end(&p);
	}
}

TEST(a_stream_that_is_reset_while_its_answer_waits_to_be_written_does_no_harm)
{
	struct peer p;
	struct iovec iov[GRPC_OUTPUT_PIECES];
	size_t n, size;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX);
	send_setting(&p, NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 20);
	send_number(&p, WINDOW_UPDATE, 0, 1 << 30);
	send_call(&p, 1, "/t.T/Big");
	CHECK_EQ(grpc_session_output(&p.session, iov, &n, &size), 0);
	CHECK(size > 65536);
	grpc_session_written(&p.session, 100);
	send_number(&p, RST_STREAM, 1, NGHTTP2_CANCEL);
	/* A frame that was begun is sent completely; no other one follows. */
	CHECK_EQ(grpc_session_output(&p.session, iov, &n, &size), 0);
	while (size) {
		grpc_session_written(&p.session, MIN(size, (size_t)5000));
		CHECK_EQ(grpc_session_output(&p.session, iov, &n, &size), 0);
	}
	check_alive(&p, 3);
	peer_end(&p);
}

TEST(flow_control_windows_of_0_and_1_bytes_are_obeyed_without_delaying_others)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	send_call(&p, 1, "/t.T/Echo");
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, HEADERS, 1).n, 1);
	CHECK_EQ(told(&p, DATA, 1).n, 0);
	for (unsigned i = 1; i <= 6; i++) {
		send_number(&p, WINDOW_UPDATE, 1, 1);
		take(&p, SIZE_MAX);
		CHECK_EQ(told(&p, DATA, 1).bytes, i);
	}
	CHECK_EQ(told(&p, DATA, 1).largest, 1);
	CHECK_EQ(told(&p, HEADERS, 1).n, 2);
	/* One stream has no window: the connection's is there for others. */
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	send_call(&p, 3, "/t.T/Big");
	take(&p, SIZE_MAX);
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10);
	check_alive(&p, 5);
	CHECK_EQ(told(&p, DATA, 3).bytes, 10);
	peer_end(&p);
}

TEST(a_window_beyond_its_limit_is_a_flow_control_error)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Echo", NULL, NULL);
	send_number(&p, WINDOW_UPDATE, 1, INT32_MAX);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, RST_STREAM, 1).number, NGHTTP2_FLOW_CONTROL_ERROR);
	check_alive(&p, 3);
	send_number(&p, WINDOW_UPDATE, 0, INT32_MAX);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).code, NGHTTP2_FLOW_CONTROL_ERROR);
	CHECK(grpc_session_over(&p.session));
	peer_end(&p);
}

TEST(a_client_that_reads_nothing_loses_its_call_and_then_its_connection)
{
	struct peer p;
	struct iovec iov[GRPC_OUTPUT_PIECES];
	size_t n, size;

	peer_start(&p, (struct grpc_server_options){ .stall_ns = 10 * SECOND });
	peer_greet(&p);
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	send_call(&p, 1, "/t.T/Echo");
	take(&p, SIZE_MAX);
	CHECK(grpc_session_due(&p.session) <= now_ns + 10 * SECOND);
	now_ns += 10 * SECOND - 1;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, RST_STREAM, 1).n, 0);
	now_ns++;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, RST_STREAM, 1).number, NGHTTP2_CANCEL);
	/* Now the socket. */
	send_call(&p, 3, "/t.T/Echo");
	CHECK_EQ(grpc_session_output(&p.session, iov, &n, &size), 0);
	CHECK(size > 0);
	CHECK(grpc_session_due(&p.session) <= now_ns + 10 * SECOND);
	now_ns += 10 * SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), -ETIMEDOUT);
	peer_end(&p);
}

TEST(a_peer_without_preface_or_end_of_headers_times_out)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	receive(&p, PREFACE, 10);
	take(&p, SIZE_MAX);
	now_ns += 10 * SECOND - 1;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	now_ns++;
	CHECK_EQ(grpc_session_due(&p.session), now_ns);
	CHECK_EQ(grpc_session_tick(&p.session), -ETIMEDOUT);
	peer_end(&p);
	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	/* A block that goes on, and a little of it each second. */
	send_frame(&p, HEADERS, 0, 1, "\x83", 1);
	now_ns += 29 * SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	send_frame(&p, CONTINUATION, 0, 1, "\x86", 1);
	CHECK_EQ(p.error, 0);
	now_ns += SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), -EPROTO);
	peer_end(&p);
	/* Or without end, at once. */
	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_frame(&p, HEADERS, 0, 1, "\x83", 1);
	for (unsigned i = 0; i < 20; i++)
		send_frame(&p, CONTINUATION, 0, 1, "", 0);
	CHECK_EQ(p.error, -EPROTO);
	peer_end(&p);
}

TEST(a_body_that_arrives_too_slowly_times_out)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ .request_ns = 30 * SECOND });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Echo", NULL, NULL);
	receive(&p, "", 0);
	send_frame(&p, DATA, 0, 1, "\0\0\0\0\x63", 5);
	for (unsigned i = 0; i < 30 && !told(&p, RST_STREAM, 1).n; i++) {
		now_ns += SECOND;
		CHECK_EQ(grpc_session_tick(&p.session), 0);
		take(&p, SIZE_MAX);
		send_frame(&p, DATA, 0, 1, "a", 1);
	}
	CHECK_EQ(told(&p, RST_STREAM, 1).number, NGHTTP2_CANCEL);
	CHECK_EQ(now_ns, 1030 * SECOND);
	check_alive(&p, 3);
	peer_end(&p);
}

TEST(a_deadline_passes_on_time_and_the_method_is_notified)
{
	struct peer p;
	char text[16];

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Hold", "grpc-timeout", "1500m");
	send_frame(&p, DATA, END_STREAM, 1, "\0\0\0\0\1a", 6);
	take(&p, SIZE_MAX);
	CHECK(held);
	CHECK_EQ(grpc_session_due(&p.session), now_ns + SECOND * 3 / 2);
	now_ns += SECOND * 3 / 2;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(n_cancelled, 1);
	CHECK_STR(told_header(&p, 1, "grpc-status", text, sizeof(text)), "4");
	peer_end(&p);
}

TEST(pings_are_echoed_and_those_beside_data_are_not_counted)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	/* Like clients that measure the capacity of a connection: one with each answer. */
	for (uint32_t i = 0; i < 50; i++) {
		send_frame(&p, PING, 0, 0, "\1\2\3\4\5\6\7\10", 8);
		check_alive(&p, 1 + 2 * i);
	}
	CHECK_EQ(told(&p, PING, 0).n, 50);
	CHECK_EQ(told(&p, PING, 0).number, 0x01020304);
	CHECK_EQ(told(&p, GOAWAY, 0).n, 0);
	for (unsigned i = 0; i < 4; i++)
		send_frame(&p, PING, 0, 0, "abcdefgh", 8);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).code, NGHTTP2_ENHANCE_YOUR_CALM);
	peer_end(&p);
}

/* Endless frames of one kind: the session ends it, or it costs nothing, and no memory
 * accumulates. */
static void flood(uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t size,
		  bool takes)
{
	struct peer p;
	size_t most = 0;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_headers(&p, 1, "/t.T/Echo", NULL, NULL);
	for (unsigned i = 0; i < 100000 && p.error == 0 && !grpc_session_over(&p.session); i++) {
		send_frame(&p, type, flags, stream, payload, size);
		if (takes && p.error == 0)
			take(&p, SIZE_MAX);
		p.n_received = 0;
		most = MAX(most, p.session.http2.output.allocated);
	}
	CHECK(most < 100000);
	if (p.error == 0)
		take(&p, SIZE_MAX);
	if (p.error == 0 && !grpc_session_over(&p.session))
		check_alive(&p, 3);
	peer_end(&p);
}

TEST(floods_of_frames_are_ended_or_cost_nothing)
{
	for (int takes = 0; takes < 2; takes++) {
		flood(SETTINGS, 0, 0, "", 0, takes);
		flood(PING, 0, 0, "abcdefgh", 8, takes);
		flood(DATA, 0, 1, "", 0, takes);
		flood(PRIORITY, 0, 5, "\0\0\0\0\1", 5, takes);
		flood(PRIORITY, 0, 1, "\0\0\0\3\1", 5, takes);
		flood(WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, takes);
		flood(RST_STREAM, 0, 1, "\0\0\0\0", 4, takes);
		flood(0xfa, 0xff, 9, "unknown", 7, takes);
	}
}

TEST(a_peer_that_makes_the_server_reset_too_many_calls_is_disconnected)
{
	struct peer p;
	uint32_t stream = 1;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	/* An invalid header is an error of the stream, so that the reset is the server's. */
	for (; stream < 2000 && p.error == 0 && !p.session.closing; stream += 2) {
		send_headers(&p, stream, "/t.T/Hold", "te", "gzip");
		take(&p, SIZE_MAX);
	}
	CHECK(p.session.closing);
	CHECK_EQ(told(&p, GOAWAY, 0).code, NGHTTP2_ENHANCE_YOUR_CALM);
	CHECK(stream < 600);
	peer_end(&p);
	/* A few of them, now and then, are harmless. */
	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	for (stream = 1; stream < 1200 && p.error == 0; stream += 2) {
		send_headers(&p, stream, "/t.T/Echo", NULL, NULL);
		send_number(&p, RST_STREAM, stream, NGHTTP2_CANCEL);
		take(&p, SIZE_MAX);
		now_ns += SECOND / 10;
	}
	check_alive(&p, stream);
	peer_end(&p);
}

TEST(a_bomb_of_header_fields_is_refused)
{
	uint8_t block[5000];
	struct peer p;
	size_t n = 0;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	/* One long field is put into the table, and referred to again and again. */
	memcpy(block, "\x40\1a\x7f\x81\x1e", 6);
	n = 6;
	memset(block + n, 'b', 4000);
	n += 4000;
	memset(block + n, 0xbe, sizeof(block) - n);
	send_frame(&p, HEADERS, END_HEADERS | END_STREAM, 1, block, sizeof(block));
	take(&p, SIZE_MAX);
	CHECK(p.error < 0 || told(&p, RST_STREAM, 1).n || told(&p, GOAWAY, 0).n ||
	      told(&p, HEADERS, 1).n);
	CHECK_EQ(told(&p, DATA, 1).n && !told(&p, HEADERS, 1).n, 0);
	peer_end(&p);
}

TEST(draining_sends_a_notice_then_the_last_stream_id_and_finishes_calls_in_flight)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_call(&p, 1, "/t.T/Hold");
	take(&p, SIZE_MAX);
	grpc_session_drain(&p.session);
	CHECK_EQ(p.n_wakes, 1);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).number, INT32_MAX);
	CHECK(!grpc_session_over(&p.session));
	/* Under way when the notice was sent: it is still answered. */
	check_alive(&p, 3);
	send_frame(&p, PING, ACK, 0, "drain\0\0\0", 8);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).n, 2);
	CHECK_EQ(told(&p, GOAWAY, 0).number, 3);
	CHECK(!grpc_session_over(&p.session));
	send_call(&p, 5, "/t.T/Echo");
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, DATA, 5).n, 0);
	grpc_call_finish(held, GRPC_OK, NULL);
	take(&p, SIZE_MAX);
	CHECK(told(&p, HEADERS, 1).n > 0);
	CHECK(grpc_session_over(&p.session));
	peer_end(&p);
}

TEST(a_peer_that_does_not_answer_the_notice_is_drained_in_time)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	grpc_session_drain(&p.session);
	take(&p, SIZE_MAX);
	CHECK_EQ(grpc_session_due(&p.session), now_ns + SECOND);
	now_ns += SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).n, 2);
	CHECK(grpc_session_over(&p.session));
	peer_end(&p);
}

TEST(a_connection_that_drops_cancels_its_calls)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_call(&p, 1, "/t.T/Hold");
	CHECK(held);
	peer_end(&p);
	CHECK_EQ(n_cancelled, 1);
}

TEST(clients_that_read_nothing_are_dropped_sooner_if_much_waits_for_them)
{
	static const struct grpc_server_options options = { .max_waiting = 3 * BIG_SIZE / 2 };

	for (unsigned n = 1; n <= 2; n++) {
		struct peer p;

		peer_start(&p, options);
		peer_greet(&p);
		send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
		for (unsigned i = 0; i < n; i++)
			send_call(&p, 1 + 2 * i, "/t.T/Big");
		take(&p, SIZE_MAX);
		CHECK_EQ(p.service.waiting, n * (BIG_SIZE + 5));
		for (unsigned i = 0; i < 30; i++) {
			now_ns += SECOND / 2;
			if (now_ns >= grpc_session_due(&p.session))
				CHECK_EQ(grpc_session_tick(&p.session), 0);
			take(&p, SIZE_MAX);
		}
		CHECK_EQ(p.error, 0);
		CHECK_EQ(told(&p, RST_STREAM, 0).n, n == 2 ? 2 : 0);
		CHECK_EQ(p.service.waiting, n == 2 ? 0 : BIG_SIZE + 5);
		peer_end(&p);
		CHECK_EQ(p.service.waiting, 0);
	}
}

TEST(a_client_that_leaves_many_answers_gets_no_more_of_them)
{
	struct peer p;
	unsigned n;

	peer_start(&p, (struct grpc_server_options){ 0 });
	peer_greet(&p);
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	for (n = 0; n < 40; n++)
		send_call(&p, 1 + 2 * n, "/t.T/Big");
	take(&p, SIZE_MAX);
	CHECK_EQ(p.service.waiting, 16 * (BIG_SIZE + 5));
	/* The others have a status. */
	CHECK_EQ(told(&p, HEADERS, 0).n, 40);
	CHECK_EQ(told(&p, HEADERS, 79).n, 1);
	/* Those that fit are unaffected. */
	send_setting(&p, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX);
	send_number(&p, WINDOW_UPDATE, 0, 1 << 30);
	take(&p, SIZE_MAX);
	CHECK_EQ(p.service.waiting, 0);
	check_alive(&p, 81);
	peer_end(&p);
}

TEST(connections_that_buffer_all_there_is_leave_room_for_small_requests)
{
	static uint8_t part[16384];
	struct grpc_session other = {};
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ .max_buffered = 200000 });
	peer_greet(&p);
	/* Another session of the service has used up the room. */
	CHECK_EQ(grpc_session_init(&other, &p.service, on_wake, &p), 0);
	p.service.buffered = 200001;
	check_alive(&p, 1);
	/* Here, too, not more than a little. */
	send_headers(&p, 3, "/t.T/Echo", NULL, NULL);
	memcpy(part, "\0\0\3\0\0", 5);
	for (unsigned i = 0; i < 3; i++)
		send_frame(&p, DATA, 0, 3, part, sizeof(part));
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, HEADERS, 3).n, 0);
	for (unsigned i = 0; i < 2; i++)
		send_frame(&p, DATA, 0, 3, part, sizeof(part));
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, HEADERS, 3).n, 1);
	CHECK_EQ(p.session.buffered, 0);
	grpc_session_clear(&other);
	peer_end(&p);
}

TEST(a_connection_without_calls_is_closed_in_time)
{
	struct peer p;

	peer_start(&p, (struct grpc_server_options){ .idle_ns = 100 * SECOND });
	peer_greet(&p);
	now_ns += 90 * SECOND;
	check_alive(&p, 1);
	CHECK_EQ(grpc_session_due(&p.session), now_ns + 100 * SECOND);
	now_ns += 100 * SECOND - 1;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).n, 0);
	now_ns++;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	/* A call that is under way is still answered. */
	CHECK_EQ(told(&p, GOAWAY, 0).number, INT32_MAX);
	check_alive(&p, 3);
	now_ns += SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK(grpc_session_over(&p.session));
	peer_end(&p);
	/* With a call it stays. */
	peer_start(&p, (struct grpc_server_options){ .idle_ns = 100 * SECOND });
	peer_greet(&p);
	send_call(&p, 1, "/t.T/Hold");
	take(&p, SIZE_MAX);
	now_ns += 1000 * SECOND;
	CHECK_EQ(grpc_session_tick(&p.session), 0);
	take(&p, SIZE_MAX);
	CHECK_EQ(told(&p, GOAWAY, 0).n, 0);
	peer_end(&p);
}

/* The fields of a block that are looked at: nghttp2 checks each byte of them. */
static void send_bomb(struct peer *p, bool trailers)
{
	uint8_t block[16000];
	size_t n = 0;

	peer_start(p, (struct grpc_server_options){ 0 });
	peer_greet(p);
	send_call(p, 1, "/t.T/Echo");
	if (trailers)
		send_headers(p, 3, "/t.T/Hold", NULL, NULL);
	else
		n = header_block(p, "/t.T/Hold", NULL, NULL, block, sizeof(block));
	/* One long field is put into the table, and referred to again and again. */
	memcpy(block + n, "\x40\1a\x7f\x81\x1e", 6);
	n += 6;
	memset(block + n, 'b', 3968);
	n += 3968;
	memset(block + n, 0xbe, sizeof(block) - n);
	send_frame(p, HEADERS, END_HEADERS | END_STREAM, 3, block, sizeof(block));
}

TEST(a_block_that_refers_to_long_fields_again_and_again_is_not_read_to_its_end)
{
	struct peer p;

	for (int trailers = 0; trailers < 2; trailers++) {
		send_bomb(&p, trailers);
		/* 64 KiB of the 48 MB. */
		CHECK(p.session.calls && p.session.calls->header_bytes < 70000);
		take(&p, SIZE_MAX);
		CHECK_EQ(p.error, 0);
		CHECK_EQ(told(&p, RST_STREAM, 3).number, NGHTTP2_INTERNAL_ERROR);
		peer_end(&p);
	}
}

/* Arbitrary bytes, with a valid beginning and flipped bits: never a crash (the sanitizers check),
 * never more than a little memory. */
TEST(any_bytes_do_no_harm)
{
	for (unsigned seed = 0; seed < 3000; seed++) {
		uint64_t x = 0x9e3779b97f4a7c15ull * (seed + 1);
		struct peer p;
		uint8_t bytes[400];

		peer_start(&p, (struct grpc_server_options){ 0 });
		if (seed % 4) {
			peer_greet(&p);
			send_headers(&p, 1, seed % 8 < 4 ? "/t.T/Hold" : "/t.T/Echo", "x-bin",
				     "!!!");
		}
		for (unsigned round = 0; round < 8; round++) {
			for (size_t i = 0; i < sizeof(bytes); i++) {
				x ^= x << 13;
				x ^= x >> 7;
				x ^= x << 17;
				bytes[i] = (uint8_t)(x >> 24);
				/* Small lengths, valid types, and likely streams. */
				if (seed % 2 && i % 17 < 9)
					bytes[i] &= (const uint8_t[]){ 0, 0, 15, 15, 0xff,
								       0, 0, 0,  7 }[i % 17];
			}
			receive(&p, bytes, sizeof(bytes));
			take(&p, SIZE_MAX);
			now_ns += SECOND;
			if (p.error == 0)
				p.error = grpc_session_tick(&p.session);
		}
		CHECK(p.service.buffered < 100000);
		peer_end(&p);
	}
}

CHECK_MAIN()
