/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical path of a request, told from its end back to its start: what did it wait for at each
 * moment? Whoever tells it goes from one boundary to the one before; each call fills the time
 * between with segments, without gap or overlap.
 */
#pragma once

#include "daemon/timeline/span_index.h"

/* Segments of one path; where there would be more, the rest of it is one of PHASE_UNKNOWN. */
#define PATH_SEGMENTS_MAX 65536
/* A run, within it a batch, within that a run, … */
#define PATH_DEPTH_MAX 8

/* A run, or a batch of several runs' tasks, whose work the path goes through. */
struct path_work {
	uint64_t start_ns;
	uint64_t queued_ns; /* of a batch: the run's task; 0: not known */
	uint32_t root;      /* of the spans that are its work, INDEX_NONE */
	uint32_t thread;    /* of its own, that waits for all others */
};

struct path {
	const struct span_index *index;
	struct segment *segments; /* the last one first */
	uint32_t n, max;
	uint64_t at; /* from here to the end all is told */
	uint32_t steps;
	uint32_t jumps; /* from thread to thread since something was told */
	bool full;
	/* While a run is told. */
	struct path_work work[PATH_DEPTH_MAX];
	unsigned int depth;
	uint32_t thread;      /* the one that the path is on */
	uint64_t piece_start; /* of its work for the top of .work */
};

/* A path with room for max segments, at least 1, in memory of the caller's, that ends at that time
 * (ns). */
void path_begin(struct path *p, const struct span_index *index, struct segment *segments,
		uint32_t max, uint64_t end_ns);
/* That phase lasted from that time on; what the thread (THREAD_NONE: not known) did is told as the
 * activity. */
void path_tell(struct path *p, enum phase phase, uint32_t thread, uint64_t from_ns);
/* From that time on the run went on: goes after what its thread waited for. */
void path_execute(struct path *p, const struct span *run, uint64_t from_ns);
/* The path starts at that time: what is still missing is PHASE_UNKNOWN. */
void path_end(struct path *p, uint64_t start_ns);
