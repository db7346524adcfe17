/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/memory.h"
#include "lib/base/macro.h"

/* 40 bytes each. */
#define EVENTS_MAX (8u << 20)

/* More than any machine has, and few enough that a sum of EVENTS_MAX is a number. */
#define BYTES_MAX (1ull << 39)

/* Of a block in the map: nothing lives at that address any more. */
#define BLOCK_GONE UINT64_MAX

/* Whether it is shown. */
static bool add_event(struct correlator *c, uint32_t thread, const struct record_probe *r,
		      enum allocator allocator, bool freed, uint64_t bytes)
{
	struct memory_event *events;

	if (c->t->n_memory >= EVENTS_MAX || bytes > BYTES_MAX) {
		c->t->n_memory_left_out++;
		return false;
	}
	events = correlator_grow(c, c->t->memory, &c->memory_size, c->t->n_memory,
				 sizeof(events[0]));
	if (!events)
		return false;
	c->t->memory = events;
	events[c->t->n_memory++] =
		(struct memory_event){ .at_ns = r->head.time,
				       .address = r->value,
				       .bytes = bytes,
				       .thread = thread,
				       .op = freed ? NO_SPAN
						   : frames_op(&c->states[thread].frames, r->stack),
				       .allocator = (uint8_t)allocator,
				       .freed = freed };
	return true;
}

void memory_close(struct correlator *c, const struct entry *e)
{
	const struct record_probe *r = e->record;
	uint32_t thread = e->thread;
	uint64_t bytes = c->states[thread].allocating, key = target_key(r->value, r->head.target);
	const uint64_t *block;

	c->states[thread].allocating = NOTHING_ASKED;
	/* The window opened in the middle, or there was no memory; or these may be two calls, of
	 * which the rest was lost. */
	if (bytes == NOTHING_ASKED || !r->value ||
	    losses_within(&c->losses, c->states[thread].allocating_ns, c->now))
		return;
	/* One that still lives there went unseen: records were lost. */
	block = map_get(&c->blocks, key);
	if (block && *block != BLOCK_GONE)
		add_event(c, thread, r, ALLOCATOR_CPU, true, *block);
	/* The map grows no further than what is shown. */
	if (add_event(c, thread, r, ALLOCATOR_CPU, false, bytes))
		correlator_put(c, &c->blocks, key, bytes);
}

void memory_free(struct correlator *c, const struct entry *e)
{
	const struct record_probe *r = e->record;
	uint64_t *block = map_get(&c->blocks, entry_key(e));

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
	entry_state(c, e)->allocating = e->record->value;
	entry_state(c, e)->allocating_ns = e->record->head.time;
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
		block = map_get(&c->blocks, target_key(e->address, (uint8_t)process));
		if (!block || *block == BLOCK_GONE)
			continue;
		add_event(c, e->thread, &r, ALLOCATOR_CPU, true, *block);
		*block = BLOCK_GONE;
	}
}

void memory_name_ops(struct correlator *c)
{
	for (uint64_t i = 0; i < c->t->n_memory; i++) {
		struct memory_event *e = &c->t->memory[i];

		e->op = e->op == NO_SPAN ? TEXT_NONE : c->t->spans[e->op].name;
	}
}
