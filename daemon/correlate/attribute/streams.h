/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by the objects that gRPC's library has for streams. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

void streams_done(struct streams *s);

/* An object is made for a stream. */
void streams_open(struct correlator *c, const struct entry *e);
/* The thread wants something of a stream. */
void streams_point(struct correlator *c, const struct entry *e);
/* streams.c */
/* A thread wrote header fields of a stream to a connection. */
void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection,
			uint32_t stream);
/* A thread entered an outermost run. */
void streams_on_run(struct thread_requests *t, uint64_t span);
/* The window has closed: says whose the runs are of which that is known. */
void streams_close(struct correlator *c);
