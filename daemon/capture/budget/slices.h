/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when kinds of probes are attached that cost more than a budget allows: in slices of 0.1 s
 * and more, at random distances, as many as the budget pays for. Pure: times and costs in, a
 * verdict out. Costs are totals since the window began, of the probes that are sampled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The shortest slice, unless the window ends, and the shortest time between two. */
#define SLICE_NS 100000000ull

/* Zeros at first. */
struct slices {
	bool begun;
	bool is_on;
	uint64_t changed_ns; /* when the slice, or the time between two, began */
	double rate;         /* what the probes cost while attached, before there was a slice */
	uint64_t on_ns;      /* the complete slices since then */
	double base_ns;      /* the cost before these */
	double forgone_ns;   /* what the budget has saved in vain */
	double wanted;       /* what the budget must have saved for the next one; 1: its cost */
	uint64_t random;
};

enum slices_verdict {
	SLICES_STAY,
	SLICES_PAUSE,
	SLICES_RESUME,
};

/* Kinds that cost so much while attached (1: all time of one CPU) are sampled from now on, besides
 * earlier ones: all are detached now. */
void slices_begin(struct slices *s, uint64_t now_ns, double cost_ns, double rate);
/* saved_ns: what the budget allows until now less what was spent. The caller follows the verdict,
 * and then calls slices_changed(). */
enum slices_verdict slices_check(struct slices *s, uint64_t now_ns, double cost_ns,
				 double saved_ns);
void slices_changed(struct slices *s, uint64_t now_ns, double cost_ns);
