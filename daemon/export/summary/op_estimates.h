/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of operations that were sampled in slices: what the whole window had, and how exact this is.
 * Pure.
 *
 * An operation counts if all of it lies in a slice. One that lasts d is seen whole in a part
 * (S - d) / S of a slice of S: it counts S / (S - d) times. Totals are in proportion to the runs,
 * which are recorded all the time and become slower in slices, or without any to the time. Errors
 * are half the width of a 95 % confidence interval (Student's t), from the differences between
 * slices. At least two slices.
 */
#pragma once

#include "daemon/timeline/op_slices.h"

/* Times in nanoseconds. */
struct op_estimate {
	uint64_t seen; /* operations that count */
	double count, total_ns, self_ns, self_error_ns;
	double mean_ns, mean_error_ns;
};

/* rows: for each of the timeline's names, the row that its operations belong to; n or more: none.
 * One estimate for each of the n rows. -ENOMEM. */
int op_estimates_make(const struct timeline *t, const struct op_slices *slices,
		      const uint32_t *rows, uint32_t n, struct op_estimate *ret);
