/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/session.h"

#include <errno.h>
#include <string.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/grpc/call.h"

#define SECOND 1000000000ull
#define HEADER_LIST_MAX 16384
#define DRAIN_NS (1 * SECOND)
/* Streams that end abnormally: this many at once, and this many per second from then on. */
#define RESET_BURST 200
#define RESET_RATE 20
#define PING_STRIKES 2
/* So many answers of a connection wait to be read, of so many bytes: it may not ask for more. */
#define UNREAD_CALLS 16
#define UNREAD_BYTES (256 << 10)
/* How long a client may accept nothing while too many bytes wait, for all clients together. */
#define PRESSED_STALL_NS (10 * SECOND)

#define SET_DEFAULT(field, value) ((field) = (field) ? (field) : (value))

static uint64_t session_now(const struct grpc_session *session)
{
	return session->service->clock();
}

void grpc_session_wake(struct grpc_session *session)
{
	if (!session->in_visit)
		session->wake(session->owner);
}

/* Reports to a misbehaving peer why its connection ends. */
static void session_expel(struct grpc_session *session, const char *reason)
{
	if (session->closing)
		return;
	session->closing = true;
	if (nghttp2_submit_goaway(session->http2.session, NGHTTP2_FLAG_NONE,
				  nghttp2_session_get_last_proc_stream_id(session->http2.session),
				  NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)reason,
				  strlen(reason)) != 0)
		session->http2.failed = true;
}

/* Reports to the peer which of its calls are the last ones. */
static int session_finalize(struct grpc_session *session)
{
	session->final = true;
	return nghttp2_submit_goaway(
		session->http2.session, NGHTTP2_FLAG_NONE,
		nghttp2_session_get_last_proc_stream_id(session->http2.session), NGHTTP2_NO_ERROR,
		NULL, 0);
}

void grpc_session_drain(struct grpc_session *session)
{
	static const uint8_t mark[8] = "drain";

	if (session->draining)
		return;
	session->draining = true;
	session->drain_by = session_now(session) + DRAIN_NS;
	/* The ping's answer shows that the client has seen the notice, and that no more calls are
	 * under way. */
	if (!session->settled || nghttp2_submit_shutdown_notice(session->http2.session) != 0 ||
	    nghttp2_submit_ping(session->http2.session, NGHTTP2_FLAG_NONE, mark) != 0)
		session->http2.failed = true;
	grpc_session_wake(session);
}

static int on_ping(struct grpc_session *session, bool is_answer)
{
	uint64_t now = session_now(session);

	if (is_answer) {
		if (!session->draining || session->final)
			return 0;
		return session_finalize(session) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (session->ping_ns && now - session->ping_ns < session->service->options.ping_ns &&
	    ++session->ping_strikes > PING_STRIKES)
		session_expel(session, "too_many_pings");
	session->ping_ns = now;
	return 0;
}

static int on_begin_headers(nghttp2_session *http2, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_session *session = user_data;
	struct grpc_call *call;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (grpc_call_new(session, frame->hd.stream_id, &call) < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	nghttp2_session_set_stream_user_data(http2, frame->hd.stream_id, call);
	return 0;
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user_data)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);

	if (!call)
		return 0;
	/* A few bytes can refer to many long fields; the rest of them is then not looked at. */
	if (!grpc_call_count_header(call, name_size + value_size))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		grpc_call_header(call, (const char *)name, name_size, (const char *)value,
				 value_size);
	return 0;
}

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
		   size_t size, void *user_data)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(http2, stream_id);

	if (call)
		grpc_call_data(call, bytes, size);
	return 0;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_session *session = user_data;
	struct grpc_call *call;

	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			session->settled = true;
		return 0;
	case NGHTTP2_PING:
		return on_ping(session, frame->hd.flags & NGHTTP2_FLAG_ACK);
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		call = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
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

static int on_frame_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_session *session = user_data;

	switch (frame->hd.type) {
	case NGHTTP2_GOAWAY:
		session->http2.silent = session->closing;
		return 0;
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		session->ping_ns = 0;
		session->ping_strikes = 0;
		/* The answer is complete, so the rest of the request is not needed. */
		if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
		    nghttp2_session_get_stream_remote_close(http2, frame->hd.stream_id) == 0 &&
		    nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					      NGHTTP2_NO_ERROR) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		return 0;
	default:
		return 0;
	}
}

