/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that pass through the sockets of the targets. */
#pragma once

#include "daemon/timeline/timeline.h"
#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

/* In place of a request's or connection's index. */
#define NO_REQUEST UINT32_MAX
/* 300 bytes each with what is kept beside it. */
#define REQUESTS_MAX (1u << 20)

/* What is kept beside a request of the timeline until the window closes. */
struct request_state {
	uint32_t connection; /* index */
	uint32_t
		next; /* http1.c: the next one of the connection that is not answered; NO_REQUEST */
	uint32_t ordinal; /* http1.c: its number on the connection */
	bool read, answering, answered, done;
	/* connections.c: the next one of the connection whose answer is in the socket; and the
	 * sequence number behind its answer. */
	uint32_t next_held, held_until;
	/* connections.c: sequence numbers of its first byte, if that is known, and of the first
	 * byte of its answer. */
	uint32_t first_at, answer_at;
	bool has_first;
	bool outlived;       /* contexts.c: by one of its contexts */
	bool ambiguous;      /* the runs that seem to be its work may be another request's */
	bool came_before;    /* its bytes may have come before the window */
	uint32_t came_until; /* the sequence number behind those that came with its first one */
	uint64_t since_ns;   /* losses of records after this time may affect it */
};

/* Zeros at first. */
struct requests {
	struct request *list; /* of the timeline, later */
	struct request_state *states;
	uint64_t size;
	uint32_t n;
	struct map of_stream;
	bool any[RECORD_MAX_TARGETS]; /* by process: there are any, at sockets or the library */
	uint32_t n_open[RECORD_MAX_TARGETS]; /* by process: those in progress */
	uint32_t first_open;                 /* none before this one is */
	uint64_t n_left_out;
};

static inline struct request *requests_get(const struct requests *r, uint32_t request)
{
	return &r->list[request];
}

static inline struct request_state *requests_state(const struct requests *r, uint32_t request)
{
	return &r->states[request];
}

static inline uint32_t requests_count(const struct requests *r)
{
	return r->n;
}

/* Until when what is done for a request is done before its answer. */
static inline uint64_t requests_answered_ns(const struct request *q)
{
	return q->write_start_ns ?: q->end_ns;
}

/* A new request on that connection; NO_REQUEST: no room. */
uint32_t requests_add(struct correlator *c, uint32_t connection, uint32_t process, uint64_t start);
/* The request is in progress no more. */
void requests_note_end(struct requests *r, uint32_t request);
/* A request that sockets do not show is in progress, and is no more. */
void requests_note_unread(struct requests *r, uint32_t process);
void requests_note_unread_end(struct requests *r, uint32_t process);
/* When the first one at a socket that is in progress began; UINT64_MAX: there is none. */
uint64_t requests_oldest_open(struct requests *r);
/* HTTP/2: the request has this stream of its connection. */
void requests_set_stream(struct correlator *c, uint32_t request, uint32_t stream);
/* The request of an HTTP/2 connection with this stream's number; NO_REQUEST. */
uint32_t requests_find_stream(const struct requests *r, uint32_t connection, uint32_t stream);
/* A handler, or a mark, has ended. If it is a request of its own, that one has finished. */
void requests_note_finished(struct correlator *c, uint64_t span);
/* Requests that were left out for lack of room. */
uint64_t requests_left_out(const struct requests *r);
/* Hands the requests over to the timeline. */
void requests_take(struct requests *r, struct timeline *t);
void requests_done(struct requests *r);
