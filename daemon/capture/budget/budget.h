/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which kinds of probes are shed when a capture costs its targets more than allowed: the
 * most expensive first, runs last. Some may be sampled instead (slices.h). Pure: times and
 * counts in, a verdict out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/slices.h"
#include "daemon/plan/detail.h"

/* Initially zero except for max_percent. */
struct budget {
	double max_percent; /* of the targets' CPU time */
	bool begun;
	uint64_t at_ns, cpu_ns;
	uint64_t cost_ns[KIND_COUNT];
	/* Probes that were just shed may still be hit. */
	uint64_t ignore_until_ns;
	bool shed[KIND_COUNT];
	/* Kinds that may be sampled, from the start, and that are; a bit each. */
	unsigned may_sample, sampled;
	struct slices slices; /* once some are */
};

struct budget_verdict {
	/* A bit for each kind to shed; 0: within the budget. */
	unsigned kinds;
	/* A bit for each kind that is sampled from now on, and what these cost while attached; 1:
	 * all time of one CPU. */
	unsigned samples;
	double rate;
	double overhead; /* percent, since the last verdict */
};

/*
 * now, and totals since the window began: CPU time of the targets, cost of the hits of each kind,
 * by forecast. lost: records that were lost per record that was seen.
 */
struct budget_verdict budget_check(struct budget *b, uint64_t now, uint64_t cpu_ns,
				   const uint64_t cost_ns[KIND_COUNT], double lost);
