/*
 * One connection of a server: its socket, its HTTP/2 session and the limits on what a peer may do. What the
 * streams mean is in call.h.
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/loop.h"
#include "lib/grpc/server.h"

struct grpc_listener {
	struct grpc_server *server;
	struct grpc_listener *next;
	int id;
	int fd; /* -1: closed, and kept for its connections */
	struct loop_source *source;
	void *data;
	unsigned n_holds; /* connections, and the accept loop */
};

struct grpc_server {
	struct loop *loop;
	struct grpc_server_options options;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *session_options;
	struct grpc_listener *listeners;
	int last_id;
	struct grpc_connection *connections;
	unsigned n_connections;
	uint64_t buffered; /* bytes of requests that are not complete */
	struct loop_timer *resume_timer;
	struct loop_timer *stop_timer;
	bool stopping;
	void (*stopped)(void *data);
	void *stopped_data;
};

/* Bytes on their way to the socket. */
struct grpc_output {
	uint8_t *bytes;
	size_t start, end, allocated;
};

struct grpc_connection {
	struct grpc_server *server;
	struct grpc_listener *listener;
	struct grpc_connection *next, **link;
	struct grpc_call *calls;
	int fd;
	struct loop_source *source;
	struct loop_timer *timer;
	nghttp2_session *session;
	void *peer;

	struct grpc_output output;
	int64_t budget;  /* bytes that this visit may still write */
	bool in_event;   /* what is submitted now is written before the event ends */
	bool blocked;    /* the socket takes no more */
	bool paused;     /* the session has more to say than this visit may write */
	bool failed;     /* close it as soon as no callback of the session runs */
	bool settled;    /* the client's SETTINGS came */
	bool draining;   /* told to go away; the last stream id follows */
	bool final;      /* told the last stream id */
	bool closing;    /* told to go away for misbehaviour: only flush */
	bool final_sent; /* the GOAWAY of final or closing is in the output */
	bool lingering;  /* all is said; the end of its stream is awaited, so that it reads what was sent */

	uint64_t settle_by, drain_by, linger_by;
	uint64_t progress_ns; /* when the socket last took bytes, or first refused to */
	uint64_t idle_ns;     /* since when there is no call */
	uint64_t ping_ns;     /* when the last ping came; 0: none since something was sent */
	unsigned ping_strikes;
	uint64_t reset_ns; /* when the tokens were last filled up */
	unsigned reset_tokens;
};

/* The callbacks and options of every session. -ENOMEM. */
int grpc_connection_setup(struct grpc_server *server);

/*
 * Takes the descriptor on success; links the connection to its server and listener. -ENOMEM, or an error of
 * epoll_ctl.
 */
int grpc_connection_new(struct grpc_listener *listener, int fd, void *peer, struct grpc_connection **ret);
/* Drops the connection and everything on it at once. Not from within a callback of a session. */
void grpc_connection_close(struct grpc_connection *connection);
/* Lets calls in flight finish, and then closes. */
void grpc_connection_drain(struct grpc_connection *connection);
/* Something was submitted to the session, or the connection failed: see to it from the loop. */
void grpc_connection_wake(struct grpc_connection *connection);

/* For the connection, when it closed: in server.c. */
void grpc_server_disconnected(struct grpc_server *server);
void grpc_listener_release(struct grpc_listener *listener);
