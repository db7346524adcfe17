/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, counted in buckets, four per power of two: a percentile is at most 19 % above the true
 * one. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_FIRST_NS 1024ull /* where the first bucket ends */
#define HISTOGRAM_POWERS 28        /* the last but one ends at 275 s */
#define HISTOGRAM_BUCKETS (HISTOGRAM_POWERS * 4 + 2)

/* Initially zero, which means empty. */
struct histogram {
	uint64_t n, sum_ns;
	uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *h, const struct histogram *other);
/* Where the bucket ends; UINT64_MAX: unbounded. */
uint64_t histogram_end(unsigned bucket);
/* The end of the bucket that contains the percentile (0 to 100); 0: the histogram is empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
