/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/macro.h"

union control {
	char buffer[CMSG_SPACE(sizeof(int) * BROKER_MAX_FDS)];
	struct cmsghdr align;
};

static int send_message(int socket, const void *data, size_t size, const int *fds, unsigned n_fds,
			int flags)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control = {};

	if (n_fds > BROKER_MAX_FDS)
		return -E2BIG;
	if (n_fds) {
		struct cmsghdr *c;

		m.msg_control = control.buffer;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	while (sendmsg(socket, &m, MSG_NOSIGNAL | flags) < 0) {
		if (errno == EINTR)
			continue;
		return errno == ECONNRESET ? -EPIPE : -errno;
	}
	return 0;
}

int channel_send(int socket, const void *data, size_t size, const int *fds, unsigned n_fds)
{
	return send_message(socket, data, size, fds, n_fds, 0);
}

int channel_answer(int socket, const void *data, size_t size, const int *fds, unsigned n_fds)
{
	int r = send_message(socket, data, size, fds, n_fds, MSG_DONTWAIT);

	return r == -EAGAIN ? -EPIPE : r;
}

int channel_receive(int socket, void *data, size_t size, int *ret_fds, unsigned max_fds,
		    unsigned *ret_n_fds)
{
	struct iovec iov = { .iov_base = data, .iov_len = size };
	union control control = {};
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buffer,
			    .msg_controllen = sizeof(control) };
	unsigned kept = 0;
	ssize_t n;

	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (kept < max_fds)
				ret_fds[kept++] = fd;
			else
				close(fd);
		}
	}
	/* Descriptors that did not fit into this process's table must not be missing silently. */
	if (m.msg_flags & MSG_CTRUNC)
		n = -1;
	if (n == (ssize_t)size) {
		*ret_n_fds = kept;
		return 0;
	}
	while (kept)
		close(ret_fds[--kept]);
	return n == 0 ? -EPIPE : -EBADMSG;
}
