/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/grpc/call.h"

/* The size of a TLS record: if less was read, the socket has no more. */
#define READ_SIZE 16384
#define READS_PER_VISIT 4
/* More than this at once would delay other connections. */
#define WRITE_BUDGET (2 << 20)
#define LINGER_NS 1000000000ull

/* Whether the client has used its share of the loop: its bytes stay in the socket for now. */
static bool connection_waits(const struct grpc_connection *connection)
{
	return connection->account && grpc_account_ready_at(connection->account) > loop_now();
}

/* Sets the timer to the next moment at which something has to be decided. */
static void connection_arm(struct grpc_connection *connection)
{
	uint64_t at = connection->lingering ? connection->linger_by
					    : grpc_session_due(&connection->session);

	if (!connection->lingering && connection_waits(connection))
		at = MIN(at, grpc_account_ready_at(connection->account));
	if (at != loop_timer_at(connection->timer))
		loop_timer_set(connection->timer, at);
}

/* Ends this side, so that the peer reads all that was sent, and waits for the end of the peer's
 * side. */
static void connection_linger(struct grpc_connection *connection)
{
	connection->lingering = true;
	connection->linger_by = loop_now() + LINGER_NS;
	grpc_transport_end(connection->transport);
}

/* Writes the session's output, as much as the socket accepts without delaying other connections.
 * *ret_idle: nothing is left. */
static int connection_write(struct grpc_connection *connection, bool *ret_idle)
{
	struct iovec iov[GRPC_OUTPUT_PIECES];

	*ret_idle = false;
	for (size_t budget = WRITE_BUDGET; budget;) {
		size_t n_iov, size;
		ssize_t n;
		int r = grpc_session_output(&connection->session, iov, &n_iov, &size);

		if (r < 0)
			return r;
		*ret_idle = !size;
		if (!size)
			return 0;
		n = grpc_transport_write(connection->transport, iov, n_iov);
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		grpc_session_written(&connection->session, (size_t)n);
		if ((size_t)n < size)
			return 0;
		budget -= MIN(budget, (size_t)n);
	}
	return 0;
}

/* The CPU time of this thread: if it has to wait for a CPU, that is not the client's doing. */
static uint64_t time_used(void)
{
	return clock_now(CLOCK_THREAD_CPUTIME_ID);
}

static void connection_charge(struct grpc_connection *connection, uint64_t begun)
{
	if (connection->account)
		grpc_account_charge(connection->account, loop_now(), time_used() - begun);
}

static int connection_read(struct grpc_connection *connection)
{
	uint8_t buffer[READ_SIZE];

	for (int i = 0; i < READS_PER_VISIT; i++) {
		uint64_t begun = time_used();
		ssize_t n = grpc_transport_read(connection->transport, buffer, sizeof(buffer));
		int r = 0;

		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		if (n == 0)
			return -ECONNRESET;
		if (!connection->lingering)
			r = grpc_session_receive(&connection->session, buffer, (size_t)n);
		connection_charge(connection, begun);
		if (r < 0 || n < READ_SIZE || connection_waits(connection))
			return r;
	}
	return 0;
}

static int connection_handshake(struct grpc_connection *connection)
{
	uint64_t begun = time_used();
	int r;

	if (connection->ready)
		return 0;
	r = grpc_transport_handshake(connection->transport);
	connection_charge(connection, begun);
	connection->ready = r == 0;
	return r;
}

