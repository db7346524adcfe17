/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

#define STREAM_WINDOW (8 << 20)
#define CONNECTION_WINDOW (16 << 20)
#define FRAME_SIZE_MAX 262144
#define GOAWAY_TEXT_MAX 512

static void set_status(struct grpc_request *request, enum grpc_status status, const char *message)
{
	request->has_status = true;
	request->status = status;
	free(request->status_message);
	request->status_message = message ? strdup(message) : NULL;
}

static struct grpc_request *request_of(struct grpc_requests *requests, int32_t stream_id)
{
	struct grpc_request *request = &requests->current;

	return request->active && request->stream_id == stream_id ? request : NULL;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t length,
		       uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
	struct grpc_request *request = request_of(user_data, stream_id);
	size_t n;

	/* An aborted call, whose reset is not sent yet. */
	if (!request)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = (size_t)MIN((uint64_t)length, request->queue.size);
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (n == request->queue.size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
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

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user_data)
{
	struct grpc_request *request = request_of(user_data, frame->hd.stream_id);

	if (!request)
		return 0;
	if (!strcmp((const char *)name, ":status")) {
		request->http_status = parse_number(value, value_size);
	} else if (!strcmp((const char *)name, "grpc-status")) {
		int status = parse_number(value, value_size);

		request->has_status = true;
		request->status = status < 0 ? GRPC_UNKNOWN : (enum grpc_status)status;
	} else if (!strcmp((const char *)name, "grpc-message") && !request->status_message) {
		request->status_message = grpc_percent_decode((const char *)value, value_size);
	}
	return 0;
}

/* Aborts the stream; error is what the caller gets for it, or 0 if the status is the result. */
static void reset(struct grpc_requests *requests, struct grpc_request *request, int error)
{
	request->error = error;
	request->closed = true;
	nghttp2_submit_rst_stream(requests->http2.session, NGHTTP2_FLAG_NONE, request->stream_id,
				  NGHTTP2_CANCEL);
}

static void break_off(struct grpc_requests *requests, struct grpc_request *request, int error)
{
	if (error == -ENOMEM)
		set_status(request, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
	else if (error == -EMSGSIZE)
		set_status(request, GRPC_RESOURCE_EXHAUSTED, "the answer is larger than 2 GiB");
	else
		set_status(request, GRPC_INTERNAL, "the answer is not framed as gRPC requires");
	reset(requests, request, 0);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
		   size_t size, void *user_data)
{
	struct grpc_request *request = request_of(user_data, stream_id);

	while (request && !request->closed && size && request->http_status == 200) {
		ssize_t n = grpc_reader_feed(&request->reader, bytes, size);
		int r = n < 0 ? (int)n : 0;
		size_t message_size;
		uint8_t *message;

		/* Compression was not offered to the server. */
		if (r == 0 && request->reader.compressed)
			r = -EBADMSG;
		if (r == 0 && grpc_reader_complete(&request->reader)) {
			r = grpc_reader_take(&request->reader, &message, &message_size);
			if (r == 0) {
				int wanted = request->message(message, message_size, request->data);

				if (wanted < 0) {
					reset(user_data, request, wanted);
					return 0;
				}
			}
		}
		if (r < 0) {
			break_off(user_data, request, r);
			return 0;
		}
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The server refuses the connection, and states why. */
static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_request *request = &((struct grpc_requests *)user_data)->current;
	char text[GOAWAY_TEXT_MAX];

	if (frame->hd.type != NGHTTP2_GOAWAY || !request->active || request->closed ||
	    frame->goaway.error_code != NGHTTP2_ENHANCE_YOUR_CALM ||
	    frame->goaway.last_stream_id >= request->stream_id)
		return 0;
	snprintf(text, sizeof(text), "%.*s",
		 (int)MIN(frame->goaway.opaque_data_len, sizeof(text) - 1),
		 (const char *)frame->goaway.opaque_data);
	set_status(request, GRPC_RESOURCE_EXHAUSTED, text);
	request->closed = true;
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
			   void *user_data)
{
	struct grpc_request *request = request_of(user_data, stream_id);

	if (request && !request->closed) {
		request->closed = true;
		request->error_code = error_code;
	}
	return 0;
}

static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
			     void *user_data)
{
	struct grpc_request *request = request_of(user_data, frame->hd.stream_id);

	if (request && frame->hd.type == NGHTTP2_HEADERS)
		request->closed = request->refused = true;
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
static void conclude(struct grpc_request *request)
{
	char text[80];

	if (request->has_status)
		return;
	if (request->http_status && request->http_status != 200) {
		snprintf(text, sizeof(text), "the server answered with HTTP status %d",
			 request->http_status);
		set_status(request, status_of_http(request->http_status), text);
	} else if (request->error_code) {
		snprintf(text, sizeof(text), "the server reset the call: %s",
			 nghttp2_http2_strerror(request->error_code));
		set_status(request, status_of_reset(request->error_code), text);
	} else {
		set_status(request, GRPC_INTERNAL, "the server ended the call without a status");
	}
}

int grpc_requests_init(struct grpc_requests *requests, const char *authority, bool is_secure)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FRAME_SIZE_MAX },
	};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	*requests =
		(struct grpc_requests){ .is_secure = is_secure, .authority = strdup(authority) };
	if (!requests->authority || nghttp2_session_callbacks_new(&callbacks) != 0) {
		grpc_requests_clear(requests);
		return -ENOMEM;
	}
	grpc_http2_setup(callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
	nghttp2_session_client_new(&session, callbacks, requests);
	nghttp2_session_callbacks_del(callbacks);
	requests->http2.session = session;
	if (!session ||
	    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) !=
		    0 ||
	    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
						  CONNECTION_WINDOW) != 0) {
		grpc_requests_clear(requests);
		return -ENOMEM;
	}
	return 0;
}

