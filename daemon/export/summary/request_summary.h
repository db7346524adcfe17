/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a capture in numbers: how many, how long, and in which phases. Pure. */
#pragma once

#include <stdint.h>

#include "daemon/timeline/timeline.h"

#define REQUEST_MODELS_MAX 32

/* Nearest rank, in nanoseconds; zeros if there is nothing to rank. */
struct percentiles {
	uint64_t p50_ns, p90_ns, p99_ns, max_ns, sum_ns;
};

struct request_model {
	char *name;
	uint64_t count, p50_ns, p99_ns;
};

struct request_summary {
	/* Each request is counted once: as filtered, truncated, reset or lost, whichever applies
	 * first, else as whole. */
	uint64_t n_whole, n_truncated, n_reset, n_lost, n_filtered;
	uint64_t n_runs_exact, n_runs_inferred, n_runs_orphaned;
	/* Of whole requests; those without a phase count as 0. */
	struct percentiles latency, phases[PHASE_COUNT];
	struct request_model
		models[REQUEST_MODELS_MAX]; /* of whole requests, the most requests first */
	unsigned n_models;
	uint64_t n_models_left_out; /* requests of models beyond those */
	/* Batches whose processing began and ended in the window, the tasks in them, and those
	 * whose rows are known. */
	uint64_t n_batches, n_batch_tasks, n_batches_sized, batch_rows, batch_padded_rows;
};

/* The smallest of n sorted durations that at least percent of them do not exceed; 0 when there is
 * none. */
uint64_t percentile(const uint64_t *sorted, uint64_t n, unsigned int percent);

/* Summarizes the requests of a timeline; ret does not refer to it, and request_summary_done() frees
 * what it holds. -ENOMEM. */
int request_summary_make(const struct timeline *t, struct request_summary *ret);
/* Accepts a summary of zeros, or one that was freed before. */
void request_summary_done(struct request_summary *s);
