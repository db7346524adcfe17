/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some loops (aiohttp, asyncio's streams) read a connection in a context that makes none: a task of
 * the connection, from before the window, takes what was read, and works in its own context, in
 * one that it makes for the request, or in copies of these on other threads. It writes the answer
 * itself. So a run waits for the next answer that is written in its context, or in one that this
 * one was made in:
 *
 * - A context that was made since the request was read, and in which no other request is answered,
 *   works for that request.
 * - In one that lasts longer, every answer has to be for the same connection of HTTP/1, and the
 *   client has to wait for each: what begins there once a request is read, and before it is
 *   answered, is for that request.
 *
 * A writer for several connections, such as a queue's, thus leads to no request. What outlives its
 * request leads to none either (contexts.c).
 */
#include "daemon/correlate/attribute/writers.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"

/* Of a context, that are looked at. */
#define ANSWERS_BACK_MAX 64
/* A handler's own context, that of its connection's task, and copies of these. */
#define GENERATIONS_MAX 4

struct lineage {
	uint64_t made_ns;
	uint32_t age;              /* how many contexts had this number before */
	uint32_t maker, maker_age; /* number + 1 */
	uint32_t first;            /* of its waits, index + 1 */
	uint32_t writer;           /* index + 1 */
	uint32_t answered;         /* the last of its answers, index + 1 */
	bool one_request;          /* it was made since its first answer's request was read */
};

struct past_answer {
	uint64_t time;
	uint32_t request, before; /* of the context: index + 1 */
};

struct writer {
	uint32_t request, connection; /* the first ones */
	bool several_requests, several_connections;
};

/* A run whose request is not known by what was read. */
struct waiting_run {
	uint64_t span, since_ns;
	uint32_t request; /* once there was an answer: index + 1 */
	uint32_t writer;  /* index */
	bool one_request; /* the writer must have written for no other one */
	bool several;     /* answers led to different requests */
};

/* For the next answer in a context. */
struct wait {
	uint64_t began_ns; /* the run, or the context in which it is, in this context */
	uint32_t run;      /* index */
	uint32_t next;     /* of the context: index + 1 */
};

static struct lineage *lineage_get(struct correlator *c, uint32_t context)
{
	struct writers *w = &c->writers;

	return correlator_element(c, &w->contexts, &w->contexts_size, context,
				  sizeof(*w->contexts));
}

void writers_made(struct correlator *c, uint32_t context, uint32_t maker, uint64_t time)
{
	const struct lineage *by = maker ? lineage_get(c, maker - 1) : NULL;
	uint32_t maker_age = by ? by->age : 0;
	struct lineage *made;

	if (maker && !by)
		return;
	made = lineage_get(c, context);
	if (made)
		*made = (struct lineage){ .made_ns = time,
					  .age = made->age + 1,
					  .maker = maker,
					  .maker_age = maker_age };
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

static bool add_wait(struct correlator *c, struct lineage *at, uint32_t run, uint64_t began)
{
	struct writers *w = &c->writers;
	struct wait *waits =
		correlator_grow(c, w->waits, &w->waits_size, w->n_waits, sizeof(waits[0]));

	if (!waits)
		return false;
	w->waits = waits;
	waits[w->n_waits] = (struct wait){ .began_ns = began, .run = run, .next = at->first };
	at->first = ++w->n_waits;
	return true;
}

static struct writer *writer_get(struct correlator *c, struct lineage *at, uint32_t request)
{
	uint32_t connection = requests_state(&c->requests, request)->connection;
	struct writers *w = &c->writers;
	struct writer *list;

	if (!at->writer) {
		list = correlator_grow(c, w->list, &w->size, w->n, sizeof(list[0]));
		if (!list)
			return NULL;
		w->list = list;
		list[w->n] = (struct writer){ request, connection, false, false };
		at->writer = ++w->n;
	}
	return &w->list[at->writer - 1];
}

/* The run is for that request, unless records were lost since. */
static void settle(struct correlator *c, const struct lineage *at, uint32_t index, uint32_t request)
{
	struct waiting_run *run = &c->writers.runs[index];

	if (losses_within(&c->losses, run->since_ns, c->now))
		return;
	run->several |= run->request && run->request != request + 1;
	run->request = request + 1;
	run->writer = at->writer - 1;
	run->one_request = at->one_request;
}

/*
 * The request that was answered in the context, and that what began there is for: it goes on after
 * the answer. NO_REQUEST: it is for one that will be answered.
 */
static uint32_t outlived(const struct writers *w, const struct lineage *at, uint64_t began)
{
	uint32_t found = NO_REQUEST;

	if (at->one_request)
		return w->list[at->writer - 1].request;
	/* The first answer since then. */
	for (uint32_t i = at->answered, n = 0; i && n < ANSWERS_BACK_MAX; n++) {
		const struct past_answer *a = &w->answers[i - 1];

		if (a->time <= began)
			break;
		found = a->request;
		i = a->before;
	}
	return found;
}

void writers_on_run(struct correlator *c, uint32_t context, uint64_t since, uint64_t span)
{
	uint64_t began = c->t->spans[span].start_ns;
	uint32_t run = add_run(c, since, span);

	for (unsigned i = 0; i < GENERATIONS_MAX && run != NO_REQUEST; i++) {
		struct lineage *at = lineage_get(c, context), *maker;
		uint32_t request = at ? outlived(&c->writers, at, began) : NO_REQUEST;

		if (request != NO_REQUEST)
			settle(c, at, run, request);
		if (!at || request != NO_REQUEST || !add_wait(c, at, run, began) || !at->maker)
			return;
		/* It is in the table already, which does not move. */
		maker = lineage_get(c, at->maker - 1);
		/* Another one has its number by now. */
		if (!maker || maker->age != at->maker_age)
			return;
		began = at->made_ns;
		context = at->maker - 1;
	}
}

/* Whether it is kept. */
static bool add_answer(struct correlator *c, struct lineage *at, uint32_t request)
{
	struct writers *w = &c->writers;
	struct past_answer *answers =
		correlator_grow(c, w->answers, &w->answers_size, w->n_answers, sizeof(answers[0]));

	if (!answers)
		return false;
	w->answers = answers;
	answers[w->n_answers] =
		(struct past_answer){ .time = c->now, .request = request, .before = at->answered };
	at->answered = ++w->n_answers;
	return true;
}

void writers_on_answer(struct correlator *c, uint32_t context, uint32_t request)
{
	const struct request *q = requests_get(&c->requests, request);
	const struct request_state *s = requests_state(&c->requests, request);
	struct lineage *at = lineage_get(c, context);
	bool is_first = at && !at->writer, one_connection;
	struct writer *writer = at ? writer_get(c, at, request) : NULL;

	if (!writer || !add_answer(c, at, request))
		return;
	writer->several_requests |= writer->request != request;
	writer->several_connections |= writer->connection != s->connection;
	if (is_first)
		at->one_request = q->read_start_ns && at->made_ns >= q->read_start_ns;
	one_connection = q->read_start_ns && q->protocol == PROTOCOL_HTTP1 && s->next == NO_REQUEST;
	for (uint32_t i = at->first; i; i = c->writers.waits[i - 1].next) {
		const struct wait *wait = &c->writers.waits[i - 1];

		if (at->one_request || (one_connection && wait->began_ns >= q->read_start_ns))
			settle(c, at, wait->run, request);
	}
	at->first = 0;
}

bool writers_next(const struct correlator *c, uint32_t *at, struct answered_run *ret)
{
	const struct writers *w = &c->writers;

	while (*at < w->n_runs) {
		const struct waiting_run *run = &w->runs[(*at)++];
		const struct writer *writer = run->request ? &w->list[run->writer] : NULL;

		*ret = (struct answered_run){ run->span, run->since_ns, run->request - 1 };
		if (writer && !run->several &&
		    !(run->one_request ? writer->several_requests : writer->several_connections))
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
	if (w->contexts)
		memset(w->contexts, 0, w->contexts_size * sizeof(w->contexts[0]));
}

void writers_done(struct writers *w)
{
	free(w->contexts);
	free(w->list);
	free(w->runs);
	free(w->waits);
	free(w->answers);
}
