/* SPDX-License-Identifier: Apache-2.0 */
/* How much a capture has put into its ring buffers. */
#pragma once

#include <stdint.h>

struct capture_counts {
	uint64_t records, lost; /* of the counters, which the front can also write */
	uint64_t bytes;         /* of the rings, whose positions only the kernel writes */
};

/* fds: as attachment_fds(). What cannot be read counts as 0. */
void counts_read(const int *fds, unsigned n_fds, struct capture_counts *ret);
/* How often the kernel has skipped one of these programs, because the CPU was in it already:
 * whatever process that was for. Negative descriptors are none. */
uint64_t counts_skipped(const int *programs, unsigned n);