void grpc_requests_clear(struct grpc_requests *requests)
{
	grpc_http2_clear(&requests->http2);
	free(TAKE_PTR(requests->authority));
}

static int submit(struct grpc_requests *requests, const char *path, uint64_t timeout_ns)
{
	nghttp2_data_provider provider = { .source.ptr = &requests->current.queue,
					   .read_callback = on_read };
	char timeout[GRPC_TIMEOUT_SIZE] = "";
	const char *const headers[][2] = {
		{ ":method", "POST" },
		{ ":scheme", requests->is_secure ? "https" : "http" },
		{ ":path", path },
		{ ":authority", requests->authority },
		{ "te", "trailers" },
		{ "content-type", "application/grpc" },
		{ "user-agent", "tfprofctl" },
		{ "grpc-timeout", timeout },
	};
	nghttp2_nv nv[ARRAY_SIZE(headers)];

	if (timeout_ns)
		grpc_timeout_format(timeout_ns, timeout);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		nv[i] = (nghttp2_nv){ .name = (uint8_t *)headers[i][0],
				      .namelen = strlen(headers[i][0]),
				      .value = (uint8_t *)headers[i][1],
				      .valuelen = strlen(headers[i][1]) };
	requests->current.stream_id = nghttp2_submit_request(
		requests->http2.session, NULL, nv, ARRAY_SIZE(nv) - !timeout_ns, &provider, NULL);
	return requests->current.stream_id < 0 ? -ENOMEM : 0;
}

static int queue_message(struct grpc_queue *queue, const void *message, size_t size)
{
	struct grpc_body *body;
	int r = grpc_body_new(&body);

	if (r < 0)
		return r;
	r = grpc_body_add_copy(body, message, size);
	if (r < 0) {
		grpc_body_free(body);
		return r;
	}
	return grpc_queue_add(queue, body);
}

int grpc_request_start(struct grpc_requests *requests, const char *path, const void *message,
		       size_t size, uint64_t timeout_ns, grpc_message_fn answer, void *data)
{
	struct grpc_request *request = &requests->current;
	int r;

	*request = (struct grpc_request){ .message = answer,
					  .data = data,
					  .reader.max_size = GRPC_MESSAGE_MAX };
	r = queue_message(&request->queue, message, size);
	if (r == 0)
		r = submit(requests, path, timeout_ns);
	if (r < 0) {
		grpc_queue_clear(&request->queue);
		return r;
	}
	request->active = true;
	return 0;
}

bool grpc_request_closed(const struct grpc_requests *requests)
{
	return requests->current.closed;
}

void grpc_request_abort(struct grpc_requests *requests, int error, enum grpc_status status,
			const char *message)
{
	if (error == 0)
		set_status(&requests->current, status, message);
	reset(requests, &requests->current, error);
}

int grpc_request_finish(struct grpc_requests *requests, enum grpc_status *ret_status,
			char **ret_message)
{
	struct grpc_request *request = &requests->current;
	int error = request->error;

	request->active = false;
	grpc_reader_clear(&request->reader);
	grpc_queue_clear(&request->queue);
	if (error == 0 && request->refused)
		error = -ECONNRESET;
	if (error == 0)
		conclude(request);
	else
		free(TAKE_PTR(request->status_message));
	if (error < 0)
		return error;
	*ret_status = request->status;
	*ret_message = TAKE_PTR(request->status_message);
	return 0;
}
