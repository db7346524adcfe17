/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The readers of bpf/http as the programs in the kernel use them, compiled as code of a process: a
 * connection whose bytes are the fuzzer's. What they send goes to the correlator.
 */
#pragma once

#include "bpf/http/messages.bpf.h"

#include "daemon/correlate/correlate.h"
#include "daemon/plan/packs.h"
#include "daemon/timeline/timeline.h"
#include "tests/fuzz/fuzz.h"

#define START 1000
#define CALL_NS 10

static struct flow both[2];
static struct correlator *correlator;
static const uint8_t *memory; /* of the target */
static size_t memory_size;
static struct iovec pieces[2];
static _Alignas(8) uint8_t record[512];

void *native_reserve(size_t size)
{
	if (size > sizeof(record))
		abort();
	/* As the ring does: with what was there before. */
	memset(record, 0xa5, size);
	return record;
}

void native_submit(void *data)
{
	correlator_feed(correlator, data);
}

static bool is_within(const void *from, size_t size, const void *area, size_t area_size)
{
	uintptr_t begin = (uintptr_t)area, at = (uintptr_t)from;

	return at >= begin && at - begin <= area_size && size <= area_size - (at - begin);
}

long native_read(void *to, size_t size, const void *from)
{
	if (!is_within(from, size, memory, memory_size) &&
	    !is_within(from, size, pieces, sizeof(pieces)))
		return -EFAULT;
	memcpy(to, from, size);
	return 0;
}

/* A call that passed these bytes: as one piece, as two, or of a length that alone is known. */
static void pass(uint8_t how, const uint8_t *bytes, size_t size, uint64_t now)
{
	static struct window window;
	struct steps s = { .flow = &both[how & 1], .window = &window };
	struct pass *p = &s.pass;

	*p = (struct pass){ .now = now,
			    .began = now - CALL_NS / 2,
			    .sock = 1,
			    .tid = 11,
			    .left = size,
			    .direction = how & 1,
			    .server = !(how & 2),
			    .answers_head = both[!(how & 1)].is_head,
			    .inode = 5 };
	memory = bytes;
	memory_size = size;
	switch (how >> 2 & 3) {
	case 0:
		p->room = size;
		break;
	case 1:
		pieces[0] = (struct iovec){ (void *)bytes, size / 3 };
		pieces[1] = (struct iovec){ (void *)(bytes + size / 3), size - size / 3 };
		p->vector = (uint64_t)pieces;
		break;
	default:
		p->address = (uint64_t)bytes;
		p->room = size;
	}
	for (unsigned i = 0; i < STEPS_MAX && !pass_step(i, &s); i++)
		if (p->left > size || p->room > size)
			abort();
	pass_end(p, s.flow);
}

static struct correlator *connection_begin(void)
{
	struct correlate_target target = { .pid = 10, .name = "server", .packs = pack_set_get(1) };

	if (correlator_new(START, &correlator) < 0)
		return NULL;
	correlator_add_target(correlator, &target);
	memset(both, 0, sizeof(both));
	return correlator;
}

/* The timeline of what passed until now; NULL: no memory. */
static struct timeline *connection_end(uint64_t now)
{
	struct timeline *timeline = NULL;

	correlator_finish(correlator, now, 5000000000, &timeline);
	correlator_free(correlator);
	return timeline;
}
