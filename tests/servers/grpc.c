/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/grpc.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/macro.h"
#include "tests/servers/jobs.h"
#include "tests/servers/listener.h"
#include "tests/servers/predict_proto.h"
#include "tests/servers/workers.h"

#define RECEIVE_SIZE 65536
#define CONNECTIONS_MAX 1024
#define STREAMS_MAX 1024
#define MESSAGE_MAX (1 << 20)
#define OUTPUT_MAX (1 << 20)
#define EVENTS_MAX 64
#define PREFIX_SIZE 5 /* a flag and the size before each message */
#define METHOD "/tensorflow.serving.PredictionService/Predict"

enum grpc_status {
	STATUS_OK = 0,
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_NOT_FOUND = 5,
	STATUS_RESOURCE_EXHAUSTED = 8,
	STATUS_UNIMPLEMENTED = 12
};

/* The session, and everything but the list, is under the lock: the I/O thread and the workers use
 * it. */
struct connection {
	struct grpc *server;
	int fd;
	uint16_t peer_port;
	uint64_t read_ns;       /* when the bytes that are being parsed arrived */
	atomic_uint references; /* of the I/O thread and of calls that are queued or worked on */
	pthread_mutex_t lock;
	nghttp2_session *session;
	struct buffer output; /* what the socket has not accepted yet */
	struct call *calls;
	bool closed;
	struct connection *prev, *next;
};

struct call {
	struct job job;
	struct connection *connection;
	struct call *prev, *next;
	struct truth_record record;
	struct buffer request, answer;
	size_t sent;
	bool known; /* its method is the one that is served */
	/* Queued or being processed: the processing thread frees it if it has closed by then. */
	bool working;
	bool gone;
	enum grpc_status status;
	char message[256];
};

struct grpc {
	struct service *service;
	int listener, epoll, wake;
	uint16_t port;
	atomic_bool stop;
	atomic_uint_fast64_t requests;
	nghttp2_session_callbacks *callbacks;
	struct jobs todo;
	struct connection *connections; /* the I/O thread's */
	size_t connections_n;
	pthread_t io;
	struct workers workers;
	bool has_io;
};

static void call_free(struct call *call)
{
	struct connection *c = call->connection;

	if (call->prev)
		call->prev->next = call->next;
	else
		c->calls = call->next;
	if (call->next)
		call->next->prev = call->prev;
	buffer_clear(&call->request);
	buffer_clear(&call->answer);
	free(call);
}

static void connection_unref(struct connection *c)
{
	if (atomic_fetch_sub(&c->references, 1) > 1)
		return;
	nghttp2_session_del(c->session);
	while (c->calls)
		call_free(c->calls);
	buffer_clear(&c->output);
	pthread_mutex_destroy(&c->lock);
	safe_close(c->fd);
	free(c);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct connection *c = user;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	call->connection = c;
	call->record = (struct truth_record){ .http2 = true,
					      .peer_port = c->peer_port,
					      .stream = (uint32_t)frame->hd.stream_id };
	call->next = c->calls;
	if (call->next)
		call->next->prev = call;
	c->calls = call;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
	return 0;
}

static bool text_equal(const uint8_t *bytes, size_t size, const char *text)
{
	return strlen(text) == size && !memcmp(bytes, text, size);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (!call)
		return 0;
	/* nghttp2 ends names and values with a zero byte. */
	if (text_equal(name, name_size, ":path"))
		call->known = text_equal(value, value_size, METHOD);
	else if (text_equal(name, name_size, "x-request-id"))
		call->record.id = strtoull((const char *)value, NULL, 10);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t size, void *user)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (!call || call->status)
		return 0;
	if (call->request.used + size > PREFIX_SIZE + MESSAGE_MAX ||
	    buffer_append(&call->request, bytes, size) < 0)
		call->status = STATUS_RESOURCE_EXHAUSTED;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct connection *c = user;
	struct call *call;

	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!call)
		return 0;
	call->record.read_ns = c->read_ns;
	call->working = true;
	atomic_fetch_add(&c->references, 1);
	jobs_put(&c->server->todo, &call->job);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call && call->working)
		call->gone = true;
	else if (call)
		call_free(call);
	return 0;
}

/* Passes the output to the socket; the lock is held. A negative errno ends the connection. */
static int connection_send(struct connection *c)
{
	while (!c->closed) {
		const uint8_t *bytes;
		ssize_t n = 1;

		/* Frames of a round go out together. */
		while (c->output.used < OUTPUT_MAX &&
		       (n = nghttp2_session_mem_send(c->session, &bytes)) > 0)
			if (buffer_append(&c->output, bytes, (size_t)n) < 0)
				return -ENOMEM;
		if (n < 0)
			return -EPROTO;
		if (!c->output.used)
			return nghttp2_session_want_read(c->session) ? 0 : -ECONNRESET;
		n = send(c->fd, c->output.bytes, c->output.used, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buffer_consume(&c->output, (size_t)n);
	}
	return 0;
}

static ssize_t answer_read(nghttp2_session *session, int32_t stream, uint8_t *bytes, size_t size,
			   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct call *call = source->ptr;
	size_t n = MIN(size, call->answer.used - call->sent);
	char status[] = "0";
	nghttp2_nv trailer = { (uint8_t *)"grpc-status", (uint8_t *)status, strlen("grpc-status"),
			       strlen(status), NGHTTP2_NV_FLAG_NONE };

	memcpy(bytes, call->answer.bytes + call->sent, n);
	call->sent += n;
	if (call->sent == call->answer.used) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, stream, &trailer, 1))
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return (ssize_t)n;
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
			     NGHTTP2_NV_FLAG_NONE };
}