/* Counts the streams that ended in an error on either side: a peer that causes too many is too
 * expensive. */
static void count_reset(struct grpc_session *session)
{
	uint64_t now = session_now(session),
		 tokens = (now - session->reset_ns) / (SECOND / RESET_RATE);

	if (tokens) {
		session->reset_tokens =
			(unsigned)MIN(session->reset_tokens + tokens, (uint64_t)RESET_BURST);
		session->reset_ns = now;
	}
	if (session->reset_tokens)
		session->reset_tokens--;
	else
		session_expel(session, "too_many_resets");
}

static int on_stream_close(nghttp2_session *http2, int32_t stream_id, uint32_t error_code,
			   void *user_data)
{
	struct grpc_session *session = user_data;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(http2, stream_id);

	if (error_code != NGHTTP2_NO_ERROR)
		count_reset(session);
	if (!call)
		return 0;
	nghttp2_session_set_stream_user_data(http2, stream_id, NULL);
	grpc_call_closed(call);
	if (!session->calls)
		session->idle_ns = session_now(session);
	return 0;
}

int grpc_service_init(struct grpc_service *service, const struct grpc_server_options *options,
		      uint64_t (*clock)(void))
{
	nghttp2_session_callbacks *callbacks;

	*service = (struct grpc_service){ .options = *options, .clock = clock };
	SET_DEFAULT(service->options.max_message, (size_t)4 << 20);
	SET_DEFAULT(service->options.max_buffered, (size_t)64 << 20);
	SET_DEFAULT(service->options.max_waiting, (size_t)64 << 20);
	SET_DEFAULT(service->options.max_connections, 256);
	SET_DEFAULT(service->options.max_streams, 100);
	SET_DEFAULT(service->options.handshake_ns, 10 * SECOND);
	SET_DEFAULT(service->options.request_ns, 30 * SECOND);
	SET_DEFAULT(service->options.stall_ns, 60 * SECOND);
	SET_DEFAULT(service->options.ping_ns, 10 * SECOND);
	SET_DEFAULT(service->options.idle_ns, 600 * SECOND);
	if (nghttp2_session_callbacks_new(&service->callbacks) != 0 ||
	    nghttp2_option_new(&service->session_options) != 0) {
		grpc_service_clear(service);
		return -ENOMEM;
	}
	callbacks = service->callbacks;
	grpc_http2_setup(callbacks);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_option_set_max_outbound_ack(service->session_options, 100);
	nghttp2_option_set_max_settings(service->session_options, 16);
	return 0;
}

void grpc_service_clear(struct grpc_service *service)
{
	nghttp2_session_callbacks_del(service->callbacks);
	nghttp2_option_del(service->session_options);
	service->callbacks = NULL;
	service->session_options = NULL;
}

static uint64_t stall_ns(const struct grpc_service *service)
{
	return service->waiting > service->options.max_waiting
		       ? MIN(service->options.stall_ns, PRESSED_STALL_NS)
		       : service->options.stall_ns;
}

bool grpc_service_has_stalled(const struct grpc_service *service, uint64_t since_ns)
{
	return service->clock() >= since_ns + stall_ns(service);
}

uint64_t grpc_service_stalls_at(const struct grpc_service *service, uint64_t since_ns)
{
	return MIN(since_ns + service->options.stall_ns, service->clock() + PRESSED_STALL_NS);
}

int grpc_session_init(struct grpc_session *session, struct grpc_service *service,
		      void (*wake)(void *owner), void *owner)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, service->options.max_streams },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX },
	};

	*session = (struct grpc_session){
		.service = service, .wake = wake, .owner = owner, .reset_tokens = RESET_BURST
	};
	session->idle_ns = session->progress_ns = session->reset_ns = session_now(session);
	session->settle_by = session->idle_ns + service->options.handshake_ns;
	if (nghttp2_session_server_new2(&session->http2.session, service->callbacks, session,
					service->session_options) != 0 ||
	    nghttp2_submit_settings(session->http2.session, NGHTTP2_FLAG_NONE, settings,
				    ARRAY_SIZE(settings)) != 0) {
		grpc_http2_clear(&session->http2);
		return -ENOMEM;
	}
	return 0;
}

