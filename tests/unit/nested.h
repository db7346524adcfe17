/* SPDX-License-Identifier: Apache-2.0 */
/* How spans of a timeline enclose each other. */
#pragma once

#include "daemon/timeline/timeline.h"

/* The number of spans on the same thread that enclose this one. */
static inline unsigned depth_of(const struct timeline *t, const struct span *s)
{
	unsigned depth = 0;

	for (const struct span *other = t->spans; other < s; other++)
		depth += other->thread == s->thread && other->end_ns >= s->end_ns &&
			 other->end_ns > s->start_ns;
	return depth;
}
