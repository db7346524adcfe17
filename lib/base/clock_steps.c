/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock_steps.h"

#include <string.h>

void clock_steps_look(struct clock_steps *s, uint64_t now, uint64_t offset)
{
	int64_t by = (int64_t)(offset - (s->offset ?: offset));

	s->offset = s->offset ?: offset;
	if (by > -CLOCK_STEP_MIN_NS && by < CLOCK_STEP_MIN_NS)
		return;
	if (s->n == CLOCK_STEPS_MAX)
		memmove(&s->list[0], &s->list[1], --s->n * sizeof(s->list[0]));
	s->list[s->n++] = (struct clock_step){ .at_ns = now, .by_ns = by };
	s->offset = offset;
}

uint64_t clock_steps_offset_at(const struct clock_steps *s, uint64_t time)
{
	uint64_t offset = s->offset;

	for (unsigned i = 0; i < s->n; i++)
		if (s->list[i].at_ns > time)
			offset -= (uint64_t)s->list[i].by_ns;
	return offset;
}
