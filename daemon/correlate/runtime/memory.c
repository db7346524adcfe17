/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/memory.h"

#include <stdlib.h>

#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

/* 44 bytes each with what is kept beside it. */
#define EVENTS_MAX (8u << 20)

/* More than any machine has, and so few that the sum of EVENTS_MAX events does not overflow. */
#define BYTES_MAX (1ull << 39)

/* In place of a block's size: it was freed. */
#define BLOCK_GONE UINT64_MAX

/* Beside an event: no operation asked for it. */
#define OP_NONE UINT32_MAX

/* Whether it is shown. */
static bool add_event(struct correlator *c, uint32_t thread, const struct record_probe *r,
		      enum allocator allocator, bool freed, uint64_t bytes)
{
	struct memory_event *events;
	uint32_t *ops;

	if (c->t->n_memory >= EVENTS_MAX || bytes > BYTES_MAX) {
		c->t->n_memory_left_out++;
		return false;
	}
	events = correlator_grow(c, c->t->memory, &c->memory.events_size, c->t->n_memory,
				 sizeof(events[0]));
	if (!events)
		return false;
	c->t->memory = events;
	ops = correlator_grow(c, c->memory.ops, &c->memory.ops_size, c->t->n_memory,
			      sizeof(ops[0]));
	if (!ops)
		return false;
	c->memory.ops = ops;
	/* There are fewer spans than 32 bits hold: NO_SPAN becomes OP_NONE. */
	ops[c->t->n_memory] =
		freed ? OP_NONE : (uint32_t)frames_op(&thread_state(c, thread)->frames, r->stack);
	events[c->t->n_memory++] = (struct memory_event){ .at_ns = r->head.time,
							  .address = r->value,
							  .bytes = bytes,
							  .thread = thread,
							  .op = TEXT_NONE,
							  .allocator = (uint8_t)allocator,
							  .freed = freed };
	return true;
}

void memory_close(struct correlator *c, const struct entry *e)
{
	const struct record_probe *r = e->record;
	uint32_t thread = e->thread;
	const struct allocation asked = thread_state(c, thread)->allocation;
	uint64_t key = target_key(r->value, r->head.target);
	const uint64_t *block;

	thread_state(c, thread)->allocation = ALLOCATION_NONE;
	/* The window opened within the call, or the allocation failed; or these are two calls of
	 * which the rest was lost. */
	if (asked.bytes == NOTHING_REQUESTED || !r->value ||
	    losses_within(&c->losses, asked.asked_ns, c->now))
		return;
	/* A previous block at that address was freed unseen: records were lost. */
	block = map_get(&c->memory.blocks, key);
	if (block && *block != BLOCK_GONE)
		add_event(c, thread, r, ALLOCATOR_CPU, true, *block);
	/* The map has no more blocks than there are events. */
	if (add_event(c, thread, r, ALLOCATOR_CPU, false, asked.bytes))
		correlator_put(c, &c->memory.blocks, key, asked.bytes);
}

void memory_free(struct correlator *c, const struct entry *e)
{
	const struct record_probe *r = e->record;
	uint64_t *block = map_get(&c->memory.blocks, entry_key(e));

	if (!r->value)
		return;
	if (!block || *block == BLOCK_GONE) {
		c->t->n_unknown_freed++;
		return;
	}
	add_event(c, e->thread, r, ALLOCATOR_CPU, true, *block);
	*block = BLOCK_GONE;
}

void memory_open(struct correlator *c, const struct entry *e)
{
	entry_state(c, e)->allocation =
		(struct allocation){ .bytes = e->record->value, .asked_ns = e->record->head.time };
}

void memory_point(struct correlator *c, const struct entry *e)
{
	const struct chunk_tags *tags = &e->pack->chunk_tags;
	bool freed = e->record->tag == tags->taken;

	if (freed || e->record->tag == tags->given)
		add_event(c, e->thread, e->record, ALLOCATOR_BFC, freed, entry_values(e)->value2);
}

void memory_end_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint64_t i = 0, n = c->t->n_memory; i < n; i++) {
		const struct memory_event *e = &c->t->memory[i];
		struct record_probe r = { .head.time = time, .value = e->address };
		uint64_t *block;

		if (e->freed || e->allocator != ALLOCATOR_CPU ||
		    c->t->threads[e->thread].process != process)
			continue;
		block = map_get(&c->memory.blocks, target_key(e->address, (uint8_t)process));
		if (!block || *block == BLOCK_GONE)
			continue;
		add_event(c, e->thread, &r, ALLOCATOR_CPU, true, *block);
		*block = BLOCK_GONE;
	}
}

void memory_name_ops(struct correlator *c)
{
	for (uint64_t i = 0; i < c->t->n_memory; i++) {
		if (c->memory.ops[i] != OP_NONE)
			c->t->memory[i].op = c->t->spans[c->memory.ops[i]].name;
	}
}

void memory_done(struct memory *m)
{
	map_done(&m->blocks);
	free(m->ops);
}
