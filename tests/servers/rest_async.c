/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/rest_async.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/macro.h"
#include "tests/servers/jobs.h"
#include "tests/servers/listener.h"
#include "tests/servers/rest_answer.h"
#include "tests/servers/workers.h"

#define RECEIVE_SIZE 16384
#define CONNECTIONS_MAX 1024
/* Requests of a connection that wait for their answers; more of them are not read. */
#define PENDING_MAX 64
#define EVENTS_MAX 64
#define PADDED_SEND_BUFFER 65536

struct connection {
	int fd;
	uint16_t peer_port;
	uint32_t requests;
	struct connection *prev, *next;
	struct buffer input;
	struct pending *first, **last; /* in the order in which answers must go out */
	size_t pending_n, working_n;   /* those that no worker has answered yet */
	bool closed;                   /* it ends when no worker has to do with it */
};

/* A request until its answer is sent. */
struct pending {
	struct job job;
	struct connection *connection;
	struct pending *next;
	struct http1_request request;
	struct truth_record record;
	struct buffer answer;
	size_t sent;
	bool answered;
};

struct rest_async {
	struct service *service;
	int listener, epoll, wake;
	uint16_t port;
	atomic_bool stop;
	atomic_uint_fast64_t requests;
	struct jobs todo, done;
	struct connection *connections;
	size_t connections_n;
	pthread_t io;
	struct workers workers;
	bool has_io;
	const struct work_marks *marks;
};

static void connection_free(struct rest_async *s, struct connection *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		s->connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->connections_n--;
	while (c->first) {
		struct pending *p = c->first;

		c->first = p->next;
		http1_request_clear(&p->request);
		buffer_clear(&p->answer);
		free(p);
	}
	safe_close(c->fd);
	buffer_clear(&c->input);
	free(c);
}

static void connection_end(struct rest_async *s, struct connection *c)
{
	c->fd = safe_close(c->fd);
	c->closed = true;
	if (!c->working_n)
		connection_free(s, c);
}

static void connections_accept(struct rest_async *s)
{
	uint16_t peer_port;
	int fd;

	while ((fd = listener_accept(s->listener, &peer_port)) >= 0) {
		struct connection *c =
			s->connections_n < CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
		int small = PADDED_SEND_BUFFER;

		if (!c) {
			close(fd);
			continue;
		}
		c->fd = fd;
		c->peer_port = peer_port;
		c->last = &c->first;
		c->next = s->connections;
		if (c->next)
			c->next->prev = c;
		s->connections = c;
		s->connections_n++;
		if (service_answer_pad(s->service))
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			connection_end(s, c);
	}
}

/* Hands what was read in full to the workers. */
static int requests_read(struct rest_async *s, struct connection *c)
{
	while (c->pending_n < PENDING_MAX) {
		uint64_t read_ns = truth_now_ns();
		struct http1_request q;
		int r = http1_request_read(c->input.bytes, c->input.used, &q);

		if (r <= 0)
			return r;
		struct pending *p = calloc(1, sizeof(*p));

		if (!p) {
			http1_request_clear(&q);
			return -ENOMEM;
		}
		p->connection = c;
		p->request = q;
		p->record = (struct truth_record){ .id = q.id,
						   .peer_port = c->peer_port,
						   .stream = ++c->requests,
						   .read_ns = read_ns };
		*c->last = p;
		c->last = &p->next;
		c->pending_n++;
		c->working_n++;
		buffer_consume(&c->input, q.status ? c->input.used : q.size);
		if (s->marks)
			s->marks->made((uintptr_t)p);
		jobs_put(&s->todo, &p->job);
	}
	return 0;
}

/* Sends the answers whose turn it is, as far as the socket takes them. */
static int answers_send(struct rest_async *s, struct connection *c)
{
	while (c->first && c->first->answered) {
		struct pending *p = c->first;
		bool close = p->request.close;
		ssize_t n = send(c->fd, p->answer.bytes + p->sent, p->answer.used - p->sent,
				 MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		p->sent += (size_t)n;
		if (p->sent < p->answer.used)
			continue;
		service_done(s->service, &p->record);
		atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
		c->first = p->next;
		if (!c->first)
			c->last = &c->first;
		c->pending_n--;
		http1_request_clear(&p->request);
		buffer_clear(&p->answer);
		free(p);
		if (close)
			return -ECONNRESET;
	}
	return 0;
}

/* Sends, reads on, and returns the next events to wait for. */
static int connection_go_on(struct rest_async *s, struct connection *c)
{
	int r = answers_send(s, c);

	if (r >= 0)
		r = requests_read(s, c);
	if (r < 0)
		return r;
	struct epoll_event event = { .data.ptr = c };

	event.events = (c->pending_n < PENDING_MAX ? (uint32_t)EPOLLIN : 0) |
		       (c->first && c->first->answered ? (uint32_t)EPOLLOUT : 0);
	return epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &event) < 0 ? -errno : 0;
}

