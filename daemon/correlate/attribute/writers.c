/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some loops (aiohttp) read a connection in a context that makes none: a task of the connection,
 * from before the window, takes what was read, and makes a task of the request, which writes the
 * answer itself. That one's context, which was made since the request was read, works for it if no
 * other request is answered in it, and so do those that were made in it, and in these.
 *
 * So a run waits for an answer in its context and in those that this one goes back to. A run after
 * the answer outlives the request, which contexts.c then gives no run. Contexts that last longer
 * than a request lead to none: what a task of a connection does after an answer looks like what it
 * does for the next request.
 */
#include "daemon/correlate/attribute/writers.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"

/* 24 bytes each. One is kept after its end: what was made in it goes on. */
#define LINEAGES_MAX (1u << 20)
/* A context, and those that it goes back to, that are looked at. */
#define GENERATIONS_MAX 4

struct lineage {
	uint64_t made_ns;
	uint32_t maker;   /* index + 1 */
	uint32_t first;   /* of its waits, index + 1 */
	uint32_t request; /* the first one that was answered in it, index + 1 */
	bool several;     /* others were, too */
};

/* A run whose request is not known by what was read. */
struct waiting_run {
	uint64_t span, since_ns;
	uint32_t lineage; /* index + 1, once there was an answer */
	bool several;     /* answers led to different requests */
};

/* For an answer in a context. */
struct wait {
	uint32_t run;  /* index */
	uint32_t next; /* of the context: index + 1 */
};

/* Where the index + 1 of the lineage is of what has this number now; 0 there: it is not kept. */
static uint32_t *number_get(struct correlator *c, uint32_t context)
{
	struct writers *w = &c->writers;

	return correlator_element(c, &w->numbers, &w->numbers_size, context, sizeof(w->numbers[0]));
}

void writers_made(struct correlator *c, uint32_t context, uint32_t maker, uint64_t time)
{
	struct writers *w = &c->writers;
	const uint32_t *by = maker ? number_get(c, maker - 1) : NULL;
	uint32_t made_by = by ? *by : 0, *number = number_get(c, context);
	struct lineage *list;

	if (!number)
		return;
	*number = 0;
	if (w->n == LINEAGES_MAX)
		return;
	list = correlator_grow(c, w->list, &w->size, w->n, sizeof(list[0]));
	if (!list)
		return;
	w->list = list;
	list[w->n] = (struct lineage){ .made_ns = time, .maker = made_by };
	*number = ++w->n;
}

static struct lineage *lineage_of(struct correlator *c, uint32_t context)
{
	const uint32_t *number = number_get(c, context);

	return number && *number ? &c->writers.list[*number - 1] : NULL;
}

/* The index of the run; NO_REQUEST: no room. */
static uint32_t add_run(struct correlator *c, uint64_t since, uint64_t span)
{
	struct writers *w = &c->writers;
	struct waiting_run *runs;

	if (w->n_runs == WRITERS_RUNS_MAX) {
		w->n_left_out++;
		return NO_REQUEST;
	}
	runs = correlator_grow(c, w->runs, &w->runs_size, w->n_runs, sizeof(runs[0]));
	if (!runs)
		return NO_REQUEST;
	w->runs = runs;
	runs[w->n_runs] = (struct waiting_run){ .span = span, .since_ns = since };
	return w->n_runs++;
}

static bool add_wait(struct correlator *c, struct lineage *at, uint32_t run)
{
	struct writers *w = &c->writers;
	struct wait *waits =
		correlator_grow(c, w->waits, &w->waits_size, w->n_waits, sizeof(waits[0]));

	if (!waits)
		return false;
	w->waits = waits;
	waits[w->n_waits] = (struct wait){ .run = run, .next = at->first };
	at->first = ++w->n_waits;
	return true;
}

/* The run is for the request that was answered there, unless records were lost since. */
static void settle(struct correlator *c, const struct lineage *at, uint32_t index)
{
	struct writers *w = &c->writers;
	struct waiting_run *run = &w->runs[index];

	if (losses_within(&c->losses, run->since_ns, c->now))
		return;
	run->several |= run->lineage && w->list[run->lineage - 1].request != at->request;
	run->lineage = (uint32_t)(at - w->list) + 1;
}

void writers_on_run(struct correlator *c, uint32_t context, uint64_t since, uint64_t span)
{
	struct lineage *at = lineage_of(c, context);
	uint32_t run = at ? add_run(c, since, span) : NO_REQUEST;

	c->writers.n_left_out += !at && c->writers.n == LINEAGES_MAX;
	for (unsigned i = 0; i < GENERATIONS_MAX && at && run != NO_REQUEST; i++) {
		if (at->request) {
			settle(c, at, run);
			return;
		}
		if (!add_wait(c, at, run))
			return;
		at = at->maker ? &c->writers.list[at->maker - 1] : NULL;
	}
}

void writers_on_answer(struct correlator *c, uint32_t context, uint32_t request)
{
	uint64_t read = requests_get(&c->requests, request)->read_start_ns;
	struct lineage *at = lineage_of(c, context);

	if (!at || !read || at->made_ns < read)
		return;
	if (at->request) {
		at->several |= at->request != request + 1;
		return;
	}
	at->request = request + 1;
	for (uint32_t i = at->first; i; i = c->writers.waits[i - 1].next)
		settle(c, at, c->writers.waits[i - 1].run);
	at->first = 0;
}

bool writers_next(const struct correlator *c, uint32_t *at, struct answered_run *ret)
{
	const struct writers *w = &c->writers;

	while (*at < w->n_runs) {
		const struct waiting_run *run = &w->runs[(*at)++];
		const struct lineage *of = run->lineage ? &w->list[run->lineage - 1] : NULL;

		if (!of || run->several || of->several)
			continue;
		*ret = (struct answered_run){ run->span, run->since_ns, of->request - 1 };
		return true;
	}
	return false;
}

uint64_t writers_left_out(const struct writers *w)
{
	return w->n_left_out;
}

void writers_forget(struct writers *w)
{
	if (w->numbers)
		memset(w->numbers, 0, w->numbers_size * sizeof(w->numbers[0]));
	/* Other answers in the contexts that are known so far will not be noticed. */
	for (uint32_t i = 0; i < w->n; i++)
		w->list[i].several = true;
}

void writers_done(struct writers *w)
{
	free(w->numbers);
	free(w->list);
	free(w->runs);
	free(w->waits);
}
