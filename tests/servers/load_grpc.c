/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC of the load client. */
#include <errno.h>
#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "tests/servers/load_link.h"
#include "tests/servers/predict_proto.h"

#define PREFIX_SIZE 5
#define ANSWER_MAX (4 << 20)
#define WINDOW (4 << 20)

struct call {
	struct buffer request, answer;
	size_t sent;
};

static void call_free(struct exchange *e)
{
	struct call *call = e->call;

	if (!call)
		return;
	buffer_clear(&call->request);
	buffer_clear(&call->answer);
	free(call);
	e->call = NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user)
{
	struct exchange *e = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	/* nghttp2 ends names and values with a zero byte. */
	if (e && !strcmp((const char *)name, ":status"))
		e->status = atoi((const char *)value);
	else if (e && !strcmp((const char *)name, "grpc-status"))
		e->grpc_status = atoi((const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t size, void *user)
{
	struct exchange *e = nghttp2_session_get_stream_user_data(session, stream);
	struct call *call = e ? e->call : NULL;

	if (call && (call->answer.used + size > ANSWER_MAX ||
		     buffer_append(&call->answer, bytes, size) < 0))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
	struct link *l = user;
	struct exchange *e = nghttp2_session_get_stream_user_data(session, stream);
	struct call *call = e ? e->call : NULL;
	struct tensor t = { 0 };
	int r = -EINVAL;

	if (!call)
		return 0;
	if (error)
		e->error = "the stream was reset";
	else if (e->grpc_status < 0)
		e->error = "there is no grpc-status";
	if (!e->error && call->answer.used >= PREFIX_SIZE)
		r = predict_proto_response_decode(call->answer.bytes + PREFIX_SIZE,
						  call->answer.used - PREFIX_SIZE, &t);
	call_free(e);
	link_answered(l, e, r < 0 ? NULL : &t);
	free(t.values);
	return 0;
}

static ssize_t request_read(nghttp2_session *session, int32_t stream, uint8_t *bytes, size_t size,
			    uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct call *call = source->ptr;
	size_t n = MIN(size, call->request.used - call->sent);

	memcpy(bytes, call->request.bytes + call->sent, n);
	call->sent += n;
	if (call->sent == call->request.used)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* Moves what the session has to send to the output. */
static int output_take(struct link *l)
{
	const uint8_t *bytes;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(l->session, &bytes)) > 0)
		if (buffer_append(&l->output, bytes, (size_t)n) < 0)
			return -ENOMEM;
	return n < 0 ? -EPROTO : 0;
}

static int grpc_open(struct link *l)
{
	nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW },
					      { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 } };
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;

	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	int r = nghttp2_session_client_new(&session, callbacks, l);

	nghttp2_session_callbacks_del(callbacks);
	if (r)
		return -ENOMEM;
	l->session = session;
	if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) ||
	    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, WINDOW))
		return -ENOMEM;
	return output_take(l);
}

static void grpc_close(struct link *l)
{
	nghttp2_session_del(l->session);
	l->session = NULL;
	for (struct exchange *e = l->outstanding; e; e = e->next)
		call_free(e);
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
			     NGHTTP2_NV_FLAG_NONE };
}

static int message_write(const struct link *l, const struct exchange *e, struct buffer *b)
{
	struct tensor t;
	int r;

	if (link_tensor(l, e, &t) < 0)
		return -ENOMEM;
	buffer_append(b, "\0\0\0\0", PREFIX_SIZE);
	r = predict_proto_request_encode(l->options->model, &t, b);
	free(t.values);
	if (r < 0)
		return r;
	for (int i = 1; i < PREFIX_SIZE; i++)
		b->bytes[i] = (uint8_t)((b->used - PREFIX_SIZE) >> (8 * (PREFIX_SIZE - 1 - i)));
	return 0;
}

static int grpc_request(struct link *l, struct exchange *e)
{
	struct call *call = calloc(1, sizeof(*call));
	char id[24];

	if (!call)
		return -ENOMEM;
	e->call = call;
	if (message_write(l, e, &call->request) < 0)
		return -ENOMEM;
	snprintf(id, sizeof(id), "%" PRIu64, e->id);
	nghttp2_nv headers[] = { header(":method", "POST"),
				 header(":scheme", "http"),
				 header(":path", "/tensorflow.serving.PredictionService/Predict"),
				 header(":authority", l->options->host),
				 header("te", "trailers"),
				 header("content-type", "application/grpc"),
				 header("x-request-id", id) };
	nghttp2_data_provider provider = { .source.ptr = call, .read_callback = request_read };
	int32_t stream = nghttp2_submit_request(l->session, NULL, headers, ARRAY_SIZE(headers),
						&provider, e);

	if (stream < 0)
		return -EPROTO;
	e->stream = (uint32_t)stream;
	return output_take(l);
}

static int grpc_receive(struct link *l, const uint8_t *bytes, size_t size)
{
	ssize_t n = nghttp2_session_mem_recv(l->session, bytes, size);
	int r = n < 0 ? -EPROTO : output_take(l);

	if (r >= 0)
		r = link_flush(l);
	if (r >= 0 && !nghttp2_session_want_read(l->session))
		r = -ECONNRESET;
	return r;
}

static void grpc_ended(struct link *l)
{
}

const struct link_protocol link_grpc = { grpc_open, grpc_close, grpc_request, grpc_receive,
					 grpc_ended };
