#include "lib/grpc/client.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/address.h"
#include "lib/grpc/body.h"
#include "lib/grpc/framing.h"

#define READ_SIZE 262144
#define STREAM_WINDOW (8 << 20)
#define CONNECTION_WINDOW (16 << 20)
#define FRAME_SIZE_MAX 262144
/* How late a flag that no signal handler sets is seen. */
#define FLAG_POLL_MS 100
/* After the time is up the server still has this long to say so itself, which it does with a better message. */
#define DEADLINE_GRACE_NS 200000000ull

/* The one call that is under way. */
struct client_call {
	const uint8_t *request;
	uint8_t prefix[GRPC_PREFIX_SIZE];
	uint64_t request_size, request_sent; /* with the prefix */
	struct grpc_reader reader;
	grpc_message_fn message;
	void *data;

	int32_t stream_id;
	bool closed;
	bool refused; /* the connection takes no more calls */
	uint32_t error_code;
	int http_status;
	bool has_status;
	enum grpc_status status;
	char *status_message;
	int error; /* why the call was cancelled by us, or 0 */
};

struct grpc_client {
	int fd;
	nghttp2_session *session;
	struct client_call *call;
	uint8_t *buffer;
	const uint8_t *unsent;
	size_t n_unsent;
	int broken; /* an error that ended the connection */
};

static void call_set_status(struct client_call *call, enum grpc_status status, const char *message)
{
	call->has_status = true;
	call->status = status;
	free(call->status_message);
	call->status_message = message ? strdup(message) : NULL;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t length, uint32_t *flags,
		       nghttp2_data_source *source, void *user_data)
{
	struct client_call *call = source->ptr;
	size_t n = 0;

	while (n < length && call->request_sent < GRPC_PREFIX_SIZE)
		buffer[n++] = call->prefix[call->request_sent++];
	length = MIN(length - n, call->request_size - call->request_sent);
	if (length) {
		memcpy(buffer + n, call->request + (call->request_sent - GRPC_PREFIX_SIZE), length);
		call->request_sent += length;
	}
	if (call->request_sent == call->request_size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)(n + length);
}

static struct client_call *call_of(struct grpc_client *client, int32_t stream_id)
{
	return client->call && client->call->stream_id == stream_id ? client->call : NULL;
}

static int parse_number(const uint8_t *text, size_t size)
{
	int value = 0;

	if (!size || size > 4)
		return -EINVAL;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		value = value * 10 + (text[i] - '0');
	}
	return value;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
		     const uint8_t *value, size_t value_size, uint8_t flags, void *user_data)
{
	struct client_call *call = call_of(user_data, frame->hd.stream_id);

	if (!call)
		return 0;
	if (!strcmp((const char *)name, ":status")) {
		call->http_status = parse_number(value, value_size);
	} else if (!strcmp((const char *)name, "grpc-status")) {
		int status = parse_number(value, value_size);

		call->has_status = true;
		call->status = status < 0 ? GRPC_UNKNOWN : (enum grpc_status)status;
	} else if (!strcmp((const char *)name, "grpc-message") && !call->status_message) {
		call->status_message = grpc_percent_decode((const char *)value, value_size);
	}
	return 0;
}

/* Gives the stream up; error is what the caller gets for it, or 0 when the status says it. */
static void call_abort(struct grpc_client *client, struct client_call *call, int error)
{
	call->error = error;
	call->closed = true;
	nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
}

static void call_break(struct grpc_client *client, struct client_call *call, int error)
{
	if (error == -ENOMEM)
		call_set_status(call, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
	else if (error == -EMSGSIZE)
		call_set_status(call, GRPC_RESOURCE_EXHAUSTED, "the answer is larger than 2 GiB");
	else
		call_set_status(call, GRPC_INTERNAL, "the answer is not framed as gRPC says");
	call_abort(client, call, 0);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes, size_t size,
		   void *user_data)
{
	struct client_call *call = call_of(user_data, stream_id);

	while (call && !call->closed && size && call->http_status == 200) {
		ssize_t n = grpc_reader_feed(&call->reader, bytes, size);
		int r = n < 0 ? (int)n : 0;
		size_t message_size;
		uint8_t *message;

		/* Compression was not offered to the server. */
		if (r == 0 && call->reader.compressed)
			r = -EBADMSG;
		if (r == 0 && grpc_reader_complete(&call->reader)) {
			r = grpc_reader_take(&call->reader, &message, &message_size);
			if (r == 0) {
				int wanted = call->message(message, message_size, call->data);

				if (wanted < 0) {
					call_abort(user_data, call, wanted);
					return 0;
				}
			}
		}
		if (r < 0) {
			call_break(user_data, call, r);
			return 0;
		}
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user_data)
{
	struct client_call *call = call_of(user_data, stream_id);

	if (call && !call->closed) {
		call->closed = true;
		call->error_code = error_code;
	}
	return 0;
}

static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user_data)
{
	struct client_call *call = call_of(user_data, frame->hd.stream_id);

	if (call && frame->hd.type == NGHTTP2_HEADERS)
		call->closed = call->refused = true;
	return 0;
}

static int session_start(struct grpc_client *client, nghttp2_session_callbacks *callbacks)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FRAME_SIZE_MAX },
	};

	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
	if (nghttp2_session_client_new(&client->session, callbacks, client) != 0 ||
	    nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) != 0)
		return -ENOMEM;
	return 0;
}

