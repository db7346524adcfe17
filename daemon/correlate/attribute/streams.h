/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by the objects that gRPC's library has for streams. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct streams {
	struct transport *transports;
	struct stream_object *objects;
	struct handed_run *runs;
	struct thread_streams *threads; /* beside the timeline's */
	uint64_t transports_size, objects_size, runs_size, threads_size;
	uint32_t n_transports, n_objects, n_runs;
	struct map transport_at, object_at; /* by address */
	struct map connections; /* those that the library has, or may have, a transport for */
};

/* An object is made for a stream. */
void streams_open(struct correlator *c, const struct entry *e);
/* The thread uses a stream. */
void streams_point(struct correlator *c, const struct entry *e);
/* A thread wrote header fields of a stream to a connection. */
void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection,
			uint32_t stream);
/* A thread entered an outermost run. */
void streams_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* The request of the object with that index, as far as its connection is known; NO_REQUEST. */
uint32_t streams_request(const struct correlator *c, uint32_t object);
/* The window has closed: runs get their requests where those are known by the streams. */
void streams_close(struct correlator *c);
void streams_done(struct streams *s);
