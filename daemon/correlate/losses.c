/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/losses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

struct loss {
	uint64_t from_ns, to_ns;
};

int losses_add(struct losses *l, uint64_t from, uint64_t to)
{
	uint32_t at = l->n, end;

	if (l->n == l->size) {
		uint32_t size = l->size ? l->size * 2 : 64;
		struct loss *list = realloc(l->list, size * sizeof(list[0]));

		if (!list)
			return -ENOMEM;
		l->list = list;
		l->size = size;
	}
	/* They come almost in order. */
	while (at > 0 && l->list[at - 1].to_ns >= from)
		at--;
	for (end = at; end < l->n && l->list[end].from_ns <= to; end++) {
		from = MIN(from, l->list[end].from_ns);
		to = MAX(to, l->list[end].to_ns);
	}
	memmove(&l->list[at + 1], &l->list[end], (l->n - end) * sizeof(l->list[0]));
	l->list[at] = (struct loss){ .from_ns = from, .to_ns = to };
	l->n += 1 - (end - at);
	return 0;
}

bool losses_within(const struct losses *l, uint64_t from, uint64_t to)
{
	uint32_t low = 0, high = l->n;

	/* The first loss that ends at or after from. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (l->list[middle].to_ns < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->n && l->list[low].from_ns <= to;
}

void losses_done(struct losses *l)
{
	free(l->list);
}
