/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's end of one connection without its socket: the HTTP/2 session, its calls, and the
 * limits on what a peer may do. Bytes in, bytes out; the clock is passed in. The meaning of a
 * stream is in call.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/grpc/http2.h"
#include "lib/grpc/server.h"

/* What the sessions of a server have in common. */
struct grpc_service {
	struct grpc_server_options options;
	uint64_t (*clock)(void); /* ns, never decreasing */
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *session_options;
	uint64_t buffered; /* bytes of incomplete requests, of all sessions */
	uint64_t waiting;  /* bytes of answers that clients have not accepted, likewise */
};

struct grpc_session {
	struct grpc_http2 http2;
	struct grpc_service *service;
	struct grpc_call *calls;
	uint64_t buffered; /* bytes of incomplete requests */
	/* Something was submitted, or the session failed, outside the functions below. */
	void (*wake)(void *owner);
	void *owner;

	bool in_visit; /* one of the functions below is running */
	bool settled;  /* the client's SETTINGS arrived */
	bool draining; /* GOAWAY was sent; the last stream id follows */
	bool final;    /* the last stream id was sent */
	/* GOAWAY was sent because the peer misbehaved: only flush. */
	bool closing;

	uint64_t settle_by, drain_by;
	/* When bytes were last written, or began to wait. */
	uint64_t progress_ns;
	uint64_t idle_ns; /* since when there has been no call */
	/* When the last ping arrived; 0: none since something was sent. */
	uint64_t ping_ns;
	unsigned ping_strikes;
	uint64_t reset_ns; /* when the tokens were last replenished */
	unsigned reset_tokens;
};

/* Zero fields of the options become the defaults. -ENOMEM. */
int grpc_service_init(struct grpc_service *service, const struct grpc_server_options *options,
		      uint64_t (*clock)(void));
void grpc_service_clear(struct grpc_service *service);

/* Whether a client that has accepted no byte since then is too slow; when to look again. */
bool grpc_service_has_stalled(const struct grpc_service *service, uint64_t since_ns);
uint64_t grpc_service_stalls_at(const struct grpc_service *service, uint64_t since_ns);

/* wake(owner): see above. -ENOMEM. */
int grpc_session_init(struct grpc_session *session, struct grpc_service *service,
		      void (*wake)(void *owner), void *owner);
/* Drops everything at once: the cancel functions of unanswered calls are called. Not from within
 * one of its callbacks. */
void grpc_session_clear(struct grpc_session *session);

/* Processes bytes that arrived. -EPROTO: the connection is useless. */
int grpc_session_receive(struct grpc_session *session, const uint8_t *bytes, size_t size);
/*
 * Sets pieces that are to be written, as grpc_output_peek(); *ret_size 0: there are none at
 * present. -EPROTO, -ENOMEM: the connection is useless.
 */
int grpc_session_output(struct grpc_session *session, struct iovec iov[static GRPC_OUTPUT_PIECES],
			size_t *ret_n, size_t *ret_size);
/* The first size bytes of those were written. */
void grpc_session_written(struct grpc_session *session, size_t size);
/* When grpc_session_tick() has something to do; LOOP_NEVER: never. */
uint64_t grpc_session_due(const struct grpc_session *session);
/* Does what is due. -ETIMEDOUT: the peer was silent for too long, -EPROTO. */
int grpc_session_tick(struct grpc_session *session);
/* Lets calls in flight finish and accepts no more. */
void grpc_session_drain(struct grpc_session *session);
/* Whether neither side has more to send, once the output is empty. */
bool grpc_session_over(const struct grpc_session *session);

/* For call.c: bytes of answers that wait for the client to accept them, and of how many calls. */
uint64_t grpc_session_queued(const struct grpc_session *session, unsigned *ret_n);
/* For call.c: the client leaves so many answers on this connection that it gets no more of them. */
bool grpc_session_is_unread(const struct grpc_session *session);
/* For call.c: something was submitted to the session, or it failed. */
void grpc_session_wake(struct grpc_session *session);
