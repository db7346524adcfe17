#include "lib/grpc/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib/base/macro.h"
#include "lib/grpc/call.h"

#define SECOND 1000000000ull
#define READ_SIZE 65536
#define READS_PER_VISIT 4
/* More than this at once would keep other connections waiting for long. */
#define WRITE_BUDGET (2 << 20)
/* Smaller frames are copied to be written together; larger ones are written from where they lie. */
#define DIRECT_SIZE 32768
#define FRAME_SIZE_MAX 262144
#define OUTPUT_SIZE 65536
/* What an idle connection may keep of its output buffer. */
#define OUTPUT_KEEP 4096
#define FRAME_HEADER_SIZE 9
#define FRAME_PIECES 64
#define HEADER_LIST_MAX 16384

#define DRAIN_NS (1 * SECOND)
#define LINGER_NS (1 * SECOND)
/* Streams that end otherwise than they should: so many at once, and so many a second from then on. */
#define RESET_BURST 200
#define RESET_RATE 20
#define PING_STRIKES 2

static int output_reserve(struct grpc_output *output, size_t size)
{
	size_t allocated;
	uint8_t *bytes;

	if (output->start && output->end + size > output->allocated) {
		memmove(output->bytes, output->bytes + output->start, output->end - output->start);
		output->end -= output->start;
		output->start = 0;
	}
	if (output->end + size <= output->allocated)
		return 0;
	allocated = MAX(output->end + size, output->allocated * 2);
	bytes = realloc(output->bytes, allocated);
	if (!bytes)
		return -ENOMEM;
	output->bytes = bytes;
	output->allocated = allocated;
	return 0;
}

static int output_add(struct grpc_output *output, const void *bytes, size_t size)
{
	if (output_reserve(output, size) < 0)
		return -ENOMEM;
	memcpy(output->bytes + output->end, bytes, size);
	output->end += size;
	return 0;
}

static size_t output_size(const struct grpc_output *output)
{
	return output->end - output->start;
}

static void output_advance(struct grpc_output *output, size_t size)
{
	output->start += size;
	if (output->start < output->end)
		return;
	output->start = output->end = 0;
	if (output->allocated > OUTPUT_KEEP) {
		free(output->bytes);
		*output = (struct grpc_output){ 0 };
	}
}

/* Sets the timer to the next moment at which something has to be decided. */
static void connection_arm(struct grpc_connection *connection)
{
	uint64_t at = connection->failed ? 0 : LOOP_NEVER;

	if (!connection->settled)
		at = MIN(at, connection->settle_by);
	if (connection->draining && !connection->final)
		at = MIN(at, connection->drain_by);
	if (connection->lingering)
		at = MIN(at, connection->linger_by);
	if (output_size(&connection->output))
		at = MIN(at, connection->progress_ns + connection->server->options.stall_ns);
	if (at != loop_timer_at(connection->timer))
		loop_timer_set(connection->timer, at);
}

/* Writes what the socket takes: 0, and blocked is set when that was not all, or the error. */
static int connection_send(struct grpc_connection *connection, struct iovec *iov, size_t n_iov, size_t size,
			   size_t *ret_sent)
{
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = n_iov };
	ssize_t n = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	n = MAX(n, 0);
	if (n || !connection->blocked)
		connection->progress_ns = loop_now();
	connection->blocked = (size_t)n < size;
	connection->budget -= n;
	*ret_sent = (size_t)n;
	return 0;
}

static int connection_flush(struct grpc_connection *connection)
{
	struct grpc_output *output = &connection->output;
	struct iovec iov = { output->bytes + output->start, output_size(output) };
	size_t sent;
	int r;

	if (!iov.iov_len)
		return 0;
	r = connection_send(connection, &iov, 1, iov.iov_len, &sent);
	if (r < 0)
		return r;
	output_advance(output, sent);
	return 0;
}

