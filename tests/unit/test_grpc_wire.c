/* SPDX-License-Identifier: Apache-2.0 */
/* What the gRPC server answers to requests that no well-behaved client sends, made by hand over
 * HTTP/2. */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zlib.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/server.h"
#include "tests/unit/check.h"

#define MAX_HEADERS 600
#define MAX_MESSAGE 100000

static struct loop *server_loop;
static struct grpc_server *server;
static int n_held;

static void echo(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body = NULL;

	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add_copy(body, message, size), 0);
	grpc_call_reply(call, body);
}

static void forget(void *data)
{
	n_held--;
}

static void hold(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	CHECK_EQ(grpc_call_on_cancel(call, forget, NULL), 0);
	n_held++;
}

static int n_ends; /* of requests of many messages */

/* Sends each message back; "!" ends the call. */
static void each(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body = NULL;

	if (!message) {
		n_ends++;
		grpc_call_finish(call, GRPC_OK, NULL);
		return;
	}
	if (size == 1 && *message == '!') {
		grpc_call_fail(call, GRPC_ABORTED, "so be it");
		return;
	}
	CHECK_EQ(grpc_body_new(&body), 0);
	CHECK_EQ(grpc_body_add_copy(body, message, size), 0);
	CHECK_EQ(grpc_call_send(call, body), 0);
}

static const struct grpc_method methods[] = { { "/t.T/Echo", echo },
					      { "/t.T/Hold", hold },
					      { "/t.T/Each", each, .takes_many = true } };

static void *serve(void *data)
{
	loop_run(server_loop);
	return NULL;
}

static void exit_loop(void *data)
{
	loop_exit(server_loop, 0);
}

/* A client's end of one connection, and what came over it. */
struct wire {
	pthread_t server_thread;
	nghttp2_session *session;
	int fd;
	bool hung_up;

	/* The request that is being made. */
	const uint8_t *bytes;
	size_t n_bytes, n_sent, step;
	bool stay_open; /* the request is not ended */

	/* The answers, of all streams together. */
	int http_status, grpc_status, n_answers, n_closed, n_reset;
	uint32_t reset_code, goaway_code;
	char goaway_text[32];
	uint8_t data[64];
	size_t n_data;
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user_data)
{
	struct wire *w = user_data;

	if (!strcmp((const char *)name, ":status"))
		w->http_status = atoi((const char *)value);
	if (!strcmp((const char *)name, "grpc-status")) {
		w->grpc_status = atoi((const char *)value);
		w->n_answers++;
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
		   size_t size, void *user_data)
{
	struct wire *w = user_data;

	size = MIN(size, sizeof(w->data) - w->n_data);
	memcpy(w->data + w->n_data, bytes, size);
	w->n_data += size;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct wire *w = user_data;

	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		w->n_reset++;
		w->reset_code = frame->rst_stream.error_code;
	} else if (frame->hd.type == NGHTTP2_GOAWAY) {
		w->goaway_code = frame->goaway.error_code;
		snprintf(w->goaway_text, sizeof(w->goaway_text), "%.*s",
			 (int)frame->goaway.opaque_data_len,
			 (const char *)frame->goaway.opaque_data);
	}
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
		    void *user_data)
{
	struct wire *w = user_data;

	w->n_closed++;
	return 0;
}

static ssize_t on_padding(nghttp2_session *session, const nghttp2_frame *frame, size_t max,
			  void *user_data)
{
	return (ssize_t)MIN(max, frame->hd.length + 3);
}

static ssize_t on_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t length,
		       uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
	struct wire *w = user_data;

	length = MIN(MIN(length, w->step), w->n_bytes - w->n_sent);
	if (length)
		memcpy(buffer, w->bytes + w->n_sent, length);
	w->n_sent += length;
	if (w->n_sent == w->n_bytes) {
		if (w->stay_open && !length)
			return NGHTTP2_ERR_DEFERRED;
		if (!w->stay_open)
			*flags |= NGHTTP2_DATA_FLAG_EOF;
	}
	return (ssize_t)length;
}

