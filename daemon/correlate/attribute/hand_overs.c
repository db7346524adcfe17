/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is handed to another thread belongs to the request of the context in which it was
 * handed over. In a process without contexts, with a thread for each request, it belongs to the
 * only request that the caller has read and not answered. The run's object identifies it on both
 * threads; later runs may use the same object.
 */
#include "daemon/correlate/attribute/hand_overs.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"

/* Slots of a hash table, many more than runs wait at a time. A hand-over whose slot is taken
 * replaces the older one, whose run then gets no request from here. */
#define HAND_OVERS 65536
/* Kept until the window closes: 64 MiB. */
#define TAKEN_RUNS_MAX (4u << 20)

struct hand_over {
	uint64_t key; /* of the run's object; 0: none */
	/* since_ns is 0 outside of contexts, and if the object was handed over twice. request and
	 * stream are 0 if the context's request is unknown. */
	struct context_work work;
	uint32_t request; /* outside of contexts: that the thread has read; NO_REQUEST: unknown */
	uint32_t reader;
};

struct taken_run {
	uint64_t span; /* index */
	uint32_t request, reader;
};

/* NULL: no memory. */
static struct hand_over *place_of(struct correlator *c, uint64_t key)
{
	struct hand_overs *h = &c->hand_overs;

	if (!h->table)
		h->table = calloc(HAND_OVERS, sizeof(h->table[0]));
	if (!h->table)
		c->error = -ENOMEM;
	return h->table ? &h->table[hash_number(0, key) % HAND_OVERS] : NULL;
}

static bool is_same(const struct hand_over *a, const struct hand_over *b)
{
	return a->reader == b->reader && a->request == b->request &&
	       a->work.request == b->work.request && a->work.stream == b->work.stream;
}

void hand_overs_enqueue(struct correlator *c, const struct entry *e)
{
	struct hand_over now = { .key = entry_key(e),
				 .work = contexts_find(c, e->thread),
				 .request = NO_REQUEST,
				 .reader = e->thread };
	struct hand_over *place = place_of(c, now.key);

	nesting_pass(c, e);
	if (!place || !e->record->value)
		return;
	if (!now.work.since_ns)
		now.request = attribution_of_thread(c, e->thread);
	/* No run has begun since the object was handed over before: the runtime may have refused
	 * either call. */
	if (place->key == now.key && !is_same(place, &now)) {
		now.work = (struct context_work){};
		now.request = NO_REQUEST;
	}
	*place = now;
}

/* Of the thread; NULL: no memory. */
static uint64_t *next_of(struct correlator *c, uint32_t thread)
{
	struct hand_overs *h = &c->hand_overs;

	return correlator_element(c, &h->next, &h->next_size, thread, sizeof(h->next[0]));
}

void hand_overs_dequeue(struct correlator *c, const struct entry *e)
{
	uint64_t *next = next_of(c, e->thread);

	nesting_pass(c, e);
	if (next)
		*next = entry_key(e);
}

/* The key of the run's object; 0: it has none. */
static uint64_t key_of_run(struct correlator *c, const struct entry *e)
{
	uint64_t *next, key;

	if (e->row->value2.argument)
		return entry_key2(e);
	next = next_of(c, e->thread);
	key = next ? *next : 0;
	if (next)
		*next = 0;
	return key;
}

static struct hand_over take(struct correlator *c, const struct entry *e)
{
	struct hand_over none = { .request = NO_REQUEST }, ret;
	uint64_t key = key_of_run(c, e);
	struct hand_over *place = key && c->hand_overs.table ? place_of(c, key) : NULL;

	if (!place || place->key != key)
		return none;
	ret = *place;
	*place = none;
	return ret;
}

/* Whether the thread works for a request by itself: its runs are of that one. */
static bool is_own(struct correlator *c, uint32_t thread)
{
	return contexts_find(c, thread).since_ns || attribution_of_thread(c, thread) != NO_REQUEST;
}

bool hand_overs_on_run(struct correlator *c, const struct entry *e, uint64_t span)
{
	struct hand_overs *h = &c->hand_overs;
	struct hand_over over = take(c, e);
	struct taken_run *runs;

	if (!over.key || span == NO_SPAN || is_own(c, e->thread))
		return false;
	if (over.work.since_ns)
		return contexts_add_run(c, over.work, span);
	if (over.request == NO_REQUEST || h->n_runs == TAKEN_RUNS_MAX)
		return false;
	runs = correlator_grow(c, h->runs, &h->runs_size, h->n_runs, sizeof(runs[0]));
	if (!runs)
		return false;
	h->runs = runs;
	runs[h->n_runs++] = (struct taken_run){ span, over.request, over.reader };
	claims_stop_waiting(c, over.request);
	return true;
}

static bool is_claim(struct correlator *c, const struct taken_run *run)
{
	const struct request *q = requests_get(&c->requests, run->request);
	uint64_t start = c->t->spans[run->span].start_ns;
	uint32_t process = c->t->threads[run->reader].process;

	return !contexts_seen(c, process) && start <= q->end_ns &&
	       attribution_is_of(c, run->request, process, run->reader, q->read_end_ns) &&
	       claims_can_be_of(c, run->span, run->request) &&
	       !losses_within(&c->losses, q->read_start_ns ?: q->start_ns, start);
}

void hand_overs_claim(struct correlator *c)
{
	struct hand_overs *h = &c->hand_overs;

	for (uint32_t i = 0; i < h->n_runs && !c->error; i++) {
		const struct taken_run *run = &h->runs[i];

		if (c->t->spans[run->span].request)
			claims_remove(c, run->span);
		if (is_claim(c, run)) {
			claims_remove_inferred(c, run->request);
			claims_add(c, run->span, run->request, false);
			claims_note_stream(c, run->request);
		}
	}
}

void hand_overs_done(struct hand_overs *h)
{
	free(h->table);
	free(h->runs);
	free(h->next);
}
