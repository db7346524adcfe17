/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of a server in its event loop: the socket on one side, the session on the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/loop.h"
#include "lib/grpc/account.h"
#include "lib/grpc/server.h"
#include "lib/grpc/session.h"
#include "lib/grpc/transport.h"

struct grpc_listener {
	struct grpc_server *server;
	struct grpc_listener *next;
	int id;
	int fd; /* -1: closed, and kept for its connections */
	struct grpc_tls *tls;
	struct loop_source *source;
	void *data;
	unsigned n_holds; /* connections, and the accept loop */
};

struct grpc_server {
	struct loop *loop;
	struct grpc_service service;
	struct grpc_listener *listeners;
	int last_id;
	struct grpc_connection *connections;
	unsigned n_connections;
	struct grpc_account *accounts;
	struct loop_timer *resume_timer;
	struct loop_timer *stop_timer;
	bool stopping;
	void (*stopped)(void *data);
	void *stopped_data;
};

struct grpc_connection {
	struct grpc_server *server;
	struct grpc_listener *listener;
	struct grpc_connection *next, **link;
	struct grpc_session session;
	struct grpc_transport *transport;
	struct loop_source *source;
	struct loop_timer *timer;
	void *peer;
	uid_t user;
	struct grpc_account *account; /* NULL: it never waits */
	bool ready;                   /* the handshake of the transport is complete */
	/* Everything is sent; waits for the end of the peer's stream, so that the peer reads it
	 * all. */
	bool lingering;
	uint64_t linger_by;
};

/*
 * Takes ownership of the descriptor on success; links the connection to its server and listener.
 * -ENOMEM, or an error of epoll_ctl.
 */
int grpc_connection_new(struct grpc_listener *listener, int fd, void *peer, uid_t user,
			struct grpc_connection **ret);
/* Drops the connection and everything on it at once. Not from within a callback of a session. */
void grpc_connection_close(struct grpc_connection *connection);
/* Lets calls in flight finish, and then closes. */
void grpc_connection_drain(struct grpc_connection *connection);

/* Called by a connection that has closed; in server.c. */
void grpc_server_disconnected(struct grpc_server *server);
void grpc_listener_release(struct grpc_listener *listener);
