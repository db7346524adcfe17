/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/macro.h"
#include "lib/grpc/connection.h"

#define SECOND 1000000000ull
/* Each is a question to the broker: more at once would delay connected clients. */
#define ACCEPTS_PER_VISIT 4
/* How long nothing is accepted if the process or the system is out of descriptors or memory. */
#define ACCEPT_PAUSE_NS (SECOND / 10)

static void resume_accepting(void *data);
static void report_stopped(void *data);

int grpc_server_new(struct loop *loop, const struct grpc_server_options *options,
		    struct grpc_server **ret)
{
	struct grpc_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	r = grpc_service_init(&server->service, options, loop_now);
	if (r == 0)
		r = loop_timer_new(loop, resume_accepting, server, &server->resume_timer);
	if (r == 0)
		r = loop_timer_new(loop, report_stopped, server, &server->stop_timer);
	if (r < 0) {
		grpc_server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

struct grpc_server *grpc_server_free(struct grpc_server *server)
{
	if (!server)
		return NULL;
	while (server->connections)
		grpc_connection_close(server->connections);
	while (server->listeners)
		grpc_server_unlisten(server, server->listeners->id);
	grpc_accounts_clear(&server->accounts);
	loop_timer_free(server->resume_timer);
	loop_timer_free(server->stop_timer);
	grpc_service_clear(&server->service);
	free(server);
	return NULL;
}

static void resume_accepting(void *data)
{
	struct grpc_server *server = data;

	for (struct grpc_listener *listener = server->listeners; listener;
	     listener = listener->next)
		if (listener->fd >= 0)
			loop_source_set(listener->source, EPOLLIN);
}

static void pause_accepting(struct grpc_server *server)
{
	for (struct grpc_listener *listener = server->listeners; listener;
	     listener = listener->next)
		if (listener->fd >= 0)
			loop_source_set(listener->source, 0);
	loop_timer_set(server->resume_timer, loop_now() + ACCEPT_PAUSE_NS);
}

/* Closes the connection that has been without a call, or an answer on its way, for the longest
 * time; false if there is none. user: only one of this user; NULL: any. */
static bool evict_idle(struct grpc_server *server, const uid_t *user)
{
	struct grpc_connection *idlest = NULL;

	for (struct grpc_connection *c = server->connections; c; c = c->next)
		if ((!user || c->user == *user) && !c->session.calls &&
		    !c->session.http2.output.size &&
		    (!idlest || c->session.idle_ns < idlest->session.idle_ns))
			idlest = c;
	if (!idlest)
		return false;
	grpc_connection_close(idlest);
	return true;
}

static int accept_next(struct grpc_listener *listener, void **ret_peer)
{
	const struct grpc_server_options *options = &listener->server->service.options;
	int fd;

	if (options->accept)
		return options->accept(listener->fd, listener->data, options->data, ret_peer);
	fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static enum share_verdict make_room(struct grpc_server *server, uid_t user)
{
	const struct grpc_server_options *options = &server->service.options;
	const struct share share = { .all = options->max_connections,
				     .per_user = options->max_user_connections
							 ?: options->max_connections };
	enum share_verdict verdict;
	unsigned own = 0;

	for (const struct grpc_connection *c = server->connections; c; c = c->next)
		own += c->user == user;
	verdict = share_grant(&share, user, server->n_connections, own, 1);
	if (verdict != SHARE_GRANTED &&
	    evict_idle(server, verdict == SHARE_OF_USER_HELD ? &user : NULL))
		return SHARE_GRANTED;
	return verdict;
}

/* SETTINGS and GOAWAY, without a session: if the client does not accept these bytes at once it does
 * not get them. */
static void refuse(int fd, const char *reason)
{
	const size_t n = strlen(reason);
	const uint8_t head[] = { 0, 0, 0, NGHTTP2_SETTINGS, 0, 0, 0, 0, 0,
				 /* No stream was processed. */
				 0, (uint8_t)((8 + n) >> 8), (uint8_t)(8 + n), NGHTTP2_GOAWAY, 0, 0,
				 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NGHTTP2_ENHANCE_YOUR_CALM };
	struct iovec pieces[] = { { (void *)head, sizeof(head) }, { (void *)reason, n } };
	struct msghdr m = { .msg_iov = pieces, .msg_iovlen = ARRAY_SIZE(pieces) };

	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		shutdown(fd, SHUT_WR);
}

static void admit(struct grpc_listener *listener, int accepted_fd, void *peer)
{
	struct grpc_server *server = listener->server;
	const struct grpc_server_options *options = &server->service.options;
	uid_t user = options->user ? options->user(peer, options->data) : 0;
	enum share_verdict verdict = make_room(server, user);
	_cleanup_close_ int fd = accepted_fd;
	struct grpc_connection *connection;

	if (verdict != SHARE_GRANTED && options->crowded) {
		const char *reason = options->crowded(peer, verdict, options->data);

		if (!listener->tls)
			refuse(fd, reason);
	}
	if (verdict != SHARE_GRANTED || listener->fd < 0 ||
	    grpc_connection_new(listener, fd, peer, user, &connection) < 0) {
		if (options->released)
			options->released(peer, options->data);
		return;
	}
	TAKE_FD(fd);
}

static void listener_event(int fd, uint32_t events, void *data)
{
	struct grpc_listener *listener = data;

	/* The hooks may close the listener. */
	listener->n_holds++;
	for (int i = 0; i < ACCEPTS_PER_VISIT && listener->fd >= 0; i++) {
		void *peer = NULL;
		int accepted = accept_next(listener, &peer);

		if (accepted >= 0) {
			admit(listener, accepted, peer);
			continue;
		}
		if (accepted == -EINTR || accepted == -ECONNABORTED || accepted == -EACCES)
			continue;
		if (accepted != -EAGAIN && !((accepted == -EMFILE || accepted == -ENFILE) &&
					     evict_idle(listener->server, NULL)))
			pause_accepting(listener->server);
		break;
	}
	grpc_listener_release(listener);
}

int grpc_server_listen(struct grpc_server *server, int fd, struct grpc_tls *tls,
		       void *listener_data, int *ret_id)
{
	struct grpc_listener *listener;
	int r, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	r = loop_source_new(server->loop, fd, EPOLLIN, listener_event, listener, &listener->source);
	if (r < 0) {
		free(listener);
		return r;
	}
	listener->server = server;
	listener->id = ++server->last_id;
	listener->fd = fd;
	listener->tls = tls ? grpc_tls_ref(tls) : NULL;
	listener->data = listener_data;
	listener->n_holds = 1;
	listener->next = server->listeners;
	server->listeners = listener;
	if (ret_id)
		*ret_id = listener->id;
	return 0;
}

void grpc_listener_release(struct grpc_listener *listener)
{
	struct grpc_server *server = listener->server;

	if (--listener->n_holds)
		return;
	grpc_tls_free(listener->tls);
	if (server->service.options.unlistened)
		server->service.options.unlistened(listener->data, server->service.options.data);
	free(listener);
}

void grpc_server_set_tls(struct grpc_server *server, int id, struct grpc_tls *tls)
{
	for (struct grpc_listener *listener = server->listeners; listener;
	     listener = listener->next)
		if (listener->id == id) {
			grpc_tls_free(listener->tls);
			listener->tls = grpc_tls_ref(tls);
		}
	/* Whose certificate is not valid any more cannot connect again. */
	for (struct grpc_connection *c = server->connections; c; c = c->next)
		if (c->listener->id == id)
			grpc_connection_drain(c);
}

void grpc_server_each(struct grpc_server *server, bool (*each)(int fd, void *peer, void *data),
		      void *data)
{
	struct grpc_connection *c, *next;

	for (c = server->connections; c; c = next) {
		next = c->next;
		if (!each(grpc_transport_fd(c->transport), c->peer, data))
			grpc_connection_close(c);
	}
}

void grpc_server_unlisten(struct grpc_server *server, int id)
{
	struct grpc_listener **link = &server->listeners, *listener;

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	listener = *link;
	if (!listener)
		return;
	*link = listener->next;
	loop_source_free(listener->source);
	listener->fd = safe_close(listener->fd);
	for (struct grpc_connection *c = server->connections; c; c = c->next)
		if (c->listener == listener)
			grpc_connection_drain(c);
	grpc_listener_release(listener);
}

static void report_stopped(void *data)
{
	struct grpc_server *server = data;

	server->stopped(server->stopped_data);
}

void grpc_server_disconnected(struct grpc_server *server)
{
	if (server->stopping && !server->connections)
		loop_timer_set(server->stop_timer, 0);
}

void grpc_server_stop(struct grpc_server *server, void (*stopped)(void *data), void *data)
{
	server->stopping = true;
	server->stopped = stopped;
	server->stopped_data = data;
	while (server->listeners)
		grpc_server_unlisten(server, server->listeners->id);
	for (struct grpc_connection *c = server->connections; c; c = c->next)
		grpc_connection_drain(c);
	grpc_server_disconnected(server);
}

bool grpc_server_has_service(const struct grpc_server *server, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < server->service.options.n_methods; i++) {
		const char *path = server->service.options.methods[i].path;

		if (!strncmp(path + 1, name, n) && path[1 + n] == '/')
			return true;
	}
	return false;
}
