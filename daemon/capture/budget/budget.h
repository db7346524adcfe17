/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which kinds of probes are taken away when a capture costs its targets more than it may:
 * the dearest first, runs last. Pure: times and counts in, a verdict out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/detail.h"

/* Zeros but for max_percent at first. */
struct budget {
	double max_percent; /* of the targets' CPU time */
	bool begun;
	uint64_t at_ns, cpu_ns;
	uint64_t cost_ns[KIND_COUNT];
	uint64_t ignore_until_ns; /* probes that were just taken away may still be hit */
	bool shed[KIND_COUNT];
};

struct budget_verdict {
	unsigned kinds;  /* a bit for each kind that is to be taken away; 0: within the budget */
	double overhead; /* percent, since the last verdict */
};

/*
 * now, and totals since the window began: CPU time of the targets, cost of the hits of each kind,
 * by forecast. lost: records that were lost, for each that was seen.
 */
struct budget_verdict budget_check(struct budget *b, uint64_t now, uint64_t cpu_ns,
				   const uint64_t cost_ns[KIND_COUNT], double lost);
