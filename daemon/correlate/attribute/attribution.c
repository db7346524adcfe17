/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request a run works for. The attribution is exact in three cases: a thread read one
 * request, did the run and wrote that request's answer (nesting); or a thread that has no
 * unanswered request of its own began an answer right after the run, so that the connection and
 * stream it wrote to identify the request; or the server has the client's address where it begins
 * the run. What streams.c, contexts.c and hand_overs.c find has precedence. The attribution is
 * inferred where the thread was woken after the request was read and no other request waited for a
 * run then. Where several requests are possible, the run has none.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/answers.h"
#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/attribute/crossing.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

#define RUNS_MAX 32
#define REQUESTS_OF_THREAD_MAX 16

/* What is known of a thread's requests. */
struct thread_requests {
	uint64_t runs[RUNS_MAX]; /* outermost ones without a request: since it last began an
				    answer */
	uint32_t n_runs;
	uint32_t read[REQUESTS_OF_THREAD_MAX]; /* requests that it read and that are not answered */
	uint32_t n_read;
	uint32_t written[REQUESTS_OF_THREAD_MAX]; /* requests whose answer it began since its last
						     run */
	uint32_t n_written;
	bool overflow;     /* there were more of them */
	uint64_t woken_ns; /* it was last woken */
	uint32_t woken_by; /* THREAD_NONE: unknown */
	bool ran;          /* since then */
	bool is_reader;    /* it has read requests */
	/* Until then it may have worked for a request that it was not seen to read, or that nobody
	 * waited for any more. */
	uint64_t doubtful_until_ns;
	/* Of the connection that a run within the function at that stack is for; 0: unknown. */
	uint32_t peer_port, peer_stack;
};

/* NULL: no memory. */
static struct thread_requests *thread_get(struct correlator *c, uint32_t thread)
{
	struct attributions *a = &c->attributions;

	if (!correlator_element(c, &a->habits, &a->habits_size, thread, sizeof(*a->habits)))
		return NULL;
	return correlator_element(c, &a->threads, &a->threads_size, thread, sizeof(*a->threads));
}

static struct span *span_at(struct correlator *c, uint64_t index)
{
	return &c->t->spans[index];
}

/*
 * A thread that reads nothing has done runs and then begun answers: the runs get their request if
 * only one is possible. Between two answers of a thread lie the runs of one request, unless another
 * thread wrote an answer for it: attribution_close() checks that.
 */
static void resolve(struct correlator *c, struct thread_requests *t)
{
	uint32_t found = NO_REQUEST;
	unsigned n = 0;

	if (t->n_runs && t->n_written && !t->overflow) {
		uint64_t last = t->runs[t->n_runs - 1];

		for (uint32_t i = 0; i < t->n_written; i++)
			if (claims_can_be_of(c, last, t->written[i])) {
				found = t->written[i];
				n++;
			}
		for (uint32_t i = 0; i < t->n_runs && n == 1; i++)
			if (claims_can_be_of(c, t->runs[i], found))
				claims_add(c, t->runs[i], found, false);
	}
	if (t->n_written) {
		t->n_runs = 0;
		t->overflow = false;
	}
	t->n_written = 0;
}

/* The run gets the only request of the process that waits for one, if this is the thread's first
 * run since the reader of that request woke it. */
static void infer(struct correlator *c, uint32_t thread, struct thread_requests *t, uint64_t span)
{
	struct requests *r = &c->requests;
	uint32_t found = claims_only_waiting(c, c->t->threads[thread].process);

	if (found == NO_REQUEST || t->ran || !claims_can_be_of(c, span, found) ||
	    t->woken_ns < requests_get(r, found)->read_end_ns ||
	    t->woken_by != requests_get(r, found)->read_thread)
		return;
	claims_add(c, span, found, true);
}

