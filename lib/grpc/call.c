/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/macro.h"

/* Counted as in HTTP/2: names and values and 32 bytes for each header. */
#define HEADER_BYTES_MAX 16384
#define HEADER_OVERHEAD 32
/* Up to this, the client gets an answer. */
#define HEADER_BYTES_READ (4 * HEADER_BYTES_MAX)
/* What a connection may buffer although all of them together have reached their limit: some clients
 * cannot make the others' small requests fail. */
#define BUFFERED_SHARE 65536
#define STATUS_MESSAGE_MAX 1000

#define HEADER(name_, value_)                                                                      \
	((nghttp2_nv){ .name = (uint8_t *)(name_),                                                 \
		       .namelen = strlen(name_),                                                   \
		       .value = (uint8_t *)(value_),                                               \
		       .valuelen = strlen(value_) })

static uint64_t call_now(const struct grpc_call *call)
{
	return call->session->service->clock();
}

int grpc_call_new(struct grpc_session *session, int32_t stream_id, struct grpc_call **ret)
{
	struct grpc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return -ENOMEM;
	call->session = session;
	call->stream_id = stream_id;
	call->encoding_known = true;
	call->reader.max_size = session->service->options.max_message;
	call->request_by = call->due_ns = call_now(call) + session->service->options.request_ns;
	call->deadline_ns = LOOP_NEVER;

	call->next = session->calls;
	call->link = &session->calls;
	if (call->next)
		call->next->link = &call->next;
	session->calls = call;
	*ret = call;
	return 0;
}

static void call_free(struct grpc_call *call)
{
	grpc_reader_clear(&call->reader);
	grpc_queue_clear(&call->queue);
	free(call->message);
	free(call->status_message);
	free(call);
}

static void call_count_buffered(struct grpc_call *call)
{
	size_t now = call->reader.allocated + (call->message ? call->message_size : 0);

	call->session->service->buffered += now;
	call->session->service->buffered -= call->buffered;
	call->session->buffered += now;
	call->session->buffered -= call->buffered;
	call->buffered = now;
}

static void call_count_waiting(struct grpc_call *call)
{
	call->session->service->waiting += call->queue.size;
	call->session->service->waiting -= call->waiting;
	call->waiting = call->queue.size;
}

/* Finds the next moment at which something is due. */
static void call_arm(struct grpc_call *call)
{
	uint64_t at = LOOP_NEVER;

	if (!call->request_done)
		at = call->request_by;
	if (!call->ended)
		at = MIN(at, call->deadline_ns);
	if (call->queue.size || call->ended)
		at = MIN(at, grpc_service_stalls_at(call->session->service, call->progress_ns));
	call->due_ns = at;
	call_count_waiting(call);
}

/* nghttp2 fails to accept a submission only without memory, and its session is then useless. */
static void call_submitted(struct grpc_call *call, int r)
{
	if (r != 0)
		call->session->http2.failed = true;
	grpc_session_wake(call->session);
}

static void call_reset(struct grpc_call *call, uint32_t error)
{
	call_submitted(call, nghttp2_submit_rst_stream(call->session->http2.session,
						       NGHTTP2_FLAG_NONE, call->stream_id, error));
}

static size_t call_trailers(struct grpc_call *call, char status[static 12], nghttp2_nv *headers)
{
	snprintf(status, 12, "%d", (int)call->status);
	headers[0] = HEADER("grpc-status", status);
	if (!call->status_message)
		return 1;
	headers[1] = HEADER("grpc-message", call->status_message);
	return 2;
}