static int answer_submit(struct connection *c, struct call *call)
{
	int32_t stream = (int32_t)call->record.stream;
	nghttp2_data_provider provider = { .source.ptr = call, .read_callback = answer_read };
	char status[16];

	if (call->status == STATUS_OK) {
		nghttp2_nv headers[] = { header(":status", "200"),
					 header("content-type", "application/grpc") };

		return nghttp2_submit_response(c->session, stream, headers, ARRAY_SIZE(headers),
					       &provider);
	}
	snprintf(status, sizeof(status), "%d", call->status);
	nghttp2_nv headers[] = { header(":status", "200"),
				 header("content-type", "application/grpc"),
				 header("grpc-status", status),
				 header("grpc-message", call->message) };

	return nghttp2_submit_response(c->session, stream, headers, ARRAY_SIZE(headers), NULL);
}

static int call_fail(struct call *call, enum grpc_status status, const char *message)
{
	call->status = status;
	snprintf(call->message, sizeof(call->message), "%s", message);
	return -EINVAL;
}

/* Runs the model; the answer, or the reason why there is none, is in the call afterwards. */
static int call_run(struct grpc *s, struct call *call)
{
	const uint8_t *bytes = call->request.bytes;
	size_t size = call->request.used;
	struct tensor input = { 0 }, output = { 0 };
	char name[MODEL_NAME_MAX], error[200];
	struct buffer message = { 0 };
	int r;

	if (call->status)
		return call_fail(call, call->status, "the request is too large");
	if (!call->known)
		return call_fail(call, STATUS_UNIMPLEMENTED, "no such method");
	/* One message, which is not compressed. */
	if (size < PREFIX_SIZE || bytes[0] ||
	    ((size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4]) !=
		    size - PREFIX_SIZE)
		return call_fail(call, STATUS_INVALID_ARGUMENT, "the request is not one message");
	service_decode(s->service);
	r = predict_proto_request_decode(bytes + PREFIX_SIZE, size - PREFIX_SIZE, name, &input);
	if (r < 0)
		return call_fail(call, STATUS_INVALID_ARGUMENT,
				 "the request holds no tensor of floats");
	struct model *m = service_model(s->service, name, strlen(name));

	if (!m)
		r = call_fail(call, STATUS_NOT_FOUND, "no such model");
	else if (service_run(s->service, m, &input, &call->record, error, sizeof(error), &output) <
		 0)
		r = call_fail(call, STATUS_INVALID_ARGUMENT, error);
	else if (predict_proto_response_encode(name, model_version(m), &output, &message) < 0)
		r = call_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	if (r >= 0) {
		uint8_t prefix[PREFIX_SIZE] = { 0, (uint8_t)(message.used >> 24),
						(uint8_t)(message.used >> 16),
						(uint8_t)(message.used >> 8),
						(uint8_t)message.used };

		buffer_append(&call->answer, prefix, sizeof(prefix));
		if (buffer_append(&call->answer, message.bytes, message.used) < 0)
			r = call_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	}
	buffer_clear(&message);
	free(input.values);
	free(output.values);
	return r;
}

/* grpc-message is printable ASCII, and a percent sign begins an escape; a sentence from elsewhere
 * is made so. */
static void message_clean(char *message)
{
	for (; *message; message++)
		if (*message < ' ' || *message > '~' || *message == '%')
			*message = '?';
}

static void call_answer(struct grpc *s, struct call *call)
{
	struct connection *c = call->connection;
	int r;

	call_run(s, call);
	message_clean(call->message);

	struct truth_record record = call->record;

	pthread_mutex_lock(&c->lock);
	call->working = false;
	if (call->gone || c->closed) {
		call_free(call);
		r = 0;
	} else {
		/* Sending may end the stream, which frees the call. */
		r = answer_submit(c, call);
		if (!r)
			r = connection_send(c);
	}
	/* The I/O thread sees the end of the connection and closes it. */
	if (r)
		shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&c->lock);
	service_done(s->service, &record);
	atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
	connection_unref(c);
}

static void *worker_run(void *argument)
{
	struct grpc *s = argument;
	struct job *j;

	pthread_setname_np(pthread_self(), "grpc_worker");
	while ((j = jobs_take(&s->todo)))
		call_answer(s, container_of(j, struct call, job));
	return NULL;
}