/* Reads and writes what is possible; a negative value means that the connection is over. */
static int connection_visit(struct grpc_connection *connection, uint32_t events)
{
	bool waits = connection_waits(connection), idle = false;
	uint32_t wanted = waits ? 0 : EPOLLIN;
	int r = 0;

	/* The client has gone, which epoll would report again and again. */
	if (waits && events & (EPOLLHUP | EPOLLERR))
		return -ECONNRESET;
	if (!waits)
		r = connection_handshake(connection);
	if (r == -EAGAIN)
		return loop_source_set(connection->source,
				       grpc_transport_wants_write(connection->transport) ? EPOLLOUT
											 : EPOLLIN);
	if (r == 0 && !connection->ready)
		return loop_source_set(connection->source, 0);
	if (r == 0 && !waits && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		r = connection_read(connection);
	if (r == 0 && !connection->lingering)
		r = connection_write(connection, &idle);
	if (r < 0)
		return r;
	if (idle && !connection->lingering && grpc_session_over(&connection->session))
		connection_linger(connection);
	if (!idle && !connection->lingering)
		wanted |= EPOLLOUT;
	return loop_source_set(connection->source, wanted);
}

static void connection_event(int fd, uint32_t events, void *data)
{
	struct grpc_connection *connection = data;

	if (connection_visit(connection, events) < 0)
		grpc_connection_close(connection);
	else
		connection_arm(connection);
}

static void connection_timer(void *data)
{
	struct grpc_connection *connection = data;

	if (connection->lingering || grpc_session_tick(&connection->session) < 0)
		grpc_connection_close(connection);
	else
		connection_event(-1, 0, connection);
}

/* From within a method or a hook: the loop handles the session. */
static void connection_wake(void *data)
{
	struct grpc_connection *connection = data;

	/* Even if the socket accepts nothing at the moment: the timeout of waiting output starts
	 * now. */
	if (connection->session.http2.failed || (connection->ready && !connection->lingering))
		loop_timer_set(connection->timer, 0);
}

void grpc_connection_drain(struct grpc_connection *connection)
{
	grpc_session_drain(&connection->session);
	connection_arm(connection);
}

/*
 * Sends without delay, and finds vanished peers within two minutes. Sockets other than TCP refuse
 * this.
 */
static void connection_tune(int fd)
{
	static const struct {
		int level, option, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 }, { IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		setsockopt(fd, options[i].level, options[i].option, &options[i].value,
			   sizeof(options[i].value));
}

static int connection_join(struct grpc_connection *connection)
{
	struct grpc_server *server = connection->server;
	const struct grpc_server_options *options = &server->service.options;
	uint64_t id = options->account ? options->account(connection->peer, options->data) : 0;

	if (!id)
		return 0;
	connection->account = grpc_account_join(&server->accounts, id, loop_now());
	return connection->account ? 0 : -ENOMEM;
}

static void connection_leave(struct grpc_connection *connection)
{
	if (connection->account)
		grpc_account_leave(connection->account);
}

int grpc_connection_new(struct grpc_listener *listener, int fd, void *peer, uid_t user,
			struct grpc_connection **ret)
{
	struct grpc_server *server = listener->server;
	struct grpc_connection *connection = calloc(1, sizeof(*connection));
	int r;

	if (!connection)
		return -ENOMEM;
	connection->server = server;
	connection->listener = listener;
	connection->peer = peer;
	connection->user = user;
	r = connection_join(connection);
	if (r < 0)
		goto fail;
	r = grpc_session_init(&connection->session, &server->service, connection_wake, connection);
	if (r < 0)
		goto fail;
	r = loop_timer_new(server->loop, connection_timer, connection, &connection->timer);
	if (r < 0)
		goto fail;
	r = loop_source_new(server->loop, fd, EPOLLIN | EPOLLOUT, connection_event, connection,
			    &connection->source);
	if (r < 0)
		goto fail;
	r = grpc_transport_new(fd, listener->tls, NULL, &connection->transport);
	if (r < 0)
		goto fail;
	connection_arm(connection);
	connection_tune(fd);

	listener->n_holds++;
	server->n_connections++;
	connection->next = server->connections;
	connection->link = &server->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	server->connections = connection;
	*ret = connection;
	return 0;
fail:
	loop_source_free(connection->source);
	loop_timer_free(connection->timer);
	grpc_session_clear(&connection->session);
	connection_leave(connection);
	free(connection);
	return r;
}

void grpc_connection_close(struct grpc_connection *connection)
{
	struct grpc_server *server = connection->server;

	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	grpc_session_clear(&connection->session);
	loop_source_free(connection->source);
	loop_timer_free(connection->timer);
	grpc_transport_free(connection->transport);
	connection_leave(connection);
	if (server->service.options.released)
		server->service.options.released(connection->peer, server->service.options.data);
	grpc_listener_release(connection->listener);
	free(connection);
	server->n_connections--;
	grpc_server_disconnected(server);
}

static struct grpc_connection *connection_of(const struct grpc_call *call)
{
	return call->session ? call->session->owner : NULL;
}

void *grpc_call_peer(const struct grpc_call *call)
{
	const struct grpc_connection *connection = connection_of(call);

	return connection ? connection->peer : NULL;
}

void *grpc_call_listener(const struct grpc_call *call)
{
	const struct grpc_connection *connection = connection_of(call);

	return connection ? connection->listener->data : NULL;
}

const char *grpc_call_certified_name(const struct grpc_call *call, unsigned i)
{
	const struct grpc_connection *connection = connection_of(call);

	return connection ? grpc_transport_name(connection->transport, i) : NULL;
}

const char *grpc_call_subject(const struct grpc_call *call)
{
	const struct grpc_connection *connection = connection_of(call);

	return connection ? grpc_transport_subject(connection->transport) : NULL;
}

uint64_t grpc_call_queued_beside(const struct grpc_call *call)
{
	unsigned n;

	return call->session ? grpc_session_queued(call->session, &n) : 0;
}
