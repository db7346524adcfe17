/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/thread_table.h"

#include <stdlib.h>

#include "daemon/correlate/correlator.h"

/* Some kilobytes each, with what other parts keep of them. */
#define THREADS_MAX (1u << 16)

void thread_table_init(struct thread_table *table)
{
	*table = (struct thread_table){ .frames_room = FRAMES_ROOM };
}

bool thread_table_has_room(const struct correlator *c, uint32_t tid)
{
	return c->t->n_threads < THREADS_MAX || thread_table_find(c, tid) != THREAD_NONE;
}

bool thread_table_takes(const struct correlator *c, const struct record *record)
{
	const struct record_switch *r = (const void *)record;

	if (record->kind != RECORD_SWITCH)
		return thread_table_has_room(c, record->tid);
	return (!(r->flags & SWITCH_OUT) || thread_table_has_room(c, record->tid)) &&
	       (!(r->flags & SWITCH_IN) || thread_table_has_room(c, r->next_tid));
}

uint32_t *thread_table_frames_room(struct correlator *c)
{
	return &c->threads.frames_room;
}

void thread_table_ended(struct correlator *c, uint32_t thread)
{
	struct frames *frames = &thread_state(c, thread)->frames;

	if (!frames_count(frames))
		frames_done(frames, &c->threads.frames_room);
}

static bool reserve(struct correlator *c)
{
	struct thread_table *table = &c->threads;
	uint64_t size = table->size, states_size = size;
	struct thread *threads;
	struct thread_state *states;

	if (c->t->n_threads < table->size)
		return true;
	threads = correlator_grow(c, c->t->threads, &size, c->t->n_threads, sizeof(threads[0]));
	if (threads)
		c->t->threads = threads;
	states =
		correlator_grow(c, table->states, &states_size, c->t->n_threads, sizeof(states[0]));
	if (states)
		table->states = states;
	if (!threads || !states)
		return false;
	table->size = (uint32_t)size;
	return true;
}

uint32_t thread_table_get(struct correlator *c, uint32_t tid)
{
	uint32_t found = thread_table_find(c, tid);

	if (found != THREAD_NONE)
		return found;
	if (!reserve(c))
		return 0;
	correlator_put(c, &c->threads.of_tid, tid, c->t->n_threads);
	if (c->error)
		return 0;
	c->t->threads[c->t->n_threads] = (struct thread){ .tid = tid, .process = UINT32_MAX };
	c->threads.states[c->t->n_threads] =
		(struct thread_state){ .cpu = THREAD_CPU_UNKNOWN, .allocation = ALLOCATION_NONE };
	c->threads.n++;
	return c->t->n_threads++;
}

uint32_t thread_table_find(const struct correlator *c, uint32_t tid)
{
	const uint64_t *found = map_get(&c->threads.of_tid, tid);

	return found ? (uint32_t)*found : THREAD_NONE;
}

void thread_table_done(struct thread_table *table)
{
	for (uint32_t i = 0; i < table->n; i++)
		frames_done(&table->states[i].frames, &table->frames_room);
	free(table->states);
	map_done(&table->of_tid);
}
