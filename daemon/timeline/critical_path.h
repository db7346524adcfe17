/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical path of a request, from its end back to its start: what did it wait for at each
 * moment? The caller goes from one boundary to the previous one; each call fills the time in
 * between with segments, without gap or overlap.
 */
#pragma once

#include "daemon/timeline/span_index.h"

/* Segments of one path; of a longer path, the beginning is one segment of PHASE_UNKNOWN. */
#define PATH_SEGMENTS_MAX 65536
/* A run, within it a batch, within that a run, … */
#define PATH_DEPTH_MAX 8

/* A run, or a batch of several runs' tasks, whose work the path goes through. */
struct path_work {
	uint64_t start_ns;
	uint64_t queued_ns; /* of a batch: the run's task; 0: unknown */
	uint32_t root;      /* of the spans that are its work, INDEX_NONE */
	uint32_t thread;    /* its own, which waits for all others */
};

struct path {
	const struct span_index *index;
	struct segment *segments; /* the last one first */
	uint32_t n, max;
	uint64_t at; /* the cursor: from here to the end the path is complete */
	uint32_t steps;
	uint32_t jumps; /* from thread to thread since the last segment */
	bool full;
	/* Within a run. */
	struct path_work work[PATH_DEPTH_MAX];
	unsigned int depth;
	uint32_t thread;      /* the one that the path is on */
	uint64_t piece_start; /* start of its piece of the work at the top of .work */
};

/* Begins a path that ends at that time (ns), with room for max segments, at least 1, in memory of
 * the caller. */
void path_begin(struct path *p, const struct span_index *index, struct segment *segments,
		uint32_t max, uint64_t end_ns);
/* The phase lasted from that time on: adds its segments, with what the thread (THREAD_NONE:
 * unknown) did as the activity. */
void path_fill(struct path *p, enum phase phase, uint32_t thread, uint64_t from_ns);
/* Of a run that hands its work over: the batch that does it, if one begins before that time: the
 * last of them; INDEX_NONE. */
uint32_t path_batch_after(const struct span_index *index, const struct span *run,
			  uint64_t before_ns);
/* The run, with such a batch, lasted from that time on: follows what its thread waited for. */
void path_execute(struct path *p, const struct span *run, uint64_t from_ns);
/* The path starts at that time: the rest is PHASE_UNKNOWN. */
void path_end(struct path *p, uint64_t start_ns);
