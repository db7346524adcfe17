/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/address.h"
#include "lib/grpc/request.h"
#include "lib/grpc/transport.h"

#define READ_SIZE 262144
/* The size of a TLS record: if less was read, the socket has no more. */
#define READ_MIN 16384
/* The delay after which a flag is seen that no signal handler sets. */
#define FLAG_POLL_MS 100
/* After the timeout the server has this long to report it itself, with a better message. */
#define DEADLINE_GRACE_NS 200000000ull

struct grpc_client {
	struct grpc_transport *transport;
	struct grpc_requests requests;
	uint8_t *buffer;
	int broken; /* an error that ended the connection */
};

int grpc_client_new(int fd, struct grpc_tls *tls, const char *host, struct grpc_client **ret)
{
	struct grpc_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->buffer = malloc(READ_SIZE);
	r = client->buffer ? grpc_requests_init(&client->requests, host ? host : "localhost", tls)
			   : -ENOMEM;
	if (r == 0)
		r = grpc_transport_new(fd, tls, host, &client->transport);
	if (r < 0) {
		grpc_client_free(client);
		return r;
	}
	*ret = client;
	return 0;
}

struct grpc_client *grpc_client_free(struct grpc_client *client)
{
	if (!client)
		return NULL;
	grpc_requests_clear(&client->requests);
	grpc_transport_free(client->transport);
	free(client->buffer);
	free(client);
	return NULL;
}

/* Waits for the socket, at most until the deadline, and only for a short time if a flag may be
 * raised meanwhile. */
static int wait_for(const struct grpc_client *client, short events, uint64_t deadline_ns,
		    const volatile sig_atomic_t *cancelled)
{
	struct pollfd poll_fd = { .fd = grpc_transport_fd(client->transport), .events = events };
	int wait_ms = cancelled ? FLAG_POLL_MS : -1;

	if (deadline_ns != LOOP_NEVER) {
		uint64_t now = loop_now(),
			 left_ms = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;

		wait_ms = (int)MIN(left_ms, (uint64_t)(wait_ms < 0 ? 60000 : wait_ms));
	}
	return poll(&poll_fd, 1, wait_ms) < 0 && errno != EINTR ? -errno : 0;
}

static int shake_hands(struct grpc_client *client, uint64_t deadline_ns)
{
	for (;;) {
		int r = grpc_transport_handshake(client->transport);

		if (r != -EAGAIN)
			return r;
		if (loop_now() >= deadline_ns)
			return -ETIMEDOUT;
		r = wait_for(client,
			     grpc_transport_wants_write(client->transport) ? POLLOUT : POLLIN,
			     deadline_ns, NULL);
		if (r < 0)
			return r;
	}
}

int grpc_client_connect(const char *address, struct grpc_tls *tls, uint64_t timeout_ns,
			struct grpc_client **ret, char **ret_reason)
{
	_cleanup_free_ char *host = NULL;
	struct grpc_client *client;
	uint64_t deadline_ns;
	int fd, r;

	if (ret_reason)
		*ret_reason = NULL;
	if (!timeout_ns || __builtin_add_overflow(loop_now(), timeout_ns, &deadline_ns))
		deadline_ns = LOOP_NEVER;
	r = grpc_address_connect(address, timeout_ns, &fd, &host);
	if (r < 0)
		return r;
	r = grpc_client_new(fd, tls, host, &client);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = shake_hands(client, deadline_ns);
	if (r < 0) {
		if (r == -EPROTO && ret_reason)
			*ret_reason = strdup(grpc_transport_error(client->transport));
		grpc_client_free(client);
		return r;
	}
	*ret = client;
	return 0;
}

const char *grpc_client_reason(const struct grpc_client *client)
{
	return client->broken == -EPROTO ? grpc_transport_error(client->transport)
					 : strerror(-client->broken);
}

