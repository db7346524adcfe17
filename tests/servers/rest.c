#include "tests/servers/rest.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/macro.h"
#include "tests/servers/predict_json.h"

#define HEADER_MAX 8192
#define BODY_MAX (1 << 20)
#define INPUT_MIN 4096
#define CONNECTIONS_MAX 1024
#define SEND_TIMEOUT_MS 5000

struct connection {
	int fd;
	struct connection *prev, *next;
	char *input; /* one byte larger than capacity, to end a body as a string */
	size_t used, capacity;
};

struct rest {
	struct model *const *models;
	size_t models_n;
	int listener, epoll, stop;
	uint16_t port;
	atomic_uint_fast64_t requests;
	pthread_mutex_t lock; /* over the list of connections */
	struct connection *connections;
	size_t connections_n;
	pthread_t *workers;
	size_t workers_n;
};

struct request {
	char *method, *path, *body;
	size_t header_size, body_size;
	bool close;
	int status; /* 0, or what is wrong with it */
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
	free(c->input);
	free(c);
}

static void connections_accept(struct rest *s)
{
	int fd;

	while ((fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *c = calloc(1, sizeof(*c));
		struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = c };
		int one = 1;
		bool full;

		pthread_mutex_lock(&s->lock);
		full = s->connections_n >= CONNECTIONS_MAX;
		if (c && !full) {
			c->fd = fd;
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
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			connection_close(s, c);
	}
}

static int send_all(int fd, const char *bytes, size_t size)
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

static const char *status_text(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 413:
		return "Payload Too Large";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	default:
		return "Bad Request";
	}
}

static int respond(int fd, int status, const char *body, bool close)
{
	_cleanup_free_ char *response = NULL;
	int size = asprintf(&response,
			    "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
			    status, status_text(status), strlen(body), close ? "Connection: close\r\n" : "", body);

	if (size < 0)
		return -ENOMEM;
	return send_all(fd, response, (size_t)size);
}

/* Runs the model; returns the HTTP status, with a body to free, or no body when memory ran out. */
static int predict(struct model *m, const char *body, char **ret)
{
	char error[512] = "out of memory";
	const char *reason = error;
	struct tensor input = { 0 }, output = { 0 };
	int status = 200, r;

	r = predict_json_decode(body, &reason, &input);
	if (r >= 0) {
		reason = error;
		r = model_run(m, &input, error, sizeof(error), &output);
	}
	if (r >= 0)
		r = predict_json_encode(&output, ret);
	if (r < 0) {
		status = r == -EINVAL ? 400 : 500;
		if (predict_json_error(reason, ret) < 0)
			*ret = NULL;
	}
	free(input.values);
	free(output.values);
	return status;
}

static int status_answer(const struct model *m, char **ret)
{
	int size = asprintf(ret,
			    "{\"model_version_status\": [{\"version\": \"%s\", \"state\": \"AVAILABLE\", "
			    "\"status\": {\"error_code\": \"OK\", \"error_message\": \"\"}}]}\n",
			    model_version(m));

	if (size < 0)
		*ret = NULL;
	return size < 0 ? 500 : 200;
}

static int request_answer(struct rest *s, const struct request *q, char **ret)
{
	static const char prefix[] = "/v1/models/", verb[] = ":predict";
	const char *message = "no such path or model";
	int status = 404;

	if (!strncmp(q->path, prefix, strlen(prefix))) {
		const char *name = q->path + strlen(prefix);
		size_t size = strcspn(name, ":");

		for (size_t i = 0; i < s->models_n; i++) {
			struct model *m = s->models[i];

			if (strlen(model_name(m)) != size || memcmp(model_name(m), name, size))
				continue;
			if (!name[size] && !strcmp(q->method, "GET"))
				return status_answer(m, ret);
			if (!strcmp(name + size, verb) && !strcmp(q->method, "POST"))
				return predict(m, q->body, ret);
			if (!name[size] || !strcmp(name + size, verb)) {
				status = 405;
				message = "GET asks for a model's status, POST to :predict runs it";
			}
		}
	}
	if (predict_json_error(message, ret) < 0)
		*ret = NULL;
	return status;
}

static void header_line_read(struct request *q, const char *line)
{
	const char *value = strchr(line, ':');

	if (!value)
		return;
	value += 1 + strspn(value + 1, " \t");
	if (!strncasecmp(line, "Content-Length:", 15)) {
		char *end;
		unsigned long size = strtoul(value, &end, 10);

		if (*value < '0' || *value > '9' || *end)
			q->status = 400;
		else if (size > BODY_MAX)
			q->status = 413;
		else
			q->body_size = size;
	} else if (!strncasecmp(line, "Transfer-Encoding:", 18)) {
		q->status = 501;
	} else if (!strncasecmp(line, "Connection:", 11)) {
		if (!strcasecmp(value, "close"))
			q->close = true;
	}
}

/* How many bytes the head of a request takes; 0 when it is not there in full. */
static size_t head_size(const char *input, size_t used)
{
	const char *end = used ? memmem(input, MIN(used, (size_t)HEADER_MAX), "\r\n\r\n", 4) : NULL;

	return end ? (size_t)(end - input) + 4 : 0;
}

