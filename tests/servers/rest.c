/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/rest.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/macro.h"
#include "tests/servers/listener.h"
#include "tests/servers/rest_answer.h"
#include "tests/servers/workers.h"

#define RECEIVE_SIZE 16384
#define CONNECTIONS_MAX 1024
#define SEND_TIMEOUT_MS 5000
/* An answer that is padded shall not fit. */
#define PADDED_SEND_BUFFER 65536

struct connection {
	int fd;
	uint16_t peer_port;
	uint32_t requests;
	struct connection *prev, *next;
	struct buffer input;
};

struct rest {
	struct service *service;
	int listener, epoll, stop;
	uint16_t port;
	atomic_uint_fast64_t requests;
	pthread_mutex_t lock; /* over the list of connections */
	struct connection *connections;
	size_t connections_n;
	struct workers workers;
};

static void connection_close(struct rest *s, struct connection *c)
{
	pthread_mutex_lock(&s->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->connections_n--;
	pthread_mutex_unlock(&s->lock);
	close(c->fd);
	buffer_clear(&c->input);
	free(c);
}

static void connections_accept(struct rest *s)
{
	uint16_t peer_port;
	int fd;

	while ((fd = listener_accept(s->listener, &peer_port)) >= 0) {
		struct connection *c = calloc(1, sizeof(*c));
		struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = c };
		int small = PADDED_SEND_BUFFER;
		bool full;

		pthread_mutex_lock(&s->lock);
		full = s->connections_n >= CONNECTIONS_MAX;
		if (c && !full) {
			c->fd = fd;
			c->peer_port = peer_port;
			c->next = s->connections;
			if (c->next)
				c->next->prev = c;
			s->connections = c;
			s->connections_n++;
		}
		pthread_mutex_unlock(&s->lock);
		if (!c || full) {
			free(c);
			close(fd);
			continue;
		}
		if (service_answer_pad(s->service))
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			connection_close(s, c);
	}
}

static int send_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);

		if (n >= 0) {
			bytes += n;
			size -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			if (poll(&p, 1, SEND_TIMEOUT_MS) <= 0)
				return -ETIMEDOUT;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* Returns 1 when there is more, 0 when it has to be waited for, or a negative errno. */
static int input_receive(struct connection *c)
{
	for (;;) {
		if (buffer_reserve(&c->input, RECEIVE_SIZE) < 0)
			return -ENOMEM;
		ssize_t n = recv(c->fd, c->input.bytes + c->input.used,
				 c->input.room - c->input.used, 0);

		if (n > 0) {
			c->input.used += (size_t)n;
			return 1;
		}
		if (n == 0)
			return -ECONNRESET;
		if (errno == EAGAIN)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* Answers a request; a negative errno ends the connection. */
static int request_serve(struct rest *s, struct connection *c, const struct http1_request *q,
			 uint64_t read_ns)
{
	struct truth_record record = {
		.id = q->id, .peer_port = c->peer_port, .stream = ++c->requests, .read_ns = read_ns
	};
	struct buffer answer = { 0 };
	int r;

	r = rest_answer(s->service, q, &record, &answer);
	if (r >= 0)
		r = send_all(c->fd, answer.bytes, answer.used);
	buffer_clear(&answer);
	if (r < 0)
		return r;
	service_done(s->service, &record);
	atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
	return q->close ? -ECONNRESET : 0;
}

/* Serves what a connection sent; returns a negative errno when it must end, 0 when it has to be
 * waited for. */
static int connection_serve(struct rest *s, struct connection *c)
{
	for (;;) {
		uint64_t read_ns = truth_now_ns();
		struct http1_request q;
		int r = http1_request_read(c->input.bytes, c->input.used, &q);

		if (r > 0) {
			r = request_serve(s, c, &q, read_ns);
			buffer_consume(&c->input, q.size);
			http1_request_clear(&q);
			if (r < 0)
				return r;
			continue;
		}
		if (r == 0)
			r = input_receive(c);
		if (r <= 0)
			return r;
	}
}

static void *worker_run(void *argument)
{
	struct rest *s = argument;
	struct epoll_event event;

	pthread_setname_np(pthread_self(), "http_worker");
	for (;;) {
		int n = epoll_wait(s->epoll, &event, 1, -1);

		if (n < 0 && errno != EINTR)
			return NULL;
		if (n <= 0)
			continue;
		if (event.data.ptr == &s->stop)
			return NULL;
		if (event.data.ptr == &s->listener) {
			connections_accept(s);
			continue;
		}
		struct connection *c = event.data.ptr;

		event.events = EPOLLIN | EPOLLONESHOT;
		if (connection_serve(s, c) < 0 ||
		    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &event) < 0)
			connection_close(s, c);
	}
}

static int epoll_open(struct rest *s)
{
	struct epoll_event on_accept = { .events = EPOLLIN | EPOLLEXCLUSIVE,
					 .data.ptr = &s->listener };
	struct epoll_event on_stop = { .events = EPOLLIN, .data.ptr = &s->stop };

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->stop = eventfd(0, EFD_CLOEXEC);
	if (s->epoll < 0 || s->stop < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &on_accept) < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stop, &on_stop) < 0)
		return -errno;
	return 0;
}

int rest_new(struct service *service, uint16_t port, size_t workers, struct rest **ret)
{
	struct rest *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->service = service;
	s->listener = s->epoll = s->stop = -1;
	pthread_mutex_init(&s->lock, NULL);
	r = s->listener = listener_open(port, &s->port);
	if (r >= 0)
		r = epoll_open(s);
	if (r >= 0)
		r = workers_start(&s->workers, workers, worker_run, s);
	if (r < 0) {
		rest_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct rest *rest_free(struct rest *s)
{
	if (!s)
		return NULL;
	if (s->stop >= 0 && eventfd_write(s->stop, 1) >= 0)
		workers_join(&s->workers);
	while (s->connections)
		connection_close(s, s->connections);
	safe_close(s->listener);
	safe_close(s->epoll);
	safe_close(s->stop);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

uint16_t rest_port(const struct rest *s)
{
	return s->port;
}

uint64_t rest_requests(const struct rest *s)
{
	return atomic_load_explicit(&s->requests, memory_order_relaxed);
}