void grpc_session_clear(struct grpc_session *session)
{
	/* Nothing that a cancel function does wakes it up any more. */
	session->in_visit = session->http2.failed = true;
	while (session->calls)
		grpc_call_closed(session->calls);
	grpc_http2_clear(&session->http2);
}

int grpc_session_receive(struct grpc_session *session, const uint8_t *bytes, size_t size)
{
	int r;

	/* A peer that was sent GOAWAY may still send. */
	if (session->closing)
		return 0;
	session->in_visit = true;
	r = grpc_http2_receive(&session->http2, bytes, size);
	session->in_visit = false;
	return r;
}

int grpc_session_output(struct grpc_session *session, struct iovec iov[static GRPC_OUTPUT_PIECES],
			size_t *ret_n, size_t *ret_size)
{
	bool was_empty = !session->http2.output.size;
	int r;

	session->in_visit = true;
	r = grpc_http2_fill(&session->http2);
	session->in_visit = false;
	if (r < 0)
		return r;
	if (was_empty)
		session->progress_ns = session_now(session);
	*ret_size = grpc_output_peek(&session->http2.output, iov, ret_n);
	return 0;
}

void grpc_session_written(struct grpc_session *session, size_t size)
{
	if (size)
		session->progress_ns = session_now(session);
	grpc_output_advance(&session->http2.output, size);
}

uint64_t grpc_session_due(const struct grpc_session *session)
{
	uint64_t at = session->http2.failed ? 0 : LOOP_NEVER;

	if (!session->settled)
		at = MIN(at, session->settle_by);
	else if (!session->calls && !session->draining)
		at = MIN(at, session->idle_ns + session->service->options.idle_ns);
	if (session->draining && !session->final)
		at = MIN(at, session->drain_by);
	if (session->http2.output.size)
		at = MIN(at, session->progress_ns + stall_ns(session->service));
	for (const struct grpc_call *call = session->calls; call; call = call->next)
		at = MIN(at, call->due_ns);
	return at;
}

int grpc_session_tick(struct grpc_session *session)
{
	uint64_t now = session_now(session);

	if (session->http2.failed)
		return -EPROTO;
	if ((!session->settled && now >= session->settle_by) ||
	    (session->http2.output.size &&
	     grpc_service_has_stalled(session->service, session->progress_ns)))
		return -ETIMEDOUT;
	if (session->settled && !session->calls &&
	    now >= session->idle_ns + session->service->options.idle_ns)
		grpc_session_drain(session);
	session->in_visit = true;
	if (session->draining && !session->final && now >= session->drain_by &&
	    session_finalize(session) != 0)
		session->http2.failed = true;
	for (struct grpc_call *call = session->calls; call; call = call->next)
		if (now >= call->due_ns)
			grpc_call_tick(call);
	session->in_visit = false;
	return session->http2.failed ? -EPROTO : 0;
}

uint64_t grpc_session_queued(const struct grpc_session *session, unsigned *ret_n)
{
	uint64_t bytes = 0;

	*ret_n = 0;
	for (const struct grpc_call *call = session->calls; call; call = call->next) {
		*ret_n += call->queue.size != 0;
		bytes += call->queue.size;
	}
	return bytes;
}

bool grpc_session_is_unread(const struct grpc_session *session)
{
	unsigned n;

	return grpc_session_queued(session, &n) > UNREAD_BYTES && n >= UNREAD_CALLS;
}

bool grpc_session_over(const struct grpc_session *session)
{
	nghttp2_session *http2 = session->http2.session;

	if (session->closing)
		return true;
	/* Between the notice and the last stream id a call may still be under way, which nghttp2
	 * does not expect. */
	if (session->draining && !session->final)
		return false;
	return !nghttp2_session_want_read(http2) && !nghttp2_session_want_write(http2);
}