static void wire_start(struct wire *w, struct grpc_server_options options)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(name);
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*w = (struct wire){ .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
			    .step = SIZE_MAX };
	n_held = 0;
	options.methods = methods;
	options.n_methods = ARRAY_SIZE(methods);
	options.max_message = MAX_MESSAGE;
	CHECK_EQ(loop_new(&server_loop), 0);
	CHECK_EQ(grpc_server_new(server_loop, &options, &server), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	CHECK_EQ(listen(fd, 64), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &size), 0);
	CHECK_EQ(grpc_server_listen(server, fd, NULL, NULL, NULL), 0);
	CHECK_EQ(pthread_create(&w->server_thread, NULL, serve, NULL), 0);
	CHECK_EQ(connect(w->fd, (struct sockaddr *)&name, size), 0);

	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_callbacks_set_select_padding_callback(callbacks, on_padding);
	nghttp2_option_new(&option);
	/* The limits of the server are tested, not obeyed. */
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, 100000);
	CHECK_EQ(nghttp2_session_client_new2(&w->session, callbacks, w, option), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	CHECK_EQ(nghttp2_submit_settings(w->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

static void wire_end(struct wire *w)
{
	nghttp2_session_del(w->session);
	close(w->fd);
	CHECK_EQ(loop_post(server_loop, exit_loop, NULL), 0);
	pthread_join(w->server_thread, NULL);
	grpc_server_free(server);
	loop_free(server_loop);
	CHECK_EQ(n_held, 0);
}

static void wire_write(struct wire *w)
{
	const uint8_t *bytes;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(w->session, &bytes)) > 0 && !w->hung_up)
		w->hung_up = send(w->fd, bytes, (size_t)n, MSG_NOSIGNAL) != n;
}

/* Writes and reads until so many streams are closed, or the server hung up. */
static void wire_run(struct wire *w, int n_closed)
{
	uint8_t buffer[4096];

	for (;;) {
		ssize_t n;

		wire_write(w);
		if (w->n_closed >= n_closed)
			return;
		n = recv(w->fd, buffer, sizeof(buffer), 0);
		if (n <= 0)
			break;
		CHECK(nghttp2_session_mem_recv(w->session, buffer, (size_t)n) == n);
	}
	w->hung_up = true;
}

/*
 * Submits a request with the usual headers, changed by "name", "value" pairs that end with NULL (""
 * takes one away).
 */
static void wire_submit(struct wire *w, const char *const *changes, const void *bytes,
			size_t n_bytes)
{
	nghttp2_data_provider provider = { .read_callback = on_read };
	nghttp2_nv nv[MAX_HEADERS] = { { 0 } };
	const char *headers[MAX_HEADERS][2] = {
		{ ":method", "POST" },    { ":scheme", "http" },
		{ ":path", "/t.T/Echo" }, { ":authority", "here" },
		{ "te", "trailers" },     { "content-type", "application/grpc" },
	};
	size_t n = 6, n_nv = 0;

	for (; changes && *changes; changes += 2) {
		size_t i = 0;

		while (i < n && strcmp(headers[i][0], changes[0]))
			i++;
		headers[i][0] = changes[0];
		headers[i][1] = changes[1];
		n = MAX(n, i + 1);
	}
	for (size_t i = 0; i < n; i++)
		if (headers[i][1][0])
			nv[n_nv++] = (nghttp2_nv){ .name = (uint8_t *)headers[i][0],
						   .namelen = strlen(headers[i][0]),
						   .value = (uint8_t *)headers[i][1],
						   .valuelen = strlen(headers[i][1]) };
	w->bytes = bytes;
	w->n_bytes = n_bytes;
	w->n_sent = 0;
	CHECK(nghttp2_submit_request(w->session, NULL, nv, n_nv, bytes ? &provider : NULL, NULL) >
	      0);
}

/* Makes one call; its answer is in the wire. */
static void wire_call(struct wire *w, const char *const *changes, const void *bytes, size_t n_bytes)
{
	w->http_status = w->grpc_status = -1;
	w->n_reset = 0;
	w->n_data = 0;
	w->reset_code = UINT32_MAX;
	wire_submit(w, changes, bytes, n_bytes);
	wire_run(w, w->n_closed + 1);
}

#define HEADERS(...) ((const char *const[]){ __VA_ARGS__, NULL })
static const uint8_t hello[] = "\0\0\0\0\5hello";
#define HELLO_SIZE (sizeof(hello) - 1)

static void check_hello(struct wire *w, const char *const *changes)
{
	wire_call(w, changes, hello, HELLO_SIZE);
	CHECK_EQ(w->http_status, 200);
	CHECK_EQ(w->grpc_status, GRPC_OK);
	CHECK(w->n_data == HELLO_SIZE && !memcmp(w->data, hello, HELLO_SIZE));
}

static void check_status(struct wire *w, const char *const *changes, const void *bytes,
			 size_t n_bytes, enum grpc_status status)
{
	wire_call(w, changes, bytes, n_bytes);
	CHECK_EQ(w->http_status, 200);
	CHECK_EQ(w->grpc_status, status);
}

static void check_http(struct wire *w, const char *const *changes, int http_status)
{
	wire_call(w, changes, hello, HELLO_SIZE);
	CHECK_EQ(w->http_status, http_status);
	CHECK_EQ(w->grpc_status, -1);
}

TEST(a_request_may_be_divided_into_padded_pieces_anywhere)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	for (w.step = 1; w.step <= HELLO_SIZE; w.step++)
		check_hello(&w, NULL);
	wire_end(&w);
}

