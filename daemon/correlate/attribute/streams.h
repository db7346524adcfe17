/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of, by the objects that gRPC's library has for streams. */
#pragma once

#include "daemon/correlate/correlator.h"

void streams_done(struct streams *s);

/* ROLE_STREAM_BEGIN and ROLE_STREAM_OPERATIONS. */
void streams_on_begin(struct correlator *c, const struct record_probe2 *r);
/* streams.c */
void streams_on_operations(struct correlator *c, uint32_t thread, const struct record_probe2 *r);
/* A thread wrote header fields of a stream to a connection. */
void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection,
			uint32_t stream);
/* A thread entered an outermost run. */
void streams_on_run(struct thread_requests *t, uint64_t span);
/* The window has closed: says whose the runs are of which that is known. */
void streams_close(struct correlator *c);