/* Writes the frame behind what is in the output, and keeps there what the socket does not take. */
static int connection_send_frame(struct grpc_connection *connection, struct iovec *iov, size_t n_iov, size_t size)
{
	struct grpc_output *output = &connection->output;
	size_t pending = output_size(output), sent = 0;
	int r;

	if (size >= DIRECT_SIZE && !connection->blocked) {
		iov[0] = (struct iovec){ output->bytes + output->start, pending };
		r = connection_send(connection, iov, n_iov, pending + size, &sent);
		if (r < 0)
			return r;
	}
	if (sent == pending + size) {
		output_advance(output, pending);
		return 0;
	}
	output->start += MIN(sent, pending);
	sent -= MIN(sent, pending);
	if (output_reserve(output, size - sent) < 0)
		return -ENOMEM;
	for (size_t i = 1; i < n_iov; i++) {
		size_t skipped = MIN(sent, iov[i].iov_len), n = iov[i].iov_len - skipped;

		memcpy(output->bytes + output->end, (uint8_t *)iov[i].iov_base + skipped, n);
		output->end += n;
		sent -= skipped;
	}
	return 0;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header, size_t length,
			nghttp2_data_source *source, void *user_data)
{
	struct grpc_connection *connection = user_data;
	struct grpc_call *call = source->ptr;
	/* The output, the frame's header, the pieces of its content. */
	struct iovec iov[2 + FRAME_PIECES];
	size_t n = FRAME_PIECES;

	iov[1] = (struct iovec){ (void *)header, FRAME_HEADER_SIZE };
	if (grpc_queue_peek(&call->queue, length, iov + 2, &n) != length ||
	    connection_send_frame(connection, iov, 2 + n, FRAME_HEADER_SIZE + length) < 0) {
		connection->failed = true;
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	grpc_queue_advance(&call->queue, length);
	call->progress_ns = loop_now();
	if (!connection->blocked && connection->budget > 0 && output_size(&connection->output) < OUTPUT_SIZE)
		return 0;
	connection->paused = true;
	return NGHTTP2_ERR_PAUSE;
}

/* Has the session put its frames into the output, until that is full or the session has nothing to say. */
static int connection_fill(struct grpc_connection *connection, bool *ret_idle)
{
	*ret_idle = false;
	connection->paused = false;
	while (output_size(&connection->output) < OUTPUT_SIZE && !connection->paused) {
		const uint8_t *bytes;
		ssize_t n;

		if (connection->closing && connection->final_sent) {
			*ret_idle = true;
			return 0;
		}
		n = nghttp2_session_mem_send(connection->session, &bytes);
		if (n < 0 || connection->failed)
			return -EPROTO;
		if (n == 0) {
			*ret_idle = !connection->paused;
			return 0;
		}
		if (output_add(&connection->output, bytes, (size_t)n) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Ends our side, so that the peer reads all that was sent, and waits for the end of its side. */
static void connection_linger(struct grpc_connection *connection)
{
	if (connection->lingering)
		return;
	connection->lingering = true;
	connection->linger_by = loop_now() + LINGER_NS;
	shutdown(connection->fd, SHUT_WR);
}

/* Whether neither side has more to say. */
static bool connection_over(const struct grpc_connection *connection)
{
	if (connection->closing)
		return true;
	/* Between the notice and the last stream id a call may still be under way, which nghttp2 does not expect. */
	if (connection->draining && !connection->final)
		return false;
	return !nghttp2_session_want_read(connection->session) && !nghttp2_session_want_write(connection->session);
}

static int connection_write(struct grpc_connection *connection)
{
	bool idle = false;
	int r;

	connection->budget = WRITE_BUDGET;
	for (;;) {
		r = connection_flush(connection);
		if (r < 0)
			return r;
		if (connection->blocked || connection->budget <= 0 ||
		    (idle && !output_size(&connection->output)))
			break;
		r = connection_fill(connection, &idle);
		if (r < 0)
			return r;
		if (connection->blocked)
			break;
	}
	idle = idle && !output_size(&connection->output);
	if (idle && connection_over(connection))
		connection_linger(connection);
	connection_arm(connection);
	return loop_source_set(connection->source, idle ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static int connection_read(struct grpc_connection *connection)
{
	uint8_t buffer[READ_SIZE];

	for (int i = 0; i < READS_PER_VISIT; i++) {
		ssize_t n = recv(connection->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0)
			return -ECONNRESET;
		if (connection->closing || connection->lingering)
			continue;
		if (nghttp2_session_mem_recv(connection->session, buffer, (size_t)n) < 0 || connection->failed)
			return -EPROTO;
		if ((size_t)n < sizeof(buffer))
			return 0;
	}
	return 0;
}

static void connection_event(int fd, uint32_t events, void *data)
{
	struct grpc_connection *connection = data;
	int r = connection->failed ? -EPROTO : 0;

	connection->in_event = true;
	if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		r = connection_read(connection);
	if (r == 0 && !connection->lingering)
		r = connection_write(connection);
	connection->in_event = false;
	if (r < 0 || connection->failed)
		grpc_connection_close(connection);
}

static void connection_timer(void *data)
{
	struct grpc_connection *connection = data;
	uint64_t now = loop_now();

	if (connection->failed || (!connection->settled && now >= connection->settle_by) ||
	    (connection->lingering && now >= connection->linger_by) ||
	    (output_size(&connection->output) &&
	     now >= connection->progress_ns + connection->server->options.stall_ns)) {
		grpc_connection_close(connection);
		return;
	}
	if (connection->draining && !connection->final && now >= connection->drain_by) {
		connection->final = true;
		if (nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
					  nghttp2_session_get_last_proc_stream_id(connection->session),
					  NGHTTP2_NO_ERROR, NULL, 0) != 0)
			connection->failed = true;
		grpc_connection_wake(connection);
	}
	connection_arm(connection);
}

void grpc_connection_wake(struct grpc_connection *connection)
{
	if (connection->in_event)
		return;
	if (connection->failed)
		connection_arm(connection);
	else if (!connection->lingering)
		loop_source_set(connection->source, EPOLLIN | EPOLLOUT);
}

/* Tells a peer that misbehaves why it has to go. */
static void connection_expel(struct grpc_connection *connection, const char *reason)
{
	if (connection->closing)
		return;
	connection->closing = true;
	if (nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
				  nghttp2_session_get_last_proc_stream_id(connection->session),
				  NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)reason, strlen(reason)) != 0)
		connection->failed = true;
}

void grpc_connection_drain(struct grpc_connection *connection)
{
	static const uint8_t mark[8] = "drain";

	if (connection->draining)
		return;
	connection->draining = true;
	connection->drain_by = loop_now() + DRAIN_NS;
	/* The ping's answer says that the client has seen the notice, and that no more calls are under way. */
	if (!connection->settled || nghttp2_submit_shutdown_notice(connection->session) != 0 ||
	    nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, mark) != 0)
		connection->failed = true;
	grpc_connection_wake(connection);
	connection_arm(connection);
}

static int on_ping(struct grpc_connection *connection, bool is_answer)
{
	uint64_t now = loop_now();

	if (is_answer) {
		if (!connection->draining || connection->final)
			return 0;
		connection->final = true;
		return nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
					     nghttp2_session_get_last_proc_stream_id(connection->session),
					     NGHTTP2_NO_ERROR, NULL, 0) == 0 ?
			       0 :
			       NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (connection->ping_ns && now - connection->ping_ns < connection->server->options.ping_ns &&
	    ++connection->ping_strikes > PING_STRIKES)
		connection_expel(connection, "too_many_pings");
	connection->ping_ns = now;
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_connection *connection = user_data;
	struct grpc_call *call;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (grpc_call_new(connection, frame->hd.stream_id, &call) < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
		     const uint8_t *value, size_t value_size, uint8_t flags, void *user_data)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (call && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		grpc_call_header(call, (const char *)name, name_size, (const char *)value, value_size);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t size,
		   void *user_data)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	if (call)
		grpc_call_data(call, bytes, size);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_connection *connection = user_data;
	struct grpc_call *call;

	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			connection->settled = true;
		return 0;
	case NGHTTP2_PING:
		return on_ping(connection, frame->hd.flags & NGHTTP2_FLAG_ACK);
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
		if (!call)
			return 0;
		if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
			grpc_call_headers_done(call);
		if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
			grpc_call_request_done(call);
		return 0;
	default:
		return 0;
	}
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_connection *connection = user_data;

	switch (frame->hd.type) {
	case NGHTTP2_GOAWAY:
		connection->final_sent = connection->final || connection->closing;
		return 0;
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		connection->ping_ns = 0;
		connection->ping_strikes = 0;
		/* The answer is complete, so the rest of the request is of no interest. */
		if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
		    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0 &&
		    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					      NGHTTP2_NO_ERROR) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		return 0;
	default:
		return 0;
	}
}