static void add_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = &c->attributions.threads[thread];

	if (t->n_written)
		resolve(c, t);
	c->attributions.habits[thread].is_worker = true;
	if (t->n_runs == RUNS_MAX) {
		t->overflow = true;
		memmove(&t->runs[0], &t->runs[1], (RUNS_MAX - 1) * sizeof(t->runs[0]));
		t->n_runs--;
	}
	t->runs[t->n_runs++] = span;
}

/* A thread that runs after reading one request works for that one, or for an unknown one: no other
 * run may get this request by inference. */
static void note_ran(struct correlator *c, struct thread_requests *t)
{
	if (t->n_read == 1)
		claims_stop_waiting(c, t->read[0]);
	t->ran = true;
}

void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span, bool is_known)
{
	struct thread_requests *t = thread_get(c, thread);

	if (!t)
		return;
	if (is_known) {
		c->attributions.habits[thread].is_worker = true;
	} else {
		add_run(c, thread, span);
		streams_on_run(c, thread, span);
		if (!contexts_on_run(c, thread, span) && !t->n_read)
			infer(c, thread, t, span);
	}
	note_ran(c, t);
}

static uint64_t peer_key(uint32_t thread, uint32_t port, uint32_t process)
{
	return target_key((uint64_t)thread << 16 | port, (uint8_t)process);
}

static bool is_unanswered(const struct requests *r, uint32_t request)
{
	return !requests_state(r, request)->answering && !requests_state(r, request)->done;
}

/* The connection with that peer has a request that the thread has read. */
static void note_peer(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct requests *r = &c->requests;
	const struct request *q = requests_get(r, request);
	uint64_t key = peer_key(thread, q->peer_port, q->process), value = request;
	const uint64_t *found = map_get(&c->attributions.of_peer, key);
	const uint32_t noted[] = { found ? (uint32_t)*found + 1 : 0,
				   found ? (uint32_t)(*found >> 32) : 0 };
	uint32_t n = 0;

	/* Of three clients nothing is known any more. */
	if (q->protocol != PROTOCOL_HTTP1 || (found && *found == NO_REQUEST))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(noted); i++) {
		if (!noted[i] || !is_unanswered(r, noted[i] - 1))
			continue;
		/* Pipelined: it is served after the one before it. */
		if (requests_state(r, noted[i] - 1)->connection ==
		    requests_state(r, request)->connection)
			return;
		/* Of two clients with that port on different hosts. */
		value = n++ ? NO_REQUEST : (uint64_t)(request + 1) << 32 | (noted[i] - 1);
	}
	correlator_put(c, &c->attributions.of_peer, key, value);
}

void attribution_point(struct correlator *c, const struct entry *e)
{
	struct thread_requests *t = thread_get(c, e->thread);
	struct sockaddr_in peer;

	nesting_pass(c, e);
	memcpy(&peer, &e->record->value, sizeof(e->record->value));
	if (!t)
		return;
	t->peer_stack = e->record->stack;
	t->peer_port = peer.sin_family == AF_INET || peer.sin_family == AF_INET6
			       ? ntohs(peer.sin_port)
			       : 0;
}

void attribution_on_run_of_peer(struct correlator *c, const struct entry *e, uint64_t span)
{
	struct thread_requests *t = thread_get(c, e->thread);
	uint32_t process = e->record->head.target;
	const uint64_t *found;

	if (!t)
		return;
	found = t->peer_port && !stack_at_or_above(e->record->stack, t->peer_stack)
			? map_get(&c->attributions.of_peer,
				  peer_key(e->thread, t->peer_port, process))
			: NULL;
	t->peer_port = 0;
	answers_on_run(c, e->thread, span);
	models_on_run(c, e->thread, span);
	if (span == NO_SPAN || !found || *found >= NO_REQUEST ||
	    !claims_can_be_of(c, span, (uint32_t)*found))
		return;
	claims_remove_inferred(c, (uint32_t)*found);
	if (!requests_get(&c->requests, (uint32_t)*found)->n_runs)
		claims_add(c, span, (uint32_t)*found, false);
}

