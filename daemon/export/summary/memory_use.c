/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/memory_use.h"

#include <string.h>

#include "lib/base/macro.h"

void memory_use_make(const struct timeline *t, uint32_t process,
		     struct memory_use ret[ALLOCATOR_COUNT])
{
	int64_t bytes[ALLOCATOR_COUNT] = { 0 }, least[ALLOCATOR_COUNT] = { 0 },
		most[ALLOCATOR_COUNT] = { 0 };

	memset(ret, 0, ALLOCATOR_COUNT * sizeof(ret[0]));
	for (uint64_t i = 0; i < t->n_memory; i++) {
		const struct memory_event *e = &t->memory[i];
		struct memory_use *use = &ret[e->allocator];

		if (process != PROCESS_ANY && t->threads[e->thread].process != process)
			continue;
		bytes[e->allocator] += e->freed ? -(int64_t)e->bytes : (int64_t)e->bytes;
		least[e->allocator] = MIN(least[e->allocator], bytes[e->allocator]);
		most[e->allocator] = MAX(most[e->allocator], bytes[e->allocator]);
		use->n_allocations += !e->freed;
		use->n_deallocations += e->freed;
		use->allocated_bytes += e->freed ? 0 : e->bytes;
	}
	for (unsigned int i = 0; i < ALLOCATOR_COUNT; i++) {
		ret[i].peak_bytes = (uint64_t)(most[i] - least[i]);
		ret[i].begin_bytes = (uint64_t)-least[i];
	}
	ret[ALLOCATOR_CPU].n_unknown = t->n_unknown_freed;
}

const char *memory_allocator_name(enum allocator allocator)
{
	static const char *const names[ALLOCATOR_COUNT] = {
		[ALLOCATOR_CPU] = "cpu", [ALLOCATOR_BFC] = "BFC"
	};

	return names[allocator];
}