/* Counts the streams that ended in an error, whoever said so; a peer that makes too many costs too much. */
static void count_reset(struct grpc_connection *connection)
{
	uint64_t now = loop_now(), tokens = (now - connection->reset_ns) / (SECOND / RESET_RATE);

	if (tokens) {
		connection->reset_tokens = (unsigned)MIN(connection->reset_tokens + tokens, (uint64_t)RESET_BURST);
		connection->reset_ns = now;
	}
	if (connection->reset_tokens)
		connection->reset_tokens--;
	else
		connection_expel(connection, "too_many_resets");
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user_data)
{
	struct grpc_connection *connection = user_data;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	if (error_code != NGHTTP2_NO_ERROR)
		count_reset(connection);
	if (!call)
		return 0;
	nghttp2_session_set_stream_user_data(session, stream_id, NULL);
	grpc_call_closed(call);
	if (!connection->calls)
		connection->idle_ns = loop_now();
	return 0;
}

static ssize_t frame_size(nghttp2_session *session, uint8_t type, int32_t stream_id, int32_t session_window,
			  int32_t stream_window, uint32_t frame_size_max, void *user_data)
{
	int32_t size = (int32_t)MIN(frame_size_max, (uint32_t)FRAME_SIZE_MAX);

	size = MIN(size, MIN(session_window, stream_window));
	return MAX(size, 1);
}