static int connection_receive(struct connection *c)
{
	if (buffer_reserve(&c->input, RECEIVE_SIZE) < 0)
		return -ENOMEM;
	ssize_t n = recv(c->fd, c->input.bytes + c->input.used, c->input.room - c->input.used, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	c->input.used += (size_t)n;
	return n ? 0 : -ECONNRESET;
}

/* Takes back what workers have answered. */
static void answers_take(struct rest_async *s)
{
	eventfd_t count;

	eventfd_read(s->wake, &count);
	for (struct job *j = jobs_take_all(&s->done), *next; j; j = next) {
		struct pending *p = container_of(j, struct pending, job);
		struct connection *c = p->connection;

		next = j->next;
		p->answered = true;
		c->working_n--;
		if (c->closed) {
			if (!c->working_n)
				connection_free(s, c);
		} else if (connection_go_on(s, c) < 0) {
			connection_end(s, c);
		}
	}
}

static void connection_event(struct rest_async *s, struct connection *c, uint32_t events)
{
	int r = 0;

	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		r = connection_receive(c);
	if (r >= 0)
		r = connection_go_on(s, c);
	if (r < 0)
		connection_end(s, c);
}

static void *io_run(void *argument)
{
	struct rest_async *s = argument;
	struct epoll_event events[EVENTS_MAX];

	pthread_setname_np(pthread_self(), "http_io");
	while (!atomic_load(&s->stop)) {
		int n = epoll_wait(s->epoll, events, EVENTS_MAX, -1);
		bool wake = false;

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &s->wake)
				wake = true;
			else if (events[i].data.ptr == &s->listener)
				connections_accept(s);
			else
				connection_event(s, events[i].data.ptr, events[i].events);
		}
		/* Last, for it may end connections that events of the same round are of. */
		if (wake)
			answers_take(s);
	}
	answers_take(s);
	return NULL;
}

static void *worker_run(void *argument)
{
	struct rest_async *s = argument;
	struct job *j;

	pthread_setname_np(pthread_self(), "http_worker");
	while ((j = jobs_take(&s->todo))) {
		struct pending *p = container_of(j, struct pending, job);

		if (s->marks)
			s->marks->begin((uintptr_t)p);
		rest_answer(s->service, &p->request, &p->record, &p->answer);
		if (s->marks)
			s->marks->end((uintptr_t)p);
		jobs_put(&s->done, &p->job);
		eventfd_write(s->wake, 1);
	}
	return NULL;
}

static int epoll_open(struct rest_async *s)
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

int rest_async_new(struct service *service, uint16_t port, size_t workers,
		   const struct work_marks *marks, struct rest_async **ret)
{
	struct rest_async *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->service = service;
	s->marks = marks;
	s->listener = s->epoll = s->wake = -1;
	jobs_init(&s->todo);
	jobs_init(&s->done);
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
		rest_async_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct rest_async *rest_async_free(struct rest_async *s)
{
	if (!s)
		return NULL;
	jobs_stop(&s->todo);
	workers_join(&s->workers);
	atomic_store(&s->stop, true);
	if (s->has_io && eventfd_write(s->wake, 1) >= 0)
		pthread_join(s->io, NULL);
	while (s->connections)
		connection_free(s, s->connections);
	safe_close(s->listener);
	safe_close(s->epoll);
	safe_close(s->wake);
	jobs_destroy(&s->todo);
	jobs_destroy(&s->done);
	free(s);
	return NULL;
}

uint16_t rest_async_port(const struct rest_async *s)
{
	return s->port;
}

uint64_t rest_async_requests(const struct rest_async *s)
{
	return atomic_load_explicit(&s->requests, memory_order_relaxed);
}