void attribution_on_truncated_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = thread_get(c, thread);

	/* The request of this run came before the window, so it is none that the thread has read
	 * since. */
	if (t && !t->n_read)
		add_run(c, thread, span);
}

void attribution_on_found_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = thread_get(c, thread);

	if (!t)
		return;
	add_run(c, thread, span);
	contexts_on_run(c, thread, span);
	note_ran(c, t);
}

void attribution_on_wake(struct correlator *c, uint32_t thread, uint32_t waker, uint64_t time)
{
	struct thread_requests *t = thread_get(c, thread);

	if (!t)
		return;
	t->woken_ns = time;
	t->woken_by = waker;
	t->ran = false;
}

static void add(uint32_t *list, uint32_t *n, uint32_t request, bool *overflow)
{
	if (*n == REQUESTS_OF_THREAD_MAX) {
		*overflow = true;
		memmove(&list[0], &list[1], (REQUESTS_OF_THREAD_MAX - 1) * sizeof(list[0]));
		--*n;
	}
	list[(*n)++] = request;
}

void attribution_on_read(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_requests *t = thread_get(c, thread);

	if (!t)
		return;
	resolve(c, t);
	t->is_reader = true;
	note_peer(c, thread, request);
	add(t->read, &t->n_read, request, &t->overflow);
	contexts_on_read(c, thread, request);
	claims_wait(c, request);
}

/* Whether the thread has read no other unanswered request, except those behind this one on its
 * connection. */
static bool has_read_only(const struct requests *r, const struct thread_requests *t,
			  uint32_t request)
{
	for (uint32_t i = 0; i < t->n_read; i++)
		if (requests_state(r, t->read[i])->connection !=
			    requests_state(r, request)->connection ||
		    requests_get(r, request)->protocol != PROTOCOL_HTTP1)
			if (t->read[i] != request)
				return false;
	return true;
}

/* Notes how the thread came to answer a request that it did not read. Unknown for a request from
 * before the window. */
static void note_writing(struct thread_habits *h, const struct thread_requests *t,
			 const struct request *q)
{
	if (!q->read_end_ns)
		return;
	if (t->n_runs && !t->n_written && !t->is_reader)
		h->n_answered++;
	else
		h->writes_others = true;
}

static void note_answer_of_other(struct correlator *c, struct thread_requests *t,
				 const struct request *q)
{
	t->doubtful_until_ns = MAX(t->doubtful_until_ns, c->now);
	/* It may have been read before the window. */
	if (q->read_thread != THREAD_NONE)
		c->attributions.divided[q->process] = true;
}

void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_requests *t = thread_get(c, thread);
	struct requests *r = &c->requests;

	if (!t)
		return;
	contexts_on_answer(c, thread, request);
	if (requests_get(r, request)->read_thread != thread) {
		note_answer_of_other(c, t, requests_get(r, request));
		note_writing(&c->attributions.habits[thread], t, requests_get(r, request));
		/* A thread that has yet to answer a request that it read may have worked for that
		 * one. */
		if (t->n_read)
			t->n_runs = 0;
		else
			add(t->written, &t->n_written, request, &t->overflow);
		return;
	}
	if (has_read_only(r, t, request) && !t->overflow && !t->n_written)
		for (uint32_t i = 0; i < t->n_runs; i++)
			if (claims_can_be_of(c, t->runs[i], request))
				claims_add(c, t->runs[i], request, false);
	t->n_runs = 0;
	t->n_written = 0;
	t->overflow = false;
}

