/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/listener.h"

#include <errno.h>
#include <sys/socket.h>

static int set_reuse(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ? -errno : 0;
}

int listener_open(int fd)
{
	int r = set_reuse(fd, 1);

	if (r < 0)
		return r;
	return listen(fd, LISTENER_BACKLOG) < 0 ? -errno : 0;
}

int listener_close(int fd)
{
	int listens = 0, r = 0;
	socklen_t size = sizeof(listens);

	/* A socket that does not listen would end the connections of its next life. */
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 ||
	    (listens && shutdown(fd, SHUT_RDWR) < 0))
		r = -errno;
	return set_reuse(fd, 0) ?: r;
}
