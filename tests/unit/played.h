/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a test in order of time, from 1000 on, as a timeline. */
#pragma once

#include "daemon/correlate/correlate.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"

struct played {
	const struct pack *pack;
	unsigned n_targets;
	const void *records; /* elements of that size, each of which begins with a record */
	size_t size;
	unsigned n;
	uint64_t losses_from, losses_to; /* 0: none */
	uint64_t end_ns;
};

static inline struct timeline *play(const struct played *p)
{
	struct correlator *c = NULL;
	struct timeline *t = NULL;

	CHECK_EQ(correlator_new(1000, &c), 0);
	for (unsigned i = 0; i < p->n_targets; i++)
		CHECK_EQ(correlator_add_target(
				 c, &(struct correlate_target){ .pid = 77 + i,
								.name = "server",
								.packs = set_of(p->pack) }),
			 0);
	if (p->losses_to)
		CHECK_EQ(correlator_note_loss(c, p->losses_from, p->losses_to), 0);
	for (unsigned i = 0; i < p->n; i++)
		CHECK_EQ(correlator_feed(c, (const void *)((const char *)p->records + i * p->size)),
			 0);
	CHECK_EQ(correlator_finish(c, p->end_ns, 5000000000, &t), 0);
	correlator_free(c);
	return t;
}