static void connection_end(struct grpc *s, struct connection *c)
{
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	shutdown(c->fd, SHUT_RDWR);
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	pthread_mutex_unlock(&c->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->connections_n--;
	connection_unref(c);
}

static int connection_start(struct grpc *s, struct connection *c)
{
	nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
						STREAMS_MAX },
					      { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20 } };
	/* Its buffer of output may be written to by any thread, so reads and writes are told by
	 * their edges. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };

	if (nghttp2_session_server_new(&c->session, s->callbacks, c) ||
	    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)))
		return -ENOMEM;
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &event) < 0 ? -errno : connection_send(c);
}

static void connections_accept(struct grpc *s)
{
	uint16_t peer_port;
	int fd;

	while ((fd = listener_accept(s->listener, &peer_port)) >= 0) {
		struct connection *c =
			s->connections_n < CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;

		if (!c) {
			close(fd);
			continue;
		}
		c->server = s;
		c->fd = fd;
		c->peer_port = peer_port;
		atomic_init(&c->references, 1);
		pthread_mutex_init(&c->lock, NULL);
		c->next = s->connections;
		if (c->next)
			c->next->prev = c;
		s->connections = c;
		s->connections_n++;
		if (connection_start(s, c) < 0)
			connection_end(s, c);
	}
}

/* Reads until there is no more; a negative errno ends the connection. */
static int connection_receive(struct connection *c)
{
	uint8_t bytes[RECEIVE_SIZE];
	int r = 0;

	for (;;) {
		ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (n == 0)
			return -ECONNRESET;
		c->read_ns = truth_now_ns();
		pthread_mutex_lock(&c->lock);
		if (nghttp2_session_mem_recv(c->session, bytes, (size_t)n) < 0)
			r = -EPROTO;
		else
			r = connection_send(c);
		pthread_mutex_unlock(&c->lock);
		if (r < 0)
			return r;
	}
}

static void connection_event(struct grpc *s, struct connection *c, uint32_t events)
{
	int r = 0;

	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		r = connection_receive(c);
	if (r >= 0 && events & EPOLLOUT) {
		pthread_mutex_lock(&c->lock);
		r = connection_send(c);
		pthread_mutex_unlock(&c->lock);
	}
	if (r < 0)
		connection_end(s, c);
}

static void *io_run(void *argument)
{
	struct grpc *s = argument;
	struct epoll_event events[EVENTS_MAX];

	pthread_setname_np(pthread_self(), "grpc_io");
	while (!atomic_load(&s->stop)) {
		int n = epoll_wait(s->epoll, events, EVENTS_MAX, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &s->listener)
				connections_accept(s);
			else if (events[i].data.ptr != &s->wake)
				connection_event(s, events[i].data.ptr, events[i].events);
		}
	}
	while (s->connections)
		connection_end(s, s->connections);
	return NULL;
}

static int epoll_open(struct grpc *s)
{
	struct epoll_event on_accept = { .events = EPOLLIN, .data.ptr = &s->listener };
	struct epoll_event on_wake = { .events = EPOLLIN, .data.ptr = &s->wake };

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll < 0 || s->wake < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &on_accept) < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->wake, &on_wake) < 0)
		return -errno;
	return 0;
}

static int callbacks_make(struct grpc *s)
{
	if (nghttp2_session_callbacks_new(&s->callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(s->callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(s->callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(s->callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(s->callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(s->callbacks, on_stream_close);
	return 0;
}

int grpc_new(struct service *service, uint16_t port, size_t workers, struct grpc **ret)
{
	struct grpc *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->service = service;
	s->listener = s->epoll = s->wake = -1;
	jobs_init(&s->todo);
	r = callbacks_make(s);
	if (r >= 0)
		r = s->listener = listener_open(port, &s->port);
	if (r >= 0)
		r = epoll_open(s);
	if (r >= 0) {
		r = -pthread_create(&s->io, NULL, io_run, s);
		s->has_io = r >= 0;
	}
	if (r >= 0)
		r = workers_start(&s->workers, workers, worker_run, s);
	if (r < 0) {
		grpc_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct grpc *grpc_free(struct grpc *s)
{
	if (!s)
		return NULL;
	/* The I/O thread first: what it reads is queued, and the queue is processed. */
	atomic_store(&s->stop, true);
	if (s->has_io && eventfd_write(s->wake, 1) >= 0)
		pthread_join(s->io, NULL);
	jobs_stop(&s->todo);
	workers_join(&s->workers);
	safe_close(s->listener);
	safe_close(s->epoll);
	safe_close(s->wake);
	jobs_destroy(&s->todo);
	nghttp2_session_callbacks_del(s->callbacks);
	free(s);
	return NULL;
}

uint16_t grpc_port(const struct grpc *s)
{
	return s->port;
}

uint64_t grpc_requests(const struct grpc *s)
{
	return atomic_load_explicit(&s->requests, memory_order_relaxed);
}
