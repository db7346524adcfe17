/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"

#define DEFAULT_GROUP "tfprofd"
/* The first descriptor that is handed over, as in systemd. */
#define FIRST_HANDED 3
#define HANDED_MAX 16

static bool socket_is_served(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
}

static int listen_unix(const char *path, const char *key)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	const struct group *group;
	char directory[256];
	struct stat st;
	char *slash;
	int r;

	strcpy(address.sun_path, path);
	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = 0;
		r = directory_make(directory, 0755);
		if (r < 0)
			return log_error_errno(
				r, "cannot create %s: %m; choose another path with --%s", directory,
				key);
	}
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return log_error_errno(
				-EEXIST,
				"%s exists and is not a socket; choose another path with --%s",
				path, key);
		if (socket_is_served(&address))
			return log_error_errno(
				-EADDRINUSE,
				"%s is in use, perhaps by another tfprofd; choose another path with --%s",
				path, key);
		unlink(path); /* left by a daemon that was killed */
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, LISTENER_BACKLOG) < 0)
		return log_error_errno(-errno, "cannot listen on %s: %m", path);
	group = getgrnam(DEFAULT_GROUP);
	if (group && chown(path, (uid_t)-1, group->gr_gid) < 0)
		log_warning("cannot give %s to the group " DEFAULT_GROUP ": %m", path);
	if (chmod(path, 0660) < 0)
		return log_error_errno(-errno, "cannot set the mode of %s: %m", path);
	return TAKE_FD(fd);
}

static int bind_tcp(const char *host, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	inet_pton(AF_INET, host, &address.sin_addr);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int listen_tcp(const struct config_address *at, const char *key)
{
	_cleanup_close_ int fd = bind_tcp(at->host, at->port);

	if (fd < 0 || listen(fd, LISTENER_BACKLOG) < 0)
		return log_error_errno(
			fd < 0 ? fd : -errno,
			"cannot listen on %s:%u: %m; choose another address with --%s, or --%s no",
			at->host, at->port, key, key);
	return TAKE_FD(fd);
}

static int listen_abstract(uint16_t port)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%u", port);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    listen(fd, LISTENER_BACKLOG) < 0)
		return log_error_errno(
			-errno,
			"cannot listen on the abstract socket @%u: %m; choose another port with --listen",
			port);
	return TAKE_FD(fd);
}

static int add(struct listeners *listeners, const struct config *config, int fd,
	       enum listener_kind kind)
{
	bool is_certified = kind == LISTENER_TLS && *config->tls_client_ca;

	if (fd < 0)
		return fd;
	if (listeners->n == BROKER_MAX_LISTENERS) {
		close(fd);
		return -E2BIG;
	}
	listeners->list[listeners->n++] =
		(struct listener){ .fd = fd, .kind = kind, .is_certified = is_certified };
	return 0;
}

struct handed {
	bool has_unix, has_tcp, has_tls;
};

static bool is_listening(int fd)
{
	int is = 0;
	socklen_t size = sizeof(is);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &size) == 0 && is;
}

/* In clear only what can be reached from this host alone; a descriptor named "tls" is a socket for
 * TLS. */