int grpc_client_new(int fd, struct grpc_client **ret)
{
	struct grpc_client *client = calloc(1, sizeof(*client));
	nghttp2_session_callbacks *callbacks;
	int r = -ENOMEM;

	if (!client)
		return -ENOMEM;
	client->fd = -1;
	client->buffer = malloc(READ_SIZE);
	if (client->buffer && nghttp2_session_callbacks_new(&callbacks) == 0) {
		r = session_start(client, callbacks);
		nghttp2_session_callbacks_del(callbacks);
	}
	if (r < 0) {
		grpc_client_free(client);
		return r;
	}
	client->fd = fd;
	*ret = client;
	return 0;
}

int grpc_client_connect(const char *address, uint64_t timeout_ns, struct grpc_client **ret)
{
	_cleanup_close_ int fd = -1;
	int r = grpc_address_connect(address, timeout_ns, &fd);

	if (r == 0)
		r = grpc_client_new(fd, ret);
	if (r < 0)
		return r;
	TAKE_FD(fd);
	return 0;
}

struct grpc_client *grpc_client_free(struct grpc_client *client)
{
	if (!client)
		return NULL;
	nghttp2_session_del(client->session);
	safe_close(client->fd);
	free(client->buffer);
	free(client);
	return NULL;
}

/* Writes what the session has to say, until the socket takes no more. */
static int client_write(struct grpc_client *client)
{
	for (;;) {
		ssize_t n;

		if (!client->n_unsent) {
			n = nghttp2_session_mem_send(client->session, &client->unsent);
			if (n <= 0)
				return n < 0 ? -EPROTO : 0;
			client->n_unsent = (size_t)n;
		}
		n = send(client->fd, client->unsent, client->n_unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		client->unsent += n;
		client->n_unsent -= (size_t)n;
	}
}

static int client_read(struct grpc_client *client)
{
	ssize_t n = recv(client->fd, client->buffer, READ_SIZE, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	return nghttp2_session_mem_recv(client->session, client->buffer, (size_t)n) < 0 ? -EPROTO : 0;
}

/* Works on the connection until the call is closed, in one way or another. */
static int client_run(struct grpc_client *client, struct client_call *call, const volatile sig_atomic_t *cancelled,
		      uint64_t deadline_ns)
{
	while (!call->closed) {
		struct pollfd poll_fd = { .fd = client->fd, .events = POLLIN };
		int r = client_write(client), wait_ms = cancelled ? FLAG_POLL_MS : -1;
		uint64_t now = loop_now();

		/* What the server said before it hung up still counts. */
		if (r < 0 && r != -EPIPE && r != -ECONNRESET)
			return r;
		if (call->closed)
			break;
		if (cancelled && *cancelled) {
			call_abort(client, call, -ECANCELED);
			break;
		}
		if (now >= deadline_ns) {
			call_set_status(call, GRPC_DEADLINE_EXCEEDED, "no answer within the time given");
			call_abort(client, call, 0);
			break;
		}
		if (!nghttp2_session_want_read(client->session) && !client->n_unsent)
			return -ECONNRESET;
		if (client->n_unsent && r == 0)
			poll_fd.events |= POLLOUT;
		if (deadline_ns != LOOP_NEVER) {
			uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;

			wait_ms = (int)MIN(left_ms, (uint64_t)(wait_ms < 0 ? 60000 : wait_ms));
		}
		if (poll(&poll_fd, 1, wait_ms) < 0 && errno != EINTR)
			return -errno;
		r = client_read(client);
		if (r < 0)
			return call->closed ? 0 : r;
	}
	/* The reset of a call that was given up; the server finds out in any case. */
	client_write(client);
	return 0;
}

static enum grpc_status status_of_http(int http_status)
{
	switch (http_status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

static enum grpc_status status_of_reset(uint32_t error_code)
{
	switch (error_code) {
	case NGHTTP2_REFUSED_STREAM:
		return GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

/* Finds a status for a call that the server ended without one. */
static void call_conclude(struct client_call *call)
{
	char text[80];

	if (call->has_status)
		return;
	if (call->http_status && call->http_status != 200) {
		snprintf(text, sizeof(text), "the server answered with HTTP status %d", call->http_status);
		call_set_status(call, status_of_http(call->http_status), text);
	} else if (call->error_code) {
		snprintf(text, sizeof(text), "the server reset the call: %s",
			 nghttp2_http2_strerror(call->error_code));
		call_set_status(call, status_of_reset(call->error_code), text);
	} else {
		call_set_status(call, GRPC_INTERNAL, "the server ended the call without a status");
	}
}

static int call_submit(struct grpc_client *client, struct client_call *call, const char *path, uint64_t timeout_ns)
{
	nghttp2_data_provider provider = { .source.ptr = call, .read_callback = on_read };
	char timeout[GRPC_TIMEOUT_SIZE] = "";
	const char *const headers[][2] = {
		{ ":method", "POST" },        { ":scheme", "http" },
		{ ":path", path },            { ":authority", "localhost" },
		{ "te", "trailers" },         { "content-type", "application/grpc" },
		{ "user-agent", "tfprofctl" }, { "grpc-timeout", timeout },
	};
	nghttp2_nv nv[ARRAY_SIZE(headers)];

	if (timeout_ns)
		grpc_timeout_format(timeout_ns, timeout);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		nv[i] = (nghttp2_nv){ .name = (uint8_t *)headers[i][0],
				      .namelen = strlen(headers[i][0]),
				      .value = (uint8_t *)headers[i][1],
				      .valuelen = strlen(headers[i][1]) };
	call->stream_id = nghttp2_submit_request(client->session, NULL, nv, ARRAY_SIZE(nv) - !timeout_ns, &provider,
						 NULL);
	return call->stream_id < 0 ? -ENOMEM : 0;
}

int grpc_client_stream(struct grpc_client *client, const char *path, const void *request, size_t size,
		       const struct grpc_client_options *options, grpc_message_fn message, void *data,
		       enum grpc_status *ret_status, char **ret_status_message)
{
	uint64_t timeout_ns = options ? options->timeout_ns : 0, deadline_ns;
	struct client_call call = {
		.request = request,
		.request_size = GRPC_PREFIX_SIZE + size,
		.reader.max_size = GRPC_MESSAGE_MAX,
		.message = message,
		.data = data,
	};
	int r;

	if (client->broken)
		return client->broken;
	if (size > GRPC_MESSAGE_MAX)
		return -EMSGSIZE;
	grpc_prefix_write(call.prefix, (uint32_t)size);
	if (!timeout_ns || __builtin_add_overflow(loop_now() + DEADLINE_GRACE_NS, timeout_ns, &deadline_ns))
		deadline_ns = LOOP_NEVER;
	r = call_submit(client, &call, path, timeout_ns);
	if (r == 0) {
		client->call = &call;
		r = client_run(client, &call, options ? options->cancelled : NULL, deadline_ns);
		client->call = NULL;
	}
	if (r == 0 && call.refused)
		r = -ECONNRESET;
	if (r < 0)
		client->broken = r;
	else
		r = call.error;
	grpc_reader_clear(&call.reader);
	if (r < 0) {
		free(call.status_message);
		return r;
	}
	call_conclude(&call);
	*ret_status = call.status;
	*ret_status_message = call.status_message;
	return 0;
}

struct unary_answer {
	uint8_t *bytes;
	size_t size;
};

static int keep_answer(uint8_t *bytes, size_t size, void *data)
{
	struct unary_answer *answer = data;

	if (answer->bytes) {
		free(bytes);
		return -EBADMSG;
	}
	answer->bytes = bytes;
	answer->size = size;
	return 0;
}

int grpc_client_call(struct grpc_client *client, const char *path, const void *request, size_t size,
		     const struct grpc_client_options *options, uint8_t **ret_message, size_t *ret_size,
		     enum grpc_status *ret_status, char **ret_status_message)
{
	struct unary_answer answer = { 0 };
	enum grpc_status status;
	char *status_message = NULL;
	int r;

	r = grpc_client_stream(client, path, request, size, options, keep_answer, &answer, &status, &status_message);
	if (r == -EBADMSG || (r == 0 && status == GRPC_OK && !answer.bytes)) {
		status = GRPC_INTERNAL;
		free(status_message);
		status_message = strdup("the server did not answer with one message");
		r = 0;
	}
	if (r < 0 || status != GRPC_OK) {
		free(answer.bytes);
		answer = (struct unary_answer){ 0 };
	}
	if (r < 0)
		return r;
	*ret_message = answer.bytes;
	*ret_size = answer.size;
	*ret_status = status;
	*ret_status_message = status_message;
	return 0;
}