TEST(a_request_that_is_not_gRPC_gets_an_HTTP_error)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	check_http(&w, HEADERS(":method", "GET"), 405);
	check_http(&w, HEADERS("content-type", "text/plain"), 415);
	check_http(&w, HEADERS("content-type", ""), 415);
	check_hello(&w, HEADERS("content-type", "application/grpc+proto"));
	check_hello(&w, HEADERS("te", ""));
	wire_end(&w);
}

TEST(too_many_headers_are_refused_and_the_connection_stays_open)
{
	const char *headers[2 * 500 + 1] = { NULL };
	char names[500][24];
	struct wire w;

	for (int i = 0; i < 500; i++) {
		snprintf(names[i], sizeof(names[i]), "x-many-%d", i);
		headers[2 * i] = names[i];
		headers[2 * i + 1] = "x";
	}
	wire_start(&w, (struct grpc_server_options){ 0 });
	check_http(&w, headers, 431);
	check_hello(&w, NULL);
	wire_end(&w);
}

TEST(a_body_that_is_not_one_message_is_an_error)
{
	const uint8_t two[] = "\0\0\0\0\1a\0\0\0\0\1b", flag[] = "\2\0\0\0\1a",
		      packed[] = "\1\0\0\0\1a";
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	check_status(&w, NULL, two, 12, GRPC_UNIMPLEMENTED);
	check_status(&w, NULL, NULL, 0, GRPC_UNIMPLEMENTED);
	check_status(&w, NULL, "", 0, GRPC_UNIMPLEMENTED);
	check_status(&w, NULL, hello, HELLO_SIZE - 1, GRPC_INTERNAL);
	check_status(&w, NULL, hello, 3, GRPC_INTERNAL);
	check_status(&w, NULL, flag, 6, GRPC_INTERNAL);
	check_status(&w, NULL, packed, 6, GRPC_INTERNAL);
	check_status(&w, HEADERS("grpc-encoding", "identity"), packed, 6, GRPC_INTERNAL);
	check_hello(&w, NULL);
	wire_end(&w);
}

TEST(a_method_of_many_messages_gets_each_as_it_comes)
{
	static const uint8_t three[] = "\0\0\0\0\1a\0\0\0\0\0\0\0\0\0\2bc",
			     ended[] = "\0\0\0\0\1a\0\0\0\0\1!\0\0\0\0\1b";
	const char *const *path = HEADERS(":path", "/t.T/Each");
	const size_t size = sizeof(three) - 1;
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ .request_ns = 50000000 });
	n_ends = 0;
	for (size_t step = 1; step <= size; step += size - 1) {
		w.step = step;
		check_status(&w, path, three, size, GRPC_OK);
		CHECK(w.n_data == size && !memcmp(w.data, three, size));
	}
	CHECK_EQ(n_ends, 2);
	/* None at all; and what follows the end is ignored. */
	check_status(&w, path, "", 0, GRPC_OK);
	CHECK_EQ(n_ends, 3);
	check_status(&w, path, ended, sizeof(ended) - 1, GRPC_ABORTED);
	CHECK_EQ(w.n_data, 6);
	CHECK_EQ(n_ends, 3);
	/* Malformed messages end it; so does a client that sends no more, which had its answers
	 * before. */
	check_status(&w, path, three, size - 1, GRPC_INTERNAL);
	check_status(&w, path, "\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED);
	CHECK_EQ(n_ends, 3);
	w.stay_open = true;
	wire_call(&w, path, three, size);
	CHECK(w.n_data == size && w.n_reset == 1 && w.reset_code == NGHTTP2_CANCEL);
	wire_end(&w);
}

TEST(a_message_above_the_limit_is_refused_early_and_the_stream_closes_without_an_error)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	w.stay_open = true;
	check_status(&w, NULL, "\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED);
	CHECK_EQ(w.n_reset, 1);
	CHECK_EQ(w.reset_code, NGHTTP2_NO_ERROR);
	w.stay_open = false;
	check_hello(&w, NULL);
	wire_end(&w);
}

static size_t gzip_message(const void *bytes, size_t size, uint8_t *out, size_t out_size)
{
	z_stream z = { .next_in = (Bytef *)bytes, .avail_in = (uInt)size, .next_out = out + 5 };
	size_t n;

	z.avail_out = (uInt)out_size - 5;
	CHECK_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	n = out_size - 5 - z.avail_out;
	out[0] = 1;
	out[1] = out[2] = 0;
	out[3] = (uint8_t)(n >> 8);
	out[4] = (uint8_t)n;
	return n + 5;
}