/* Writes the pending output, until the socket accepts no more. */
static int client_write(struct grpc_client *client, bool *ret_left)
{
	struct grpc_http2 *http2 = &client->requests.http2;

	*ret_left = false;
	for (;;) {
		struct iovec iov[GRPC_OUTPUT_PIECES];
		size_t n_iov, size;
		ssize_t n;
		int r = grpc_http2_fill(http2);

		if (r < 0)
			return r;
		size = grpc_output_peek(&http2->output, iov, &n_iov);
		if (!size)
			return 0;
		n = grpc_transport_write(client->transport, iov, n_iov);
		*ret_left = n == -EAGAIN;
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		grpc_output_advance(&http2->output, (size_t)n);
	}
}

static int client_read(struct grpc_client *client)
{
	/* Window updates are written between visits. */
	for (size_t total = 0; total < READ_SIZE;) {
		ssize_t n = grpc_transport_read(client->transport, client->buffer, READ_SIZE);
		int r;

		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		if (n == 0)
			return -ECONNRESET;
		r = grpc_http2_receive(&client->requests.http2, client->buffer, (size_t)n);
		if (r < 0 || n < READ_MIN)
			return r;
		total += (size_t)n;
	}
	return 0;
}

/* Works on the connection until the call is closed, for whatever reason. */
static int client_run(struct grpc_client *client, const volatile sig_atomic_t *cancelled,
		      uint64_t deadline_ns)
{
	struct grpc_requests *requests = &client->requests;
	bool left;

	while (!grpc_request_closed(requests)) {
		int r = client_write(client, &left);

		/* What the server sent before it hung up still counts. */
		if (r < 0 && r != -EPIPE && r != -ECONNRESET)
			return r;
		if (grpc_request_closed(requests))
			break;
		if (cancelled && *cancelled) {
			grpc_request_abort(requests, -ECANCELED, GRPC_CANCELLED, NULL);
			break;
		}
		if (loop_now() >= deadline_ns) {
			grpc_request_abort(requests, 0, GRPC_DEADLINE_EXCEEDED,
					   "no answer within the time given");
			break;
		}
		if (!nghttp2_session_want_read(requests->http2.session) && !left)
			return -ECONNRESET;
		r = wait_for(client, left ? POLLIN | POLLOUT : POLLIN, deadline_ns, cancelled);
		if (r < 0)
			return r;
		r = client_read(client);
		if (r < 0)
			return grpc_request_closed(requests) ? 0 : r;
	}
	/* Sends the reset of an aborted call; the server finds out in any case. */
	client_write(client, &left);
	return 0;
}

int grpc_client_stream(struct grpc_client *client, const char *path, const void *request,
		       size_t size, const struct grpc_client_options *options,
		       grpc_message_fn message, void *data, enum grpc_status *ret_status,
		       char **ret_status_message)
{
	uint64_t timeout_ns = options ? options->timeout_ns : 0, deadline_ns;
	_cleanup_free_ char *status_message = NULL;
	enum grpc_status status;
	int r = 0, error;

	if (client->broken)
		return client->broken;
	if (size > GRPC_MESSAGE_MAX)
		return -EMSGSIZE;
	if (!timeout_ns ||
	    __builtin_add_overflow(loop_now() + DEADLINE_GRACE_NS, timeout_ns, &deadline_ns))
		deadline_ns = LOOP_NEVER;
	error = grpc_request_start(&client->requests, path, request, size, timeout_ns, message,
				   data);
	if (error == 0) {
		error = client_run(client, options ? options->cancelled : NULL, deadline_ns);
		r = grpc_request_finish(&client->requests, &status, &status_message);
		if (r == -ECONNRESET)
			error = r;
	}
	if (error < 0) {
		client->broken = error;
		return error;
	}
	if (r < 0)
		return r;
	*ret_status = status;
	*ret_status_message = TAKE_PTR(status_message);
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
		     const struct grpc_client_options *options, uint8_t **ret_message,
		     size_t *ret_size, enum grpc_status *ret_status, char **ret_status_message)
{
	struct unary_answer answer = { 0 };
	enum grpc_status status;
	char *status_message = NULL;
	int r;

	r = grpc_client_stream(client, path, request, size, options, keep_answer, &answer, &status,
			       &status_message);
	if (r == -EBADMSG || (r == 0 && status == GRPC_OK && !answer.bytes)) {
		status = GRPC_INTERNAL;
		free(status_message);
		status_message = strdup("the server did not answer with exactly one message");
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
