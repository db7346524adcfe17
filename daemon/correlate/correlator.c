/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/correlator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/macro.h"

/* 56 bytes each: below 1 GiB. */
#define SPANS_MAX (16u << 20)
/* A client can make up paths: what comes beyond these is shown without. */
#define TEXTS_MAX 65536

void *correlator_grow(struct correlator *c, void *array, uint64_t *size, uint64_t need,
		      size_t element)
{
	uint64_t bigger = *size ? *size * 2 : 1024;
	void *p;

	if (need < *size)
		return array;
	p = realloc(array, bigger * element);
	if (!p) {
		c->error = -ENOMEM;
		return NULL;
	}
	*size = bigger;
	return p;
}

void correlator_fail(struct correlator *c, int r)
{
	if (r < 0 && !c->error)
		c->error = r;
}

void correlator_put(struct correlator *c, struct map *map, uint64_t key, uint64_t value)
{
	if (map_put(map, key, value) < 0)
		c->error = -ENOMEM;
}

uint64_t correlator_add_span(struct correlator *c, uint32_t thread, enum span_kind kind,
			     uint64_t start)
{
	struct span *spans;

	if (c->t->n_spans >= SPANS_MAX) {
		c->t->n_spans_left_out++;
		return NO_SPAN;
	}
	spans = correlator_grow(c, c->t->spans, &c->spans_size, c->t->n_spans, sizeof(spans[0]));

	if (!spans)
		return NO_SPAN;
	c->t->spans = spans;
	spans[c->t->n_spans] = (struct span){ .start_ns = start,
					      .end_ns = start,
					      .thread = thread,
					      .kind = (uint8_t)kind,
					      .name = c->unknown_name,
					      .id = -1 };
	return c->t->n_spans++;
}

uint32_t correlator_name(struct correlator *c, const char *text)
{
	uint32_t name = 0;

	if (names_add(&c->names, text, NULL, false, false, &name) < 0)
		c->error = -ENOMEM;
	return name;
}

/* Processes are the targets, in their order. */
uint32_t correlator_thread(struct correlator *c, uint32_t tid)
{
	uint64_t *found = map_get(&c->thread_of_tid, tid), size = c->threads_size;
	struct thread *threads;
	struct thread_state *states;

	if (found)
		return (uint32_t)*found;
	if (c->t->n_threads == c->threads_size) {
		uint64_t states_size = size;

		threads = correlator_grow(c, c->t->threads, &size, c->t->n_threads,
					  sizeof(threads[0]));
		if (threads)
			c->t->threads = threads;
		states = correlator_grow(c, c->states, &states_size, c->t->n_threads,
					 sizeof(states[0]));
		if (states)
			c->states = states;
		if (!threads || !states)
			return 0;
		c->threads_size = (uint32_t)size;
	}
	if (map_put(&c->thread_of_tid, tid, c->t->n_threads) < 0) {
		c->error = -ENOMEM;
		return 0;
	}
	c->t->threads[c->t->n_threads] = (struct thread){ .tid = tid, .process = UINT32_MAX };
	c->states[c->t->n_threads] = (struct thread_state){
		.waker = -1, .blocked_in = -1, .off_span = NO_SPAN, .allocating = NOTHING_ASKED
	};
	return c->t->n_threads++;
}

void correlator_finished(struct correlator *c, uint32_t process, uint64_t latency_ns)
{
	c->n_finished++;
	if (c->on_finished)
		c->on_finished(process, latency_ns, c->on_finished_data);
}

uint32_t correlator_text(struct correlator *c, const char *text, size_t size)
{
	uint64_t key, *found;
	char **texts, *copy;

	size = strnlen(text, size);
	if (!c->text_seed)
		c->text_seed = hash_seed();
	key = hash_text(c->text_seed, text, size) >> 1;
	/* Two texts of one hash take neighbouring keys. */
	for (; (found = map_get(&c->text_of_hash, key)); key++)
		if (!strncmp(c->t->texts[*found], text, size) && !c->t->texts[*found][size])
			return (uint32_t)*found;
	if (c->t->n_texts == TEXTS_MAX)
		return TEXT_NONE;
	texts = correlator_grow(c, c->t->texts, &c->texts_size, c->t->n_texts, sizeof(texts[0]));
	if (!texts)
		return TEXT_NONE;
	c->t->texts = texts;
	copy = strndup(text, size);
	if (!copy || map_put(&c->text_of_hash, key, c->t->n_texts) < 0) {
		free(copy);
		c->error = -ENOMEM;
		return TEXT_NONE;
	}
	texts[c->t->n_texts] = copy;
	return c->t->n_texts++;
}
