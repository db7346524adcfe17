/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/load_link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "lib/base/macro.h"

#define RECEIVE_SIZE 65536
/* An answer that is read slowly: its first bytes, then a pause. A small buffer makes the server
 * wait for us. */
#define SLOW_FIRST 4096
#define SLOW_BUFFER 16384

uint64_t link_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int link_open(struct link *l)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in local;
	socklen_t size = sizeof(local);
	int one = 1, small = SLOW_BUFFER, r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	if (l->options->slow_read_ms)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (connect(fd, (const struct sockaddr *)&l->options->address,
		    sizeof(l->options->address)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&local, &size) < 0 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	l->fd = TAKE_FD(fd);
	l->local_port = ntohs(local.sin_port);
	l->requests = 0;
	l->close = l->paused_once = false;
	l->pause_until_ns = 0;
	l->last = &l->outstanding;
	r = l->protocol->open(l);
	if (r >= 0)
		r = link_flush(l);
	if (r < 0)
		link_close(l, "the connection could not be opened");
	return r;
}

void link_close(struct link *l, const char *error)
{
	if (l->fd < 0)
		return;
	l->fd = safe_close(l->fd);
	l->protocol->close(l);
	buffer_clear(&l->input);
	buffer_clear(&l->output);
	while (l->outstanding) {
		struct exchange *e = l->outstanding;

		e->error = error;
		link_answered(l, e, NULL);
	}
}

int link_flush(struct link *l)
{
	uint64_t now = link_now_ns();
	size_t sent = 0;
	int r = l->output.failed ? -ENOMEM : 0;

	/* To make a large request takes longer than to send it. */
	for (struct exchange *e = l->outstanding; e && l->output.used; e = e->next)
		if (!e->send_ns)
			e->send_ns = now;
	while (r >= 0 && sent < l->output.used) {
		ssize_t n =
			send(l->fd, l->output.bytes + sent, l->output.used - sent, MSG_NOSIGNAL);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			r = -errno;
	}
	buffer_consume(&l->output, sent);
	return r;
}

int link_request(struct link *l, struct exchange *e, bool hold)
{
	int r;

	e->local_port = l->local_port;
	e->stream = ++l->requests;
	e->grpc_status = -1;
	*l->last = e;
	l->last = &e->next;
	/* Those that were held back go out with this one, and so are sent now, too. */
	r = l->protocol->request(l, e);
	return r < 0 || hold ? r : link_flush(l);
}

/* How much may be read now; 0: nothing before the pause is over. */
static size_t receive_size(struct link *l)
{
	if (!l->outstanding || !l->outstanding->slow)
		return RECEIVE_SIZE;
	if (!l->paused_once)
		return SLOW_FIRST;
	return link_now_ns() < l->pause_until_ns ? 0 : RECEIVE_SIZE;
}

/* When the last byte of what was received came to this machine: the kernel tells it as
 * CLOCK_REALTIME. */
static uint64_t arrival_ns(struct msghdr *message)
{
	uint64_t now = link_now_ns();
	struct timespec came, wall;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&came, CMSG_DATA(c), sizeof(came));
		clock_gettime(CLOCK_REALTIME, &wall);
		return now - (uint64_t)((wall.tv_sec - came.tv_sec) * 1000000000 + wall.tv_nsec -
					came.tv_nsec);
	}
	return now;
}

int link_receive(struct link *l)
{
	uint8_t bytes[RECEIVE_SIZE];

	for (;;) {
		size_t size = receive_size(l);

		if (!size)
			return 0;
		_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))];
		struct iovec io = { .iov_base = bytes, .iov_len = size };
		struct msghdr message = {
			.msg_iov = &io,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t n = recvmsg(l->fd, &message, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		l->received_ns = link_now_ns();
		l->arrived_ns = arrival_ns(&message);
		if (n == 0) {
			l->protocol->ended(l);
			return -ECONNRESET;
		}
		if (size == SLOW_FIRST) {
			l->paused_once = true;
			l->pause_until_ns =
				l->received_ns + (uint64_t)l->options->slow_read_ms * 1000000;
		}
		int r = l->protocol->receive(l, bytes, (size_t)n);

		if (r < 0 || l->fd < 0)
			return r;
	}
}

/* y = x / 2 + 2 is checked; what wider models answer is not known. */
static const char *answer_check(const struct link *l, struct exchange *e, const struct tensor *t)
{
	int64_t width = t->dims_n == 2 ? t->dims[1] : 1;
	double right = (double)e->id / 2 + 2;

	if (t->dims[0] != l->options->rows)
		return "the answer has not as many rows as the request";
	if (l->options->width)
		return NULL;
	for (int64_t i = 0; i < t->dims[0]; i++)
		if (fabs((double)t->values[i * width] - right) > 1e-6 * right)
			return "the answer is wrong";
	if (width == 3) {
		e->batched = true;
		memcpy(e->batch, t->values + 1, sizeof(e->batch));
	}
	return NULL;
}

void link_answered(struct link *l, struct exchange *e, const struct tensor *answer)
{
	for (struct exchange **at = &l->outstanding; *at; at = &(*at)->next) {
		if (*at == e) {
			*at = e->next;
			if (l->last == &e->next)
				l->last = at;
			break;
		}
	}
	if (e->slow)
		l->paused_once = false;
	e->receive_ns = l->received_ns;
	e->arrive_ns = l->arrived_ns;
	if (!e->error && (e->status != 200 || e->grpc_status > 0))
		e->error = "the server answered with an error";
	else if (!e->error && !answer)
		e->error = "there is no answer that can be read";
	else if (!e->error)
		e->error = answer_check(l, e, answer);
	l->answered(l->user, e);
}

int link_tensor(const struct link *l, const struct exchange *e, struct tensor *ret)
{
	const struct link_options *o = l->options;
	int64_t width = o->width ? o->width : 1;
	struct tensor t = { .dims_n = o->width ? 2 : 1, .dims = { o->rows, width } };

	t.values = malloc((size_t)(o->rows * width) * sizeof(*t.values));
	if (!t.values)
		return -ENOMEM;
	for (int64_t i = 0; i < o->rows * width; i++)
		t.values[i] = o->width ? (float)(i % 7) / 7 : (float)e->id;
	*ret = t;
	return 0;
}
