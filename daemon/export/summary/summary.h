/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that a person reads first: how many runs, how long they took, and which operations
 * took the time. */
#pragma once

#include <stdint.h>

#include "daemon/export/summary/hot_functions.h"
#include "daemon/export/summary/memory_use.h"
#include "daemon/export/summary/op_estimates.h"
#include "daemon/export/summary/request_summary.h"
#include "daemon/timeline/timeline.h"

#define SUMMARY_OPS_MAX 20

struct summary_op {
	char *name;
	char *type; /* within the memory of name; "": unknown */
	uint64_t count;
	uint64_t total_ns;
	uint64_t self_ns; /* total_ns less operations nested in this one */
	/* If operations were recorded in two slices or more; the three numbers above are its
	 * estimates then. */
	struct op_estimate estimate;
};

/* Operations were recorded in a part of the window only. */
struct op_sampling {
	bool is_part; /* else everything is zero */
	uint32_t n_slices;
	uint64_t seen_ns; /* all slices together */
	/* Whole requests that lie in one slice, of which all operations were recorded, and those
	 * that are longer than every slice. */
	uint64_t n_requests_within, n_requests_longer;
};

struct summary {
	uint64_t window_ns;
	uint64_t n_runs;           /* that began and ended in the window */
	uint64_t n_runs_truncated; /* that did not */
	double runs_per_second;    /* that ended in the window, whether or not they began in it */
	/* Of the runs that began and ended in the window, nearest rank; 0: there is none. */
	uint64_t run_p50_ns, run_p99_ns;
	uint64_t n_ops; /* that were recorded */
	struct op_sampling sampling;
	struct summary_op top_ops[SUMMARY_OPS_MAX]; /* by self time, the largest first */
	unsigned int n_top_ops;
	uint64_t running_ns, runnable_ns, throttled_ns, blocked_ns;
	uint64_t n_lost_names;
	struct memory_use memory[ALLOCATOR_COUNT];
	struct request_summary requests;
	struct hot_places hot; /* of sampled stacks */
};

/* Summarizes a timeline; summary_done() frees what ret holds, which does not refer to the timeline.
 * -ENOMEM. */
int summary_make(const struct timeline *t, struct summary *ret);

/* Accepts a summary of zeros, or one that was freed before. */
void summary_done(struct summary *s);
