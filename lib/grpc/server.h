/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server over HTTP/2, unencrypted (prior knowledge) or under TLS (ALPN), on listening stream
 * sockets of any family, in the thread of one event loop. Methods take one message, or one after
 * the other, and answer with any number.
 *
 * All functions are called in the loop's thread, and may be called from the methods and hooks,
 * except grpc_server_free(). A worker thread hands its result over with loop_post(), and the posted
 * function answers.
 *
 * The life of a call: a struct grpc_call is valid from handle() until it is answered, that is until
 * grpc_call_reply(), grpc_call_finish() or grpc_call_fail() is called on it, or until the function
 * given to grpc_call_on_cancel() returned, whichever comes first. A call without such a function
 * stays valid after its client has disconnected, and still has to be answered (the answer is then
 * dropped); a call of a method that takes many messages ends with its client.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/loop.h"
#include "lib/base/share.h"
#include "lib/grpc/body.h"
#include "lib/grpc/status.h"
#include "lib/grpc/tls.h"

struct grpc_server;
struct grpc_call;

struct grpc_method {
	const char *path; /* "/package.Service/Method" */
	/*
	 * Called with the whole request, already decompressed; message (never NULL) is valid until
	 * it returns. Answers the call, now or later.
	 */
	void (*handle)(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
	/* Called with each message as it arrives, and with NULL when the client has sent all,
	 * unless the call was ended before that. */
	bool takes_many;
};

/* A zero field means the default. */
struct grpc_server_options {
	const struct grpc_method *methods; /* must live as long as the server */
	size_t n_methods;
	void *data; /* passed to the methods and hooks */

	/*
	 * Accepts the next waiting connection of the listener, and sets what grpc_call_peer()
	 * returns: its non-blocking descriptor, which the server then owns; -EAGAIN if there is
	 * none, -EACCES for one that is not permitted and was closed, another negative errno on
	 * failure. NULL: accept4(2).
	 */
	int (*accept)(int listener_fd, void *listener_data, void *data, void **ret_peer);
	/* Called when the headers of a call have arrived: why the client may not call anything,
	 * NULL: it may. May be NULL. */
	const char *(*refuse)(struct grpc_call *call, void *data);
	/* The connection that accept() returned is closed and its calls are over or detached. May
	 * be NULL. */
	void (*released)(void *peer, void *data);
	/* The user at the other end, whose share of the connections is counted; NULL: all are
	 * root's. */
	uid_t (*user)(void *peer, void *data);
	/* A connection is closed because neither the user's share nor the reserve had room for it;
	 * released() follows. Returns a sentence for the client, who gets it unless it uses TLS.
	 * May be NULL. */
	const char *(*crowded)(void *peer, enum share_verdict verdict, void *data);
	/*
	 * Who the connection that accept() returned belongs to: all connections of one number share
	 * half of the loop's time. 0: it never waits. NULL: none does.
	 */
	uint64_t (*account)(void *peer, void *data);
	/*
	 * The listener is closed and has no connections left, so listener_data is no longer used.
	 * May be NULL.
	 */
	void (*unlistened)(void *listener_data, void *data);

