/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/members.h"

#include <errno.h>
#include <stdlib.h>

void members_done(struct members *m)
{
	free(m->first);
	free(m->items);
}

int members_make(const struct timeline *t, uint64_t n_items, owner_fn owner, struct members *ret)
{
	uint64_t n = 0, *first = calloc((size_t)t->n_requests + 2, sizeof(*first));

	ret->first = first;
	if (!first)
		return -ENOMEM;
	/* Counts are two places to the right: filling moves every start to the place before it. */
	for (uint64_t i = 0; i < n_items; i++) {
		uint32_t request = owner(t, i);

		if (request && request <= t->n_requests) {
			first[request + 1]++;
			n++;
		}
	}
	ret->items = malloc((n + 1) * sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (uint32_t i = 1; i <= t->n_requests + 1; i++)
		first[i] += first[i - 1];
	for (uint64_t i = 0; i < n_items; i++) {
		uint32_t request = owner(t, i);

		if (request && request <= t->n_requests)
			ret->items[first[request]++] = i;
	}
	return 0;
}
