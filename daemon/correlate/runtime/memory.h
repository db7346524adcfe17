/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators give out and take back. These entries have no effect on other spans: they neither
 * end nor extend a frame. */
#pragma once

#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct entry;

#define NOTHING_REQUESTED UINT64_MAX

/* What a thread asks an allocator for. */
struct allocation {
	uint64_t bytes; /* NOTHING_REQUESTED */
	uint64_t asked_ns;
};

#define ALLOCATION_NONE ((struct allocation){ .bytes = NOTHING_REQUESTED })

/* Zeros at first. */
struct memory {
	struct map blocks; /* bytes of what an allocator gave out, by address and target */
	uint64_t events_size;
	uint32_t *ops; /* beside the timeline's events: the span of the operation */
	uint64_t ops_size;
};

void memory_open(struct correlator *c, const struct entry *e);
void memory_close(struct correlator *c, const struct entry *e);
void memory_free(struct correlator *c, const struct entry *e);
/* A piece of a region that the allocator has from another one. */
void memory_point(struct correlator *c, const struct entry *e);
/* A process has ended, and all of its blocks with it. */
void memory_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* Operations have their names: their events get them. */
void memory_name_ops(struct correlator *c);
void memory_done(struct memory *m);
