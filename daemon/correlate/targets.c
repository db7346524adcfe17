/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/targets.h"

#include <errno.h>
#include <stddef.h>

int targets_add(struct targets *t, const struct correlate_target *target)
{
	if (t->n == RECORD_MAX_TARGETS)
		return -E2BIG;
	t->list[t->n++] = *target;
	return 0;
}

const struct correlate_target *targets_get(const struct targets *t, unsigned number)
{
	return number < t->n ? &t->list[number] : NULL;
}

const struct correlate_target *targets_current(const struct targets *t, unsigned number)
{
	return number < t->n && !t->replaced[number] ? &t->list[number] : NULL;
}

void targets_replace(struct targets *t, unsigned number)
{
	t->replaced[number] = true;
}
