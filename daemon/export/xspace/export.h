/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline as an XSpace, with the names, stats and nesting that the runtime's own profiler would
 * have written, so that every page of TensorBoard's Profile plugin reads it. Pure: memory in,
 * memory out.
 *
 *   /host:CPU            a line per lane of requests: each with its phases; a line per thread:
 *                        runs, their pieces, batches, operations, and what the thread waited for;
 *                        counters; how each process came to serve
 *   /device:CUSTOM:sched a line per CPU: which thread ran (level 3)
 *   /host:metadata       XLA's modules, when there are any
 *   /device:TPU:0        with device_plane: a line per thread with its operations, in the form of
 *                        a device
 *   Task Environment     when the window was, in Unix time
 *
 * What a host_tracer_level shows: 0 nothing; 1 requests with their phases, runs, batches; 2 also
 * what is inside the phases, pieces of runs, operations that are not cheap, and time off CPU; 3
 * everything. Warnings and errors are there at every level, with one more when there is no event
 * to show.
 */
#pragma once

#include "daemon/export/exporter.h"
#include "daemon/export/xspace/xspace.h"

/*
 * Encodes the timeline. The caller owns ret, xspace_result_done() frees it, and it does not refer
 * to the timeline; ret->n_events is 0 if there was nothing to show. -ENOMEM; -EFBIG: the message
 * would be longer than max_bytes; a lower level makes it shorter.
 */
int export_xspace(const struct timeline *t, const struct export_options *options,
		  struct xspace_result *ret);

/* The same as one of the exporters. */
extern const struct exporter xspace_exporter;