static int add_handed(struct listeners *listeners, int fd, const char *name,
		      const struct config *config, struct handed *handed)
{
	struct sockaddr_storage address = {};
	socklen_t size = sizeof(address);
	bool is_tls = !strcmp(name, "tls"), is_unix, is_loopback;

	if (!is_listening(fd) || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return log_error_errno(
			-EINVAL, "descriptor %d that was handed over is not a listening socket",
			fd);
	is_unix = address.ss_family == AF_UNIX;
	is_loopback = address.ss_family == AF_INET &&
		      ntohl(((const struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == 127;
	if (is_tls && (is_unix || (!is_loopback && !*config->tls_client_ca) ||
		       !*config->tls_certificate || !*config->tls_key))
		return log_error_errno(
			-EINVAL,
			"socket %d was handed over for TLS: it must be TCP, with tls-cert and tls-key, and beyond loopback "
			"tls-client-ca",
			fd);
	if (!is_tls && !is_unix && !is_loopback)
		return log_error_errno(
			-EINVAL,
			"socket %d was handed over unencrypted and reachable from other hosts: bind it to 127.0.0.1, or name it tls",
			fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return -errno;
	handed->has_tls |= is_tls;
	handed->has_unix |= is_unix && !is_tls;
	handed->has_tcp |= !is_unix && !is_tls;
	return add(listeners, config, fd, is_tls ? LISTENER_TLS : LISTENER_CLEAR);
}

bool listeners_are_handed(void)
{
	const char *pid = getenv("LISTEN_PID");
	uint64_t number;

	return pid && getenv("LISTEN_FDS") && number_parse(pid, 1, INT32_MAX, &number) == 0 &&
	       number == (uint64_t)getpid();
}

/* LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES of sd_listen_fds(3). */
static int take_handed(struct listeners *listeners, const struct config *config,
		       struct handed *handed)
{
	const char *count = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
	_cleanup_free_ char *copy = strdup(names ?: "");
	char *rest = copy;
	uint64_t number;
	int r = 0;

	if (!listeners_are_handed())
		return 0;
	if (number_parse(count, 1, HANDED_MAX, &number) < 0)
		return log_error_errno(-EINVAL,
				       "LISTEN_FDS is %s: at most %d sockets can be handed over",
				       count, HANDED_MAX);
	if (!copy)
		return -ENOMEM;
	for (int i = 0; r == 0 && i < (int)number; i++)
		r = add_handed(listeners, FIRST_HANDED + i, strsep(&rest, ":") ?: "", config,
			       handed);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}

/* Sockets that were handed over replace those that would be created. */
static int make(struct listeners *listeners, const struct config *config,
		const struct handed *handed)
{
	int r = 0;

	if (!handed->has_unix) {
		r = add(listeners, config, listen_unix(config->socket, "socket"), LISTENER_CLEAR);
		listeners->owns_socket = r == 0;
	}
	if (r == 0 && config->listen.port && !handed->has_tcp) {
		r = add(listeners, config, listen_tcp(&config->listen, "listen"), LISTENER_CLEAR);
		if (r == 0)
			r = add(listeners, config, listen_abstract(config->listen.port),
				LISTENER_CLEAR);
	}
	if (r == 0 && config->tls_listen.port && !handed->has_tls)
		r = add(listeners, config, listen_tcp(&config->tls_listen, "tls-listen"),
			LISTENER_TLS);
	/* Bound now, because the broker leaves its network. Ports that are in use are skipped. */
	for (unsigned port = config->target_ports.first;
	     r == 0 && port && port <= config->target_ports.last &&
	     listeners->n < BROKER_MAX_LISTENERS;
	     port++) {
		_cleanup_close_ int fd = bind_tcp("127.0.0.1", (uint16_t)port);

		/* A port that only was bound could be taken by another user who listens there. */
		if (fd >= 0 && listener_open(fd) >= 0 && listener_close(fd) >= 0)
			r = add(listeners, config, TAKE_FD(fd), LISTENER_TARGET);
	}
	return r;
}

static int make_metrics(struct listeners *listeners, const struct config *config)
{
	const char *path = *config->metrics.path ? config->metrics.path : NULL;
	int fd;

	if (!path && !config->metrics.address.port)
		return 0;
	fd = path ? listen_unix(path, "metrics-listen")
		  : listen_tcp(&config->metrics.address, "metrics-listen");
	if (fd < 0)
		return fd;
	listeners->metrics = fd;
	return 0;
}

int listeners_new(const struct config *config, struct listeners *ret)
{
	struct listeners listeners = { .metrics = -1 };
	struct handed handed = {};
	int r = take_handed(&listeners, config, &handed);

	if (r == 0)
		r = make(&listeners, config, &handed);
	if (r == 0)
		r = make_metrics(&listeners, config);
	if (r < 0) {
		for (unsigned i = 0; i < listeners.n; i++)
			close(listeners.list[i].fd);
		listeners_remove(config, &listeners);
		return r;
	}
	*ret = listeners;
	return 0;
}

void listeners_remove(const struct config *config, const struct listeners *listeners)
{
	if (listeners->owns_socket)
		unlink(config->socket);
	if (listeners->metrics >= 0 && *config->metrics.path)
		unlink(config->metrics.path);
}
