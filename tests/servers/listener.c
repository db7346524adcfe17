/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lib/base/macro.h"

int listener_open(uint16_t port, uint16_t *ret_port)
{
	const char *where = getenv("LISTEN_ADDRESS") ?: "127.0.0.1";
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = inet_addr(where) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(address);
	int one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return -errno;
	*ret_port = ntohs(address.sin_port);
	return TAKE_FD(fd);
}

int listener_accept(int listener, uint16_t *ret_peer_port)
{
	struct sockaddr_in peer = { 0 };
	socklen_t size = sizeof(peer);
	int one = 1, fd;

	fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret_peer_port = ntohs(peer.sin_port);
	return fd;
}
