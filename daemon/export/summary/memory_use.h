/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators gave out and took back within the window, in numbers. */
#pragma once

#include "daemon/timeline/timeline.h"

/* Of an allocator. What it had given out before the window is not known, and not counted. */
struct memory_use {
	uint64_t n_allocations, n_deallocations;
	uint64_t n_unknown; /* more deallocations, of what was given out before the window: their
			       sizes are not known */
	uint64_t allocated_bytes; /* of all allocations */
	uint64_t peak_bytes;      /* the most at once, of what was given out within the window; of
				     ALLOCATOR_BFC above the least */
	uint64_t begin_bytes;     /* given out when the window began, above the least */
};

#define PROCESS_ANY UINT32_MAX

/* process: the index of one, or PROCESS_ANY: of all together, but for n_unknown, which is of all.
 */
void memory_use_make(const struct timeline *t, uint32_t process,
		     struct memory_use ret[ALLOCATOR_COUNT]);
/* For people: "cpu", … */
const char *memory_allocator_name(enum allocator allocator);