TEST(gzip_requests_are_unpacked_up_to_the_limit)
{
	static uint8_t bomb[MAX_MESSAGE + 1], packed[4000];
	struct wire w;
	size_t n;

	wire_start(&w, (struct grpc_server_options){ 0 });
	n = gzip_message("hello", 5, packed, sizeof(packed));
	wire_call(&w, HEADERS("grpc-encoding", "gzip"), packed, n);
	CHECK_EQ(w.grpc_status, GRPC_OK);
	CHECK(w.n_data == HELLO_SIZE && !memcmp(w.data, hello, HELLO_SIZE));
	packed[n - 1] ^= 1;
	check_status(&w, HEADERS("grpc-encoding", "gzip"), packed, n, GRPC_INTERNAL);
	n = gzip_message(bomb, sizeof(bomb), packed, sizeof(packed));
	check_status(&w, HEADERS("grpc-encoding", "gzip"), packed, n, GRPC_RESOURCE_EXHAUSTED);
	check_status(&w, HEADERS("grpc-encoding", "snappy"), hello, HELLO_SIZE, GRPC_UNIMPLEMENTED);
	check_hello(&w, HEADERS("grpc-encoding", "gzip"));
	wire_end(&w);
}

TEST(timeouts_are_obeyed_and_malformed_ones_refused)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	check_status(&w, HEADERS(":path", "/t.T/Hold", "grpc-timeout", "1m"), hello, HELLO_SIZE,
		     GRPC_DEADLINE_EXCEEDED);
	check_status(&w, HEADERS("grpc-timeout", "1s"), hello, HELLO_SIZE, GRPC_INTERNAL);
	check_hello(&w, HEADERS("grpc-timeout", "99999999H"));
	wire_end(&w);
}

TEST(a_request_that_does_not_end_in_time_is_reset)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ .request_ns = 20000000 });
	w.stay_open = true;
	wire_call(&w, NULL, hello, 3);
	CHECK_EQ(w.grpc_status, -1);
	CHECK_EQ(w.n_reset, 1);
	w.stay_open = false;
	check_hello(&w, NULL);
	wire_end(&w);
}

TEST(calls_above_the_limit_of_streams_are_refused)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ .max_streams = 10 });
	for (int i = 0; i < 15; i++) {
		wire_submit(&w, HEADERS(":path", "/t.T/Hold"), hello, HELLO_SIZE);
		wire_write(&w);
	}
	wire_run(&w, 5);
	CHECK(w.hung_up || (w.n_reset == 5 && w.reset_code == NGHTTP2_REFUSED_STREAM));
	wire_end(&w);
}

TEST(many_calls_at_a_time_on_one_connection_are_all_answered)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 100; i++) {
			wire_submit(&w, NULL, hello, HELLO_SIZE);
			wire_write(&w);
		}
		wire_run(&w, 100 * (round + 1));
	}
	CHECK_EQ(w.n_answers, 500);
	CHECK_EQ(w.grpc_status, GRPC_OK);
	wire_end(&w);
}

TEST(a_peer_that_opens_and_resets_too_many_calls_is_disconnected)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	for (int i = 0; i < 3000 && !w.hung_up; i++) {
		wire_submit(&w, HEADERS(":path", "/t.T/Hold"), hello, HELLO_SIZE);
		wire_write(&w);
		CHECK_EQ(nghttp2_submit_rst_stream(w.session, NGHTTP2_FLAG_NONE, 2 * i + 1,
						   NGHTTP2_CANCEL),
			 0);
		wire_write(&w);
	}
	wire_run(&w, INT32_MAX);
	CHECK(w.hung_up);
	CHECK_EQ(w.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	CHECK_STR(w.goaway_text, "too_many_resets");
	wire_end(&w);
}

TEST(a_peer_that_pings_too_often_is_disconnected_with_a_reason)
{
	struct wire w;

	wire_start(&w, (struct grpc_server_options){ 0 });
	check_hello(&w, NULL);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(nghttp2_submit_ping(w.session, NGHTTP2_FLAG_NONE, NULL), 0);
	wire_write(&w);
	/* An answer in between forgives. */
	check_hello(&w, NULL);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(nghttp2_submit_ping(w.session, NGHTTP2_FLAG_NONE, NULL), 0);
	wire_run(&w, INT32_MAX);
	CHECK(w.hung_up);
	CHECK_EQ(w.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	CHECK_STR(w.goaway_text, "too_many_pings");
	wire_end(&w);
}

CHECK_MAIN()