/* Reads a head in place: its lines become strings. What is wrong with it goes to q->status. */
static void request_read(char *head, size_t size, struct request *q)
{
	char *line = head, *end = head + size - 2, *save = NULL;

	*q = (struct request){ .header_size = size };
	*end = 0;
	for (bool first = true; line < end; first = false) {
		char *next = strstr(line, "\r\n");

		if (!next)
			break;
		*next = 0;
		if (first) {
			q->method = strtok_r(line, " ", &save);
			q->path = strtok_r(NULL, " ", &save);
			const char *version = strtok_r(NULL, " ", &save);

			if (!q->method || !q->path || !version || strncmp(version, "HTTP/1.", 7)) {
				q->status = 400;
				return;
			}
			q->close = !strcmp(version, "HTTP/1.0");
		} else {
			header_line_read(q, line);
		}
		line = next + 2;
	}
	if (!q->path)
		q->status = 400;
}

/* Grows the buffer to hold need bytes. */
static int input_reserve(struct connection *c, size_t need)
{
	if (need <= c->capacity)
		return 0;
	char *grown = realloc(c->input, need + 1);

	if (!grown)
		return -ENOMEM;
	c->input = grown;
	c->capacity = need;
	return 0;
}

static int input_receive(struct connection *c)
{
	for (;;) {
		ssize_t n = recv(c->fd, c->input + c->used, c->capacity - c->used, 0);

		if (n > 0) {
			c->used += (size_t)n;
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

/* Reads on until the body of a request is there; a client that stops in the middle of one is cut off. */
static int body_receive(struct connection *c, size_t need)
{
	while (c->used < need) {
		struct pollfd p = { .fd = c->fd, .events = POLLIN };
		int r = input_receive(c);

		if (r < 0)
			return r;
		if (r == 0 && poll(&p, 1, SEND_TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
	}
	return 0;
}

/* Answers the request whose head is in the buffer, and takes it out; a negative errno ends the connection. */
static int request_serve(struct rest *s, struct connection *c, size_t head)
{
	_cleanup_free_ char *body = NULL;
	size_t room = head + BODY_MAX;
	struct request q;
	int r;

	/* Pointers into the head must outlive the growth for the body. */
	_cleanup_free_ char *copy = malloc(head);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, c->input, head);
	request_read(copy, head, &q);
	if (!q.status) {
		room = head + q.body_size;
		r = input_reserve(c, room);
		if (r >= 0)
			r = body_receive(c, room);
		if (r < 0)
			return r;
		char after = c->input[room];

		q.body = c->input + head;
		q.body[q.body_size] = 0;
		q.status = request_answer(s, &q, &body);
		c->input[room] = after;
	} else {
		q.close = true;
		if (predict_json_error(status_text(q.status), &body) < 0)
			body = NULL;
	}
	r = respond(c->fd, q.status, body ? body : "{}\n", q.close);
	if (r < 0 || q.close)
		return r < 0 ? r : -ECONNRESET;
	atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
	memmove(c->input, c->input + room, c->used - room);
	c->used -= room;
	return 0;
}

/* Serves what a connection sent; returns a negative errno when it must end, 0 when it has to be waited for. */
static int connection_serve(struct rest *s, struct connection *c)
{
	for (;;) {
		size_t head = head_size(c->input, c->used);
		int r;

		if (head) {
			r = request_serve(s, c, head);
			if (r < 0)
				return r;
			continue;
		}
		if (c->used >= HEADER_MAX) {
			respond(c->fd, 431, "{\"error\": \"the head of the request is too long\"}\n", true);
			return -EMSGSIZE;
		}
		r = input_reserve(c, c->used < INPUT_MIN ? INPUT_MIN : HEADER_MAX);
		if (r >= 0)
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
		if (connection_serve(s, c) < 0 || epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &event) < 0)
			connection_close(s, c);
	}
}

static int listener_open(struct rest *s, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int one = 1;

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->listener < 0)
		return -errno;
	setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s->listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(s->listener, SOMAXCONN) < 0 ||
	    getsockname(s->listener, (struct sockaddr *)&address, &size) < 0)
		return -errno;
	s->port = ntohs(address.sin_port);
	return 0;
}

static int epoll_open(struct rest *s)
{
	struct epoll_event on_accept = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &s->listener };
	struct epoll_event on_stop = { .events = EPOLLIN, .data.ptr = &s->stop };

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->stop = eventfd(0, EFD_CLOEXEC);
	if (s->epoll < 0 || s->stop < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &on_accept) < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stop, &on_stop) < 0)
		return -errno;
	return 0;
}

int rest_new(struct model *const *models, size_t models_n, uint16_t port, size_t workers, struct rest **ret)
{
	struct rest *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->models = models;
	s->models_n = models_n;
	s->listener = s->epoll = s->stop = -1;
	pthread_mutex_init(&s->lock, NULL);
	s->workers = calloc(workers, sizeof(*s->workers));
	r = s->workers ? listener_open(s, port) : -ENOMEM;
	if (r >= 0)
		r = epoll_open(s);
	while (r >= 0 && s->workers_n < workers) {
		r = -pthread_create(&s->workers[s->workers_n], NULL, worker_run, s);
		if (r >= 0)
			s->workers_n++;
	}
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
	if (s->workers_n && eventfd_write(s->stop, 1) >= 0)
		for (size_t i = 0; i < s->workers_n; i++)
			pthread_join(s->workers[i], NULL);
	while (s->connections)
		connection_close(s, s->connections);
	safe_close(s->listener);
	safe_close(s->epoll);
	safe_close(s->stop);
	pthread_mutex_destroy(&s->lock);
	free(s->workers);
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
