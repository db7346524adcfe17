/* SPDX-License-Identifier: Apache-2.0 */
/* A correlator that a test feeds by hand: two targets with the probes of the test, a window from
 * 1000 to 9000. */
#pragma once

#include "daemon/correlate/correlate.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"

static struct correlator *c;

static inline bool any(const char *s, uint32_t size)
{
	return s && size > 0;
}

/* Probes of the test as a pack that takes every name. */
#define TEST_PACK(list, n)                                                                         \
	static const struct pack pack = { .name = "test",                                          \
					  .rows = list,                                            \
					  .n_rows = n,                                             \
					  .names = { .is_name = any, .is_type = any },             \
					  .stage_word = "Iterator",                                \
					  .chunk_tags = { sizeof("MemoryAllocation") - 1,          \
							  sizeof("MemoryDeallocation") - 1 } }

static inline void begin_with(const struct pack *pack)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(pack) };

	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
}

/* An entry into a probed function. */
static inline void feed_tagged_probe(uint8_t target, uint64_t time, uint32_t tid, uint8_t site,
				     uint32_t stack, uint64_t value, uint32_t tag)
{
	const struct record_probe r = {
		.head = { .time = time,
			  .tid = tid,
			  .kind = RECORD_PROBE,
			  .site = site,
			  .target = target,
			  .size8 = sizeof(r) / 8 },
		.stack = stack,
		.tag = tag,
		.value = value,
	};

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static inline void feed_probe(uint8_t target, uint64_t time, uint32_t tid, uint8_t site,
			      uint32_t stack, uint64_t value)
{
	feed_tagged_probe(target, time, tid, site, stack, value, 0);
}

static inline struct timeline *finish(void)
{
	struct timeline *t = NULL;

	CHECK_EQ(correlator_finish(c, 9000, 5000000000, &t), 0);
	c = correlator_free(c);
	return t;
}

/* What begins then; NULL: nothing of the kind. */
static inline const struct span *span_at(const struct timeline *t, enum span_kind kind,
					 uint64_t start)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == kind && t->spans[i].start_ns == start)
			return &t->spans[i];
	return NULL;
}
