/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that hands a run over does so for the request of the context that it works in; or else,
 * where a process has a thread for each request, for the only one that it has read and not
 * answered. Both sides have the run's object, which is used for other runs later.
 */
#include "daemon/correlate/attribute/hand_overs.h"

#include <stdlib.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

/* Objects: 32 bytes each, and 40 in the map. */
#define HAND_OVERS_MAX (1u << 18)
/* Kept until the window closes: 100 MB. */
#define HANDED_RUNS_MAX (4u << 20)

struct hand_over {
	struct context_work work; /* since 0: of no context */
	/* Otherwise: what its thread has read; NO_REQUEST: unknown, or the run has begun. */
	uint32_t request, reader;
};

struct handed_run {
	uint64_t span; /* index */
	uint32_t request, reader;
};

/* The place for that of the run with the entry's object; NULL: no room. */
static struct hand_over *place_of(struct correlator *c, const struct entry *e)
{
	struct hand_overs *h = &c->hand_overs;
	uint64_t *found = map_get(&h->at, entry_key(e));
	struct hand_over *list;

	if (found)
		return &h->list[*found];
	if (h->n == HAND_OVERS_MAX)
		return NULL;
	list = correlator_grow(c, h->list, &h->size, h->n, sizeof(list[0]));
	if (!list)
		return NULL;
	h->list = list;
	correlator_put(c, &h->at, entry_key(e), h->n);
	return &list[h->n++];
}

void hand_overs_enqueue(struct correlator *c, const struct entry *e)
{
	struct hand_over *place;

	nesting_pass(c, e);
	place = place_of(c, e);
	if (!place)
		return;
	*place = (struct hand_over){ .work = contexts_find(c, e->thread),
				     .request = NO_REQUEST,
				     .reader = e->thread };
	if (!place->work.since_ns)
		place->request = attribution_of_thread(c, e->thread);
}

/* Of the thread; NULL: no memory. */
static uint64_t *taken_of(struct correlator *c, uint32_t thread)
{
	struct hand_overs *h = &c->hand_overs;

	return correlator_element(c, &h->taken, &h->taken_size, thread, sizeof(h->taken[0]));
}

void hand_overs_dequeue(struct correlator *c, const struct entry *e)
{
	uint64_t *taken = taken_of(c, e->thread);

	nesting_pass(c, e);
	if (taken)
		*taken = entry_key(e);
}

/* The key of the run's object; 0: it has none. */
static uint64_t key_of_run(struct correlator *c, const struct entry *e)
{
	uint64_t *taken = taken_of(c, e->thread), key;

	if (e->row->value2.argument)
		return entry_key2(e);
	key = taken ? *taken : 0;
	if (taken)
		*taken = 0;
	return key;
}

static struct hand_over take(struct correlator *c, const struct entry *e)
{
	static const struct hand_over none = { .request = NO_REQUEST };
	struct hand_overs *h = &c->hand_overs;
	uint64_t key = key_of_run(c, e), *found = key ? map_get(&h->at, key) : NULL;
	struct hand_over ret = found ? h->list[*found] : none;

	if (found)
		h->list[*found] = none;
	return ret;
}

bool hand_overs_on_run(struct correlator *c, const struct entry *e, uint64_t span)
{
	struct hand_overs *h = &c->hand_overs;
	struct hand_over over = take(c, e);
	struct handed_run *runs;

	if (over.work.since_ns)
		return contexts_add_run(c, over.work, span);
	if (over.request == NO_REQUEST || h->n_runs == HANDED_RUNS_MAX)
		return false;
	runs = correlator_grow(c, h->runs, &h->runs_size, h->n_runs, sizeof(runs[0]));
	if (!runs)
		return false;
	h->runs = runs;
	runs[h->n_runs++] = (struct handed_run){ span, over.request, over.reader };
	claims_stop_waiting(c, over.request);
	return true;
}

static bool is_claim(struct correlator *c, const struct handed_run *run)
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
		const struct handed_run *run = &h->runs[i];

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
	free(h->list);
	free(h->runs);
	free(h->taken);
	map_done(&h->at);
}
