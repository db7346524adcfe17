/*
 * Turns the records of a capture into spans. Pure: records in order of time in, a timeline out.
 *
 * Identity is exact or absent: an operation ends where the context that it was given is destroyed; an executor belongs to the run
 * whose call it was started for; a frame on a thread's stack has returned when a later entry on that thread has a stack pointer at
 * or above its own. What ends without such a mark ends at the last thing seen inside it, which is a lower bound.
 */
#pragma once

#include "daemon/correlate/timeline.h"
#include "daemon/plan/pack.h"
#include "include/record_types.h"

struct correlate_target {
	uint32_t pid;
	char name[16];
	const struct probe_pack *pack;
	bool layouts_known; /* names came as names; else they are looked for in the objects */
	struct record_layout layout;
};

struct correlate_input {
	const struct record *const *records; /* in order of time */
	uint64_t n_records;
	const struct correlate_target *targets; /* as the records number them */
	unsigned n_targets;
	uint64_t start_ns, end_ns; /* the window */
	uint64_t start_unix_ns;
};

/* Makes the timeline; free it with timeline_free(). -ENOMEM. */
int correlate(const struct correlate_input *input, struct timeline **ret);
