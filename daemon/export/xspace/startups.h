/* SPDX-License-Identifier: Apache-2.0 */
/* How processes came to serve, as a line of each: what of it lies in the window. Pure. */
#pragma once

#include <stddef.h>

#include "daemon/timeline/startup_track.h"
#include "include/record_types.h"

struct writer;

/* Zeroed at first. */
struct startups {
	struct startup_track *list;
	size_t n, allocated;
};

/* One more, without phases; NULL: no memory, or there are RECORD_MAX_TARGETS already. */
struct startup_track *startups_add(struct startups *s, uint32_t pid);
void startups_done(struct startups *s);
int startups_write(struct writer *w, const struct startups *s);
