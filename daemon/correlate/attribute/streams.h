/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by the objects that gRPC's library has for streams. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/spans.h"
#include "lib/base/map.h"

struct correlator;
struct entry;

#define NO_STREAM UINT32_MAX

/* A stream of a server. */
struct library_stream {
	uint64_t begin_ns;   /* its object was made */
	uint64_t end_ns;     /* its answer was passed to it completely; 0: it was not */
	uint64_t aborted_ns; /* it was aborted, or its process ended, before that time at the
				latest; 0: as far as known, it was not */
	uint32_t process, transport, stream;
	uint32_t end_thread; /* that passed the answer's end; THREAD_NONE */
	uint32_t request;    /* at a socket, which its thread had read before: index + 1; 0: none */
	bool at_socket;      /* its connection was read at a socket */
};

/* Zeros at first. */
struct streams {
	struct transport *transports;
	struct stream_object *objects;
	struct handed_run *runs;
	struct thread_streams *threads; /* beside the timeline's */
	uint64_t transports_size, objects_size, runs_size, threads_size;
	uint32_t n_transports, n_objects, n_runs;
	struct shares shares; /* of objects */
	uint64_t n_left_out;  /* objects */
	uint32_t first_open;  /* no object before this one is in progress */
	uint64_t until_ns;    /* streams are not observed after that time; 0: they are */
	/* After streams_match(), by connection: the transport's index + 1. */
	uint32_t *transport_of, n_matched;
	struct map transport_at, object_at; /* by address */
	struct map connections; /* those that the library has, or may have, a transport for */
};

/* An object is made for a stream. */
void streams_open(struct correlator *c, const struct entry *e);
/* The thread uses a stream: the index of its object, if its answer is now passed completely;
 * NO_STREAM. */
uint32_t streams_point(struct correlator *c, const struct entry *e);
/* A thread read the begin of a request from a socket. */
void streams_on_read(struct correlator *c, uint32_t thread, uint32_t request);
/* A thread wrote header fields of a stream to a connection. */
void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection,
			uint32_t stream);
/* A thread entered an outermost run. */
void streams_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* The request of the object with that index, as far as its connection is known; NO_REQUEST. */
uint32_t streams_request(const struct correlator *c, uint32_t object);
/* The process has ended, or become another program: so have its streams. */
void streams_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* Streams are not observed after that time. */
void streams_end(struct correlator *c, uint64_t time);
/* Until when they were; UINT64_MAX: to the window's end. */
uint64_t streams_until(const struct correlator *c);
/* The window has closed: finds the connections of transports. */
void streams_match(struct correlator *c);
/* When the first one began that is in progress, of those of encrypted connections, as far as known;
 * UINT64_MAX: there is none. */
uint64_t streams_oldest_open(struct correlator *c);
/* Streams that were left out for lack of room. */
uint64_t streams_left_out(const struct correlator *c);
uint32_t streams_count(const struct correlator *c);
/* What is known of the object with that index, after streams_match(). */
struct library_stream streams_get(const struct correlator *c, uint32_t object);
/* The connection has been found to be that of a transport. */
bool streams_has_connection(const struct correlator *c, uint32_t connection);
/* The object is of a request that was not read at a socket. */
void streams_set_request(struct correlator *c, uint32_t object, uint32_t request);
/* Runs get their requests where those are known by the streams. */
void streams_close(struct correlator *c);
void streams_done(struct streams *s);