static ssize_t call_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer,
			 size_t length, uint32_t *data_flags, nghttp2_data_source *source,
			 void *user_data)
{
	struct grpc_call *call = container_of(source->ptr, struct grpc_call, queue);
	nghttp2_nv trailers[2];
	char status[12];
	size_t n;

	length = (size_t)MIN((uint64_t)length, call->queue.size);
	if (!length && !call->ended) {
		call->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (length) {
		*data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
		call->progress_ns = call_now(call);
	}
	if (call->ended && length == call->queue.size) {
		*data_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		n = call_trailers(call, status, trailers);
		if (nghttp2_submit_trailer(session, stream_id, trailers, n) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)length;
}

/*
 * Sends the headers of the answer; the rest is read from the queue. Without a queue: all of a
 * failed call's answer.
 */
static void call_start(struct grpc_call *call)
{
	nghttp2_data_provider provider = { .source.ptr = &call->queue, .read_callback = call_read };
	bool whole = call->ended && !call->queue.size;
	nghttp2_nv headers[5];
	char status[12];
	size_t n = 0;

	headers[n++] = HEADER(":status", "200");
	headers[n++] = HEADER("content-type",
			      call->content_type[0] ? call->content_type : "application/grpc");
	headers[n++] = HEADER("grpc-accept-encoding", "identity,gzip");
	if (whole)
		n += call_trailers(call, status, headers + n);
	call->started = true;
	call_submitted(call, nghttp2_submit_response(call->session->http2.session, call->stream_id,
						     headers, n, whole ? NULL : &provider));
}

static void call_continue(struct grpc_call *call)
{
	if (!call->started) {
		call_start(call);
	} else if (call->deferred) {
		call->deferred = false;
		call_submitted(call, nghttp2_session_resume_data(call->session->http2.session,
								 call->stream_id));
	}
}

/* Reports the call's end to the client, after what is in the queue. */
static void call_end(struct grpc_call *call, enum grpc_status status, const char *message)
{
	char text[STATUS_MESSAGE_MAX + 1];

	if (call->ended)
		return;
	call->ended = true;
	call->status = status;
	if (message && *message) {
		size_t n = strnlen(message, STATUS_MESSAGE_MAX);

		/* Not in the middle of a character. */
		while (message[n] && n && ((unsigned char)message[n] & 0xc0) == 0x80)
			n--;
		memcpy(text, message, n);
		text[n] = 0;
		call->status_message = grpc_percent_encode(text);
	}
	grpc_reader_clear(&call->reader);
	call_count_buffered(call);
	if (!call->queue.size)
		call->progress_ns = call_now(call);
	call_continue(call);
	call_arm(call);
}

/* Notifies the method that the client no longer waits; true if it has released the call. */
static bool call_cancel(struct grpc_call *call)
{
	void (*cancelled)(void *data) = call->cancelled;

	if (!call->held)
		return true;
	if (!cancelled)
		return false;
	call->cancelled = NULL;
	call->cancelling = true;
	cancelled(call->cancelled_data);
	call->cancelling = false;
	call->held = false;
	return true;
}

void grpc_call_tick(struct grpc_call *call)
{
	uint64_t now = call_now(call);

	call->due_ns = LOOP_NEVER;
	if (!call->headers_done && now >= call->request_by) {
		/* Between the frames of a header block nothing else can be sent. */
		call->session->http2.failed = true;
		grpc_session_wake(call->session);
		return;
	}
	if (!call->ended && now >= call->deadline_ns) {
		call_cancel(call);
		if (call->queue.in_middle) {
			call->ended = true;
			call_reset(call, NGHTTP2_CANCEL);
			return;
		}
		grpc_queue_clear(&call->queue);
		call_end(call, GRPC_DEADLINE_EXCEEDED,
			 "the deadline passed before the call was answered");
		return;
	}
	if ((!call->request_done && now >= call->request_by) ||
	    ((call->queue.size || call->ended) &&
	     grpc_service_has_stalled(call->session->service, call->progress_ns))) {
		call_reset(call, NGHTTP2_CANCEL);
		return;
	}
	call_arm(call);
}

static bool equals(const char *text, size_t size, const char *other)
{
	return size == strlen(other) && !memcmp(text, other, size);
}

bool grpc_call_count_header(struct grpc_call *call, size_t size)
{
	call->header_bytes += size + HEADER_OVERHEAD;
	return call->header_bytes <= HEADER_BYTES_READ;
}

void grpc_call_header(struct grpc_call *call, const char *name, size_t name_size, const char *value,
		      size_t value_size)
{
	const struct grpc_server_options *options = &call->session->service->options;

	if (call->header_bytes > HEADER_BYTES_MAX) {
		call->http_status = 431;
		return;
	}
	if (equals(name, name_size, ":method")) {
		call->is_post = equals(value, value_size, "POST");
	} else if (equals(name, name_size, ":path")) {
		for (size_t i = 0; i < options->n_methods; i++)
			if (equals(value, value_size, options->methods[i].path))
				call->method = &options->methods[i];
	} else if (equals(name, name_size, "content-type")) {
		call->is_grpc = grpc_content_type_valid(value, value_size);
		if (call->is_grpc && value_size < sizeof(call->content_type))
			memcpy(call->content_type, value, value_size);
	} else if (equals(name, name_size, "grpc-encoding")) {
		call->encoding_gzip = equals(value, value_size, "gzip");
		call->encoding_known = call->encoding_gzip || equals(value, value_size, "identity");
	} else if (equals(name, name_size, "grpc-timeout")) {
		uint64_t timeout_ns;

		call->timeout_error = grpc_timeout_parse(value, value_size, &timeout_ns);
		if (call->timeout_error == 0 &&
		    __builtin_add_overflow(call_now(call), timeout_ns, &call->deadline_ns))
			call->deadline_ns = LOOP_NEVER;
	}
}

void grpc_call_headers_done(struct grpc_call *call)
{
	const struct grpc_server_options *o = &call->session->service->options;
	const char *refusal = o->refuse ? o->refuse(call, o->data) : NULL;

	call->headers_done = true;
	if (!call->http_status)
		call->http_status = !call->is_post ? 405 : !call->is_grpc ? 415 : 0;
	if (call->http_status)
		return;
	if (refusal)
		call_end(call, GRPC_PERMISSION_DENIED, refusal);
	else if (!call->method)
		call_end(call, GRPC_UNIMPLEMENTED, "unknown method");
	else if (!call->encoding_known)
		call_end(call, GRPC_UNIMPLEMENTED, "unknown grpc-encoding");
	else if (call->timeout_error < 0)
		call_end(call, GRPC_INTERNAL, "malformed grpc-timeout");
	else if (grpc_session_is_unread(call->session))
		call_end(call, GRPC_RESOURCE_EXHAUSTED,
			 "read the answers of this connection's other calls first");
	else
		call_arm(call);
}

static void call_end_errno(struct grpc_call *call, int error)
{
	char text[80];

	switch (error) {
	case -EMSGSIZE:
		snprintf(text, sizeof(text), "the request is larger than %zu bytes",
			 call->reader.max_size);
		call_end(call, GRPC_RESOURCE_EXHAUSTED, text);
		break;
	case -ENOMEM:
		call_end(call, GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
		break;
	default:
		call_end(call, GRPC_INTERNAL, "the request is not framed as gRPC requires");
	}
}

/* Keeps the message that the reader completed. */
static int call_take_message(struct grpc_call *call)
{
	bool compressed = call->reader.compressed;
	int r;

	if (compressed && !call->encoding_gzip)
		return -EBADMSG;
	r = grpc_reader_take(&call->reader, &call->message, &call->message_size);
	if (r < 0)
		return r;
	call->has_message = true;
	if (compressed) {
		_cleanup_free_ uint8_t *packed = TAKE_PTR(call->message);

		r = grpc_gunzip(packed, call->message_size, call->reader.max_size, &call->message,
				&call->message_size);
	}
	return r;
}

/* Passes one of many messages to the method, or NULL after the last one. The method may end the
 * call. */
static void call_hand_over(struct grpc_call *call, const uint8_t *message, size_t size)
{
	call->held = true;
	call->method->handle(call, message, size, call->session->service->options.data);
	/* Only the method could release it. */
	call->held = call->held && call->cancelled;
}

/* Passes a completed message to a method that takes many. */
static void call_next_message(struct grpc_call *call)
{
	_cleanup_free_ uint8_t *message = TAKE_PTR(call->message);

	call->has_message = false;
	call->request_by = call_now(call) + call->session->service->options.request_ns;
	call_hand_over(call, message, call->message_size);
	if (!call->ended)
		call_arm(call);
}

void grpc_call_data(struct grpc_call *call, const uint8_t *bytes, size_t size)
{
	struct grpc_service *service = call->session->service;

	while (size && !call->ended && !call->http_status) {
		ssize_t n;
		int r;

		if (call->has_message) {
			call_end(call, GRPC_UNIMPLEMENTED,
				 "the method takes one message, but more were sent");
			return;
		}
		n = grpc_reader_feed(&call->reader, bytes, size);
		r = n < 0 ? (int)n : 0;
		if (r == 0 && grpc_reader_complete(&call->reader))
			r = call_take_message(call);
		if (r < 0) {
			call_end_errno(call, r);
			return;
		}
		if (call->has_message && call->method->takes_many)
			call_next_message(call);
		call_count_buffered(call);
		if (service->buffered > service->options.max_buffered &&
		    call->session->buffered > BUFFERED_SHARE) {
			call_end(call, GRPC_RESOURCE_EXHAUSTED, "too many requests at once");
			return;
		}
		bytes += n;
		size -= (size_t)n;
	}
}

static const char http_text[] =
	"A gRPC server: it takes POST requests of the type application/grpc over HTTP/2.\n";

static ssize_t http_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer,
			 size_t length, uint32_t *data_flags, nghttp2_data_source *source,
			 void *user_data)
{
	struct grpc_call *call = source->ptr;

	length = MIN(length, sizeof(http_text) - 1 - call->http_sent);
	memcpy(buffer, http_text + call->http_sent, length);
	call->http_sent += length;
	if (call->http_sent == sizeof(http_text) - 1)
		*data_flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)length;
}

static void call_answer_http(struct grpc_call *call)
{
	nghttp2_data_provider provider = { .source.ptr = call, .read_callback = http_read };
	nghttp2_nv headers[2];
	char status[12];

	snprintf(status, sizeof(status), "%d", call->http_status);
	headers[0] = HEADER(":status", status);
	headers[1] = HEADER("content-type", "text/plain");
	call->started = call->ended = true;
	call->progress_ns = call_now(call);
	call_submitted(call, nghttp2_submit_response(call->session->http2.session, call->stream_id,
						     headers, ARRAY_SIZE(headers), &provider));
	call_arm(call);
}

void grpc_call_request_done(struct grpc_call *call)
{
	_cleanup_free_ uint8_t *message = NULL;

	call->request_done = true;
	if (call->http_status) {
		call_answer_http(call);
		return;
	}
	if (call->ended)
		return;
	if (!grpc_reader_empty(&call->reader)) {
		call_end(call, GRPC_INTERNAL, "the request ends in the middle of a message");
		return;
	}
	if (call->method->takes_many) {
		call_hand_over(call, NULL, 0);
		if (!call->ended)
			call_arm(call);
		return;
	}
	if (!call->has_message) {
		call_end(call, GRPC_UNIMPLEMENTED,
			 "the method takes one message, but none was sent");
		return;
	}
	/* The call may be over when handle() returns; the message lives until then. */
	message = TAKE_PTR(call->message);
	call_count_buffered(call);
	call_arm(call);
	call->held = true;
	call->method->handle(call, message, call->message_size,
			     call->session->service->options.data);
}

void grpc_call_closed(struct grpc_call *call)
{
	bool let_go = call_cancel(call);

	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
	grpc_reader_clear(&call->reader);
	free(TAKE_PTR(call->message));
	call_count_buffered(call);
	grpc_queue_clear(&call->queue);
	call_count_waiting(call);
	call->session = NULL;
	if (let_go)
		call_free(call);
}

/* Whether the method's answer can still reach the client. */
static bool call_open(const struct grpc_call *call)
{
	return call->session && !call->ended && !call->cancelling;
}

/* The method releases the call, whose client has disconnected. */
static void call_release(struct grpc_call *call)
{
	if (call->cancelling)
		return;
	call->held = false;
	if (!call->session)
		call_free(call);
}

int grpc_call_send(struct grpc_call *call, struct grpc_body *body)
{
	int r;

	if (!call_open(call)) {
		grpc_body_free(body);
		return -ECANCELED;
	}
	if (!call->queue.size)
		call->progress_ns = call_now(call);
	r = grpc_queue_add(&call->queue, body);
	if (r < 0)
		return r;
	call_continue(call);
	call_arm(call);
	return 0;
}

void grpc_call_reply(struct grpc_call *call, struct grpc_body *body)
{
	if (!call_open(call)) {
		grpc_body_free(body);
		call_release(call);
		return;
	}
	if (!call->queue.size)
		call->progress_ns = call_now(call);
	call->held = false;
	if (grpc_queue_add(&call->queue, body) < 0)
		call_end(call, GRPC_RESOURCE_EXHAUSTED, "the answer is larger than 2 GiB");
	else
		call_end(call, GRPC_OK, NULL);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message)
{
	if (!call_open(call)) {
		call_release(call);
		return;
	}
	call->held = false;
	call_end(call, status, message);
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *format, ...)
{
	char text[STATUS_MESSAGE_MAX + 8];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	grpc_call_finish(call, status, text);
}

int grpc_call_on_cancel(struct grpc_call *call, void (*cancelled)(void *data), void *data)
{
	if (!call_open(call))
		return -ECANCELED;
	call->cancelled = cancelled;
	call->cancelled_data = data;
	return 0;
}

bool grpc_call_cancelled(const struct grpc_call *call)
{
	return !call_open(call);
}

uint64_t grpc_call_deadline(const struct grpc_call *call)
{
	return call->deadline_ns;
}

uint64_t grpc_call_queued(const struct grpc_call *call)
{
	return call->queue.size;
}