int grpc_connection_setup(struct grpc_server *server)
{
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&server->callbacks) != 0 ||
	    nghttp2_option_new(&server->session_options) != 0)
		return -ENOMEM;
	callbacks = server->callbacks;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, frame_size);
	nghttp2_option_set_max_outbound_ack(server->session_options, 100);
	nghttp2_option_set_max_settings(server->session_options, 16);
	return 0;
}

static int connection_submit_settings(struct grpc_connection *connection)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, connection->server->options.max_streams },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX },
	};

	return nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) == 0 ?
		       0 :
		       -ENOMEM;
}

/*
 * No waiting for more to send, and peers that vanished are found within two minutes. Other sockets than TCP
 * refuse.
 */
static void connection_tune(int fd)
{
	static const struct {
		int level, option, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof(options[i].value));
}

int grpc_connection_new(struct grpc_listener *listener, int fd, void *peer, struct grpc_connection **ret)
{
	struct grpc_server *server = listener->server;
	struct grpc_connection *connection = calloc(1, sizeof(*connection));
	int r;

	if (!connection)
		return -ENOMEM;
	connection->server = server;
	connection->listener = listener;
	connection->fd = fd;
	connection->peer = peer;
	connection->idle_ns = connection->progress_ns = connection->reset_ns = loop_now();
	connection->settle_by = connection->idle_ns + server->options.handshake_ns;
	connection->reset_tokens = RESET_BURST;
	r = -ENOMEM;
	if (nghttp2_session_server_new2(&connection->session, server->callbacks, connection,
					server->session_options) != 0)
		goto fail;
	r = connection_submit_settings(connection);
	if (r < 0)
		goto fail;
	r = loop_timer_new(server->loop, connection_timer, connection, &connection->timer);
	if (r < 0)
		goto fail;
	r = loop_source_new(server->loop, fd, EPOLLIN | EPOLLOUT, connection_event, connection, &connection->source);
	if (r < 0)
		goto fail;
	connection_arm(connection);
	connection_tune(fd);

	listener->n_holds++;
	server->n_connections++;
	connection->next = server->connections;
	connection->link = &server->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	server->connections = connection;
	*ret = connection;
	return 0;
fail:
	loop_timer_free(connection->timer);
	nghttp2_session_del(connection->session);
	free(connection);
	return r;
}

void grpc_connection_close(struct grpc_connection *connection)
{
	struct grpc_server *server = connection->server;

	/* Nothing that a cancel function does wakes this connection up any more. */
	connection->in_event = connection->failed = true;
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	while (connection->calls)
		grpc_call_closed(connection->calls);
	nghttp2_session_del(connection->session);
	loop_source_free(connection->source);
	loop_timer_free(connection->timer);
	close(connection->fd);
	if (server->options.released)
		server->options.released(connection->peer, server->options.data);
	grpc_listener_release(connection->listener);
	free(connection->output.bytes);
	free(connection);
	server->n_connections--;
	grpc_server_disconnected(server);
}
