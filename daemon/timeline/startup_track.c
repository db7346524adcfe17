/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/startup_track.h"

#include <stdlib.h>

#include "include/record_types.h"
#include "lib/base/array.h"

const char *startup_phase_name(enum startup_phase_kind kind)
{
	static const char *const names[] = {
		[STARTUP_START] = "start",
		[STARTUP_LIBRARIES] = "libraries",
		[STARTUP_RUNTIME] = "runtime",
		[STARTUP_LOAD] = "load",
		[STARTUP_RESTORE] = "restore",
		[STARTUP_WARMUP] = "warm-up",
		[STARTUP_WAIT] = "wait for the first request",
		[STARTUP_SERVING] = "serving",
	};

	return names[kind];
}

struct startup_track *startups_add(struct startups *s, uint32_t pid)
{
	if (s->n == RECORD_MAX_TARGETS ||
	    array_reserve(&s->list, s->n, &s->allocated, sizeof(s->list[0]), 1) < 0)
		return NULL;
	s->list[s->n] = (struct startup_track){ .pid = pid };
	return &s->list[s->n++];
}

void startups_done(struct startups *s)
{
	free(s->list);
	*s = (struct startups){};
}
