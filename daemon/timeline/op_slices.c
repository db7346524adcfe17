/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/op_slices.h"

#include <errno.h>

#include "lib/base/macro.h"
#include "lib/base/search.h"

static void add(struct op_slices *s, uint64_t start, uint64_t end)
{
	if (end <= start)
		return;
	s->list[s->n++] = (struct op_slice){ start, end };
	s->seen_ns += end - start;
	s->longest_ns = MAX(s->longest_ns, end - start);
}

int op_slices_find(const struct timeline *t, struct op_slices *ret)
{
	struct op_slices s = { .list = calloc(t->n_gaps + 1, sizeof(s.list[0])) };
	uint64_t from = t->start_ns;

	if (!s.list)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_gaps; i++) {
		const struct gap *gap = &t->gaps[i];

		if (gap->of != GAP_OF_OPS)
			continue;
		add(&s, from, gap->start_ns);
		from = gap->end_ns ?: t->end_ns;
		s.is_part = true;
	}
	add(&s, from, t->end_ns);
	*ret = s;
	return 0;
}

uint32_t op_slices_within(const struct op_slices *s, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t low = (uint32_t)SEARCH_FIRST(s->n, i, s->list[i].end_ns < to_ns);

	return low < s->n && s->list[low].start_ns <= from_ns ? low : OP_SLICE_NONE;
}

void op_slices_done(struct op_slices *s)
{
	free(s->list);
	*s = (struct op_slices){};
}
