/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/address.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/loop.h"
#include "lib/base/macro.h"

static int wait_connected(int fd, uint64_t deadline_ns)
{
	socklen_t size = sizeof(int);
	int error;

	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
		uint64_t now = loop_now(),
			 left_ms = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
		int n = poll(&poll_fd, 1,
			     deadline_ns == LOOP_NEVER ? -1 : (int)MIN(left_ms, (uint64_t)INT_MAX));

		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && loop_now() >= deadline_ns)
			return -ETIMEDOUT;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	return -error;
}

static int connect_to(const struct sockaddr *address, socklen_t size, uint64_t deadline_ns,
		      int *ret_fd)
{
	_cleanup_close_ int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (connect(fd, address, size) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		r = wait_connected(fd, deadline_ns);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int connect_unix(const char *name, bool abstract, uint64_t deadline_ns, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = strlen(name);

	if (!n)
		return -EINVAL;
	/* A path needs its final 0, an abstract name its initial one. */
	if (n + 1 > sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path + abstract, name, n);
	return connect_to((const struct sockaddr *)&address,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1), deadline_ns,
			  ret_fd);
}

static int connect_host(const char *text, uint64_t deadline_ns, int *ret_fd, char **ret_host)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	_cleanup_free_ char *copy = strdup(text);
	struct addrinfo *addresses;
	char *host = copy, *port;
	int r;

	if (!copy)
		return -ENOMEM;
	port = strrchr(copy, ':');
	if (!port || port == copy || !port[1])
		return -EINVAL;
	*port++ = 0;
	if (host[0] == '[') {
		if (port[-2] != ']')
			return -EINVAL;
		host++;
		port[-2] = 0;
	} else if (strchr(host, ':')) {
		return -EINVAL;
	}
	r = getaddrinfo(host, port, &hints, &addresses);
	if (r == EAI_SERVICE)
		return -EINVAL;
	if (r != 0)
		return r == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
	r = -EHOSTUNREACH;
	for (const struct addrinfo *a = addresses; a && r < 0; a = a->ai_next)
		r = connect_to(a->ai_addr, a->ai_addrlen, deadline_ns, ret_fd);
	freeaddrinfo(addresses);
	if (r < 0 || !ret_host)
		return r;
	*ret_host = strdup(host);
	if (!*ret_host) {
		*ret_fd = safe_close(*ret_fd);
		return -ENOMEM;
	}
	return 0;
}

int grpc_address_connect(const char *address, uint64_t timeout_ns, int *ret_fd, char **ret_host)
{
	uint64_t deadline_ns;

	if (ret_host)
		*ret_host = NULL;
	if (!timeout_ns || __builtin_add_overflow(loop_now(), timeout_ns, &deadline_ns))
		deadline_ns = LOOP_NEVER;
	if (!strncmp(address, "unix://", 7))
		return connect_unix(address + 7, false, deadline_ns, ret_fd);
	if (!strncmp(address, "unix:", 5))
		return connect_unix(address + 5, false, deadline_ns, ret_fd);
	if (address[0] == '/')
		return connect_unix(address, false, deadline_ns, ret_fd);
	if (!strncmp(address, "unix-abstract:", 14))
		return connect_unix(address + 14, true, deadline_ns, ret_fd);
	if (address[0] == '@')
		return connect_unix(address + 1, true, deadline_ns, ret_fd);
	return connect_host(address, deadline_ns, ret_fd, ret_host);
}