	size_t max_message; /* bytes of one request, also decompressed: 4 MiB */
	/* Bytes of all incomplete requests: 64 MiB. Beyond that a connection may still have 64
	 * KiB. */
	size_t max_buffered;
	/* Bytes of answers that clients have not accepted, 64 MiB: beyond that a client may accept
	 * nothing for 10 s only. */
	size_t max_waiting;
	/* 256, shared as share.h describes; the connection that is idle longest makes room for a
	 * new one: if the user's share is held, one of this user. */
	unsigned max_connections;
	unsigned max_user_connections; /* max_connections */
	unsigned max_streams;          /* calls of one connection at once: 100 */
	uint64_t handshake_ns;         /* from accept to the client's SETTINGS: 10 s */
	uint64_t request_ns;           /* from the first byte of a request to its last: 30 s */
	/* Without the client accepting a byte of what waits for it: 60 s. */
	uint64_t stall_ns;
	/* Between pings of a client to which nothing was sent meanwhile: 10 s. */
	uint64_t ping_ns;
	uint64_t idle_ns; /* without a call, before the connection is closed: 10 min */
};

/* options are copied. -ENOMEM, or an error of the loop. */
int grpc_server_new(struct loop *loop, const struct grpc_server_options *options,
		    struct grpc_server **ret);
/*
 * Closes everything at once: the cancel functions of unanswered calls and the hooks are called. Not
 * from within one of the server's methods or hooks. A call without a cancel function still has to
 * be answered, so that its memory is freed.
 */
struct grpc_server *grpc_server_free(struct grpc_server *server);

/*
 * Serves the connections of a listening socket (made non-blocking here), which the server owns on
 * success. tls: NULL for unencrypted; the caller still owns it. listener_data: see accept() and
 * grpc_call_listener(). Fails with -ENOMEM, or an error of fcntl or epoll_ctl.
 */
int grpc_server_listen(struct grpc_server *server, int fd, struct grpc_tls *tls,
		       void *listener_data, int *ret_id);
/* Whether one of its methods belongs to the service of this name, "package.Service". */
bool grpc_server_has_service(const struct grpc_server *server, const char *name);
/* The listener's next connections use this, and the present ones end after their calls; unknown ids
 * are ignored. */
void grpc_server_set_tls(struct grpc_server *server, int id, struct grpc_tls *tls);
/* Calls the function for each connection, with its descriptor and what accept() set; those for
 * which it returns false are closed at once. */
void grpc_server_each(struct grpc_server *server, bool (*each)(int fd, void *peer, void *data),
		      void *data);
/*
 * Closes the listener. Its connections are sent a GOAWAY; calls in flight are finished.
 * unlistened() is called after the last of them, or at once, before this returns. Unknown ids are
 * ignored.
 */
void grpc_server_unlisten(struct grpc_server *server, int id);

/*
 * Closes the listeners, lets the calls in flight finish, and calls stopped(data), from the loop,
 * when no connection is left. grpc_server_free() may be called before that (stopped is then not
 * called) or in it.
 */
void grpc_server_stop(struct grpc_server *server, void (*stopped)(void *data), void *data);

/*
 * Sends the message and the status OK: the answer of a unary call. Takes ownership of the body. A
 * body above GRPC_MESSAGE_MAX becomes the status RESOURCE_EXHAUSTED.
 */
void grpc_call_reply(struct grpc_call *call, struct grpc_body *body);
/*
 * Sends one message of a stream; the call stays open. Takes ownership of the body, also on failure:
 * -EMSGSIZE if it is above GRPC_MESSAGE_MAX, -ECANCELED if the client has disconnected.
 */
int grpc_call_send(struct grpc_call *call, struct grpc_body *body);
/* Ends the call, after the messages sent before. message (UTF-8, may be NULL) is for the client's
 * user. */
void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message);
/* grpc_call_finish() with a format; messages are truncated to about 1,000 bytes. */
__attribute__((format(printf, 3, 4))) void grpc_call_fail(struct grpc_call *call,
							  enum grpc_status status,
							  const char *format, ...);

/*
 * Makes cancelled(data) be called, once, from the loop, when the client cancels, its connection
 * drops or the deadline passes before the call is answered. It does not answer the call: the server
 * does, if the client is still connected. NULL removes the function. -ECANCELED if it is too late:
 * the client has disconnected, and the call has to be answered.
 */
int grpc_call_on_cancel(struct grpc_call *call, void (*cancelled)(void *data), void *data);
/* Whether the client no longer waits for the answer; only ever true for a call without a cancel
 * function. */
bool grpc_call_cancelled(const struct grpc_call *call);

/* What accept() set for the connection; NULL if the client has disconnected. */
void *grpc_call_peer(const struct grpc_call *call);
/* listener_data of the connection's listener; NULL if the client has disconnected. */
void *grpc_call_listener(const struct grpc_call *call);
/* The subject of the client's certificate (RFC 2253); NULL: none, or the client has
 * disconnected. */
const char *grpc_call_subject(const struct grpc_call *call);
/* The names in its certificate, as grpc_transport_name(). */
const char *grpc_call_certified_name(const struct grpc_call *call, unsigned i);
/* The client's deadline, in ns of loop_now(); LOOP_NEVER if it set none. */
uint64_t grpc_call_deadline(const struct grpc_call *call);
/* The bytes that were passed to grpc_call_send() and wait for the client to accept them. */
uint64_t grpc_call_queued(const struct grpc_call *call);
/* Likewise, for all calls on its connection. */
uint64_t grpc_call_queued_beside(const struct grpc_call *call);
