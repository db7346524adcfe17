/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators gave out and took back within the window, in numbers. */
#pragma once

#include "daemon/timeline/timeline.h"

/* Of an allocator. Allocations from before the window are unknown, and not counted. */
struct memory_use {
	uint64_t n_allocations, n_deallocations;
	uint64_t n_unknown;       /* further deallocations, of memory that was allocated before the
				     window: their sizes are unknown */
	uint64_t allocated_bytes; /* of all allocations */
	uint64_t peak_bytes;  /* the most at any time, of what was allocated within the window; of
				 ALLOCATOR_BFC, relative to the minimum */
	uint64_t begin_bytes; /* in use when the window began, relative to the minimum */
};

#define PROCESS_ANY UINT32_MAX

/* process: an index, or PROCESS_ANY: all together. n_unknown is always of all. */
void memory_use_make(const struct timeline *t, uint32_t process,
		     struct memory_use ret[ALLOCATOR_COUNT]);
/* For people: "cpu", … */
const char *memory_allocator_name(enum allocator allocator);
