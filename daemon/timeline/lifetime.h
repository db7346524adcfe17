/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each request's time went. Its latency is divided at its boundaries (its bytes were read,
 * its runs began and ended, its answer was written), and within its runs along the critical path:
 * what did it wait for at each moment, on which thread?
 */
#pragma once

#include "daemon/timeline/timeline.h"

/* Segments of all requests: below 512 MiB. Each request has at most PATH_SEGMENTS_MAX. */
#define LIFETIME_SEGMENTS_MAX (16u << 20)

/*
 * Fills phases, first_segment, n_segments and run_thread of all requests, and the timeline's
 * segments (existing ones are replaced). timeline_finish() has run; the requests have their times
 * (ns) and threads, runs their request, and batches and their tasks exist. Times that are unknown
 * or out of order are moved between known ones: segments are in order, none is empty, they begin at
 * start_ns and end at end_ns, and phases are their sums. A request that ends before it starts has
 * no segment.
 *
 * Without scheduler records, execution is PHASE_EXECUTE, apart from batches. run_thread of a
 * request without runs is THREAD_NONE, unless it is that of a handler or mark, which stays as it
 * is. -ENOMEM; -E2BIG: more spans or batch tasks than can be numbered.
 */
int lifetime_make(struct timeline *t);