void attribution_on_end(struct correlator *c, uint32_t request)
{
	struct requests *r = &c->requests;
	uint32_t thread = requests_get(r, request)->read_thread;
	struct thread_requests *t = thread == THREAD_NONE ? NULL : thread_get(c, thread);

	claims_stop_waiting(c, request);
	/* Its thread may go on with it. */
	if (t && !requests_state(r, request)->answering && !c->end_ns)
		t->doubtful_until_ns = UINT64_MAX;
	for (uint32_t i = 0; t && i < t->n_read; i++)
		if (t->read[i] == request) {
			memmove(&t->read[i], &t->read[i + 1],
				(--t->n_read - i) * sizeof(t->read[0]));
			break;
		}
}

void attribution_on_begin(struct correlator *c, uint32_t thread, uint32_t request)
{
	const struct thread_requests *t = thread_get(c, thread);

	if (t && t->n_read)
		c->attributions.divided[requests_get(&c->requests, request)->process] = true;
}

uint32_t attribution_of_thread(struct correlator *c, uint32_t thread)
{
	const struct thread_requests *t = thread_get(c, thread);

	return t && t->n_read == 1 && is_unanswered(&c->requests, t->read[0]) ? t->read[0]
									      : NO_REQUEST;
}

bool attribution_is_undivided(const struct correlator *c, uint32_t process, uint32_t thread,
			      uint64_t since)
{
	return process < RECORD_MAX_TARGETS && !c->attributions.divided[process] &&
	       thread < c->attributions.threads_size &&
	       c->attributions.threads[thread].doubtful_until_ns <= since;
}

bool attribution_is_of(const struct correlator *c, uint32_t request, uint32_t process,
		       uint32_t thread, uint64_t since)
{
	const struct request *q = requests_get(&c->requests, request);

	return attribution_is_undivided(c, process, thread, since) && q->read_thread == thread &&
	       q->write_thread == thread;
}

/* Since when lost records make it unknown whether the run, which has a request, is of that one. */
static uint64_t known_since(const struct correlator *c, const struct span *run)
{
	const struct request *q = requests_get(&c->requests, run->request - 1);

	return q->read_thread == run->thread && q->read_end_ns ? MIN(q->read_end_ns, run->start_ns)
							       : run->start_ns;
}

/* Runs during which records were lost, and runs of ambiguous requests, have no request. */
static void drop_ambiguous(struct correlator *c)
{
	struct requests *r = &c->requests;

	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN) {
		const struct span *s = span_at(c, i);

		if (s->request && (requests_state(r, s->request - 1)->ambiguous ||
				   losses_within(&c->losses, known_since(c, s), s->end_ns)))
			claims_remove(c, i);
	}
}

static void conclude(struct correlator *c)
{
	struct requests *r = &c->requests;

	/* A stream may ask several models. */
	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN) {
		struct request *q =
			span_at(c, i)->request ? requests_get(r, span_at(c, i)->request - 1) : NULL;

		if (q && q->model == TEXT_NONE && !(q->flags & REQUEST_STREAMING))
			q->model = models_of_run(c, i);
	}
	for (uint32_t i = 0; i < requests_count(r); i++)
		requests_get(r, i)->attribution = !requests_get(r, i)->n_runs ? ATTRIBUTION_NONE
						  : claims_has_inferred(c, i) ? ATTRIBUTION_INFERRED
									      : ATTRIBUTION_EXACT;
}

void attribution_close(struct correlator *c)
{
	for (uint32_t i = 0; i < c->t->n_threads && i < c->attributions.threads_size && !c->error;
	     i++)
		resolve(c, &c->attributions.threads[i]);
	if (c->error || !requests_count(&c->requests))
		return;
	streams_close(c);
	contexts_claim(c);
	crossing_take_back(c);
	drop_ambiguous(c);
	conclude(c);
}

struct thread_habits attribution_habits(const struct correlator *c, uint32_t thread)
{
	return thread < c->attributions.habits_size ? c->attributions.habits[thread]
						    : (struct thread_habits){};
}

void attribution_done(struct attributions *a)
{
	free(a->threads);
	free(a->habits);
	map_done(&a->of_peer);
}
