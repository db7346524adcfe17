/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose work a run is. It is exact where a thread read one request, did the run and wrote that
 * request's answer (nesting), and where a thread that has read nothing which still waits wrote the
 * beginning of an answer next after the run: the connection and stream it wrote to are the
 * request's identity; what streams.c says goes before that. It is inferred where the thread was
 * woken after the request was read, and no other request waited for a run then. Where another
 * request can be meant as well, the run is nobody's.
 */
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/crossing.h"
#include "daemon/correlate/attribute/streams.h"
#include "lib/base/macro.h"

static struct span *span_at(struct correlator *c, uint64_t index)
{
	return &c->t->spans[index];
}

/*
 * A thread that reads nothing has done runs and then begun answers: whose they were, when only one
 * can be meant. Between two answers of a thread lie the runs of one request, unless another thread
 * wrote an answer for it: attribution_close() looks at that.
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

/* The only request of the process that waits for a run, if this is the first that the thread does
 * since that one's reader woke it. */
static void infer(struct correlator *c, uint32_t thread, struct thread_requests *t, uint64_t span)
{
	struct requests *r = c->requests;
	uint32_t process = c->t->threads[thread].process, found = NO_REQUEST;

	if (process < RECORD_MAX_TARGETS && r->waiting[process].n == 1)
		found = r->waiting[process].first;
	if (found == NO_REQUEST || t->ran || !claims_can_be_of(c, span, found) ||
	    t->woken_ns < r->list[found].read_end_ns || t->woken_by != r->list[found].read_thread)
		return;
	claims_add(c, span, found, true);
}

static void add_run(struct correlator *c, struct thread_requests *t, uint64_t span)
{
	if (t->n_written)
		resolve(c, t);
	t->is_worker = true;
	if (t->n_runs == THREAD_RUNS_MAX) {
		t->overflow = true;
		memmove(&t->runs[0], &t->runs[1], (THREAD_RUNS_MAX - 1) * sizeof(t->runs[0]));
		t->n_runs--;
	}
	t->runs[t->n_runs++] = span;
}

void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = claims_thread(c, thread);

	if (!t)
		return;
	add_run(c, t, span);
	streams_on_run(t, span);
	if (!t->n_read)
		infer(c, thread, t, span);
	/* Who runs after reading one request does that one's work, or it is not known whose: nobody
	 * else is to get it by inference. */
	if (t->n_read == 1)
		claims_stop_waiting(c->requests, t->read[0]);
	t->ran = true;
}

void attribution_on_cut_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = claims_thread(c, thread);

	/* Whatever the thread has read since the window opened came after this run's request. */
	if (t && !t->n_read)
		add_run(c, t, span);
}

void attribution_on_wake(struct correlator *c, uint32_t thread, uint32_t waker, uint64_t time)
{
	struct thread_requests *t = claims_thread(c, thread);

	if (!t)
		return;
	t->woken_ns = time;
	t->woken_by = waker;
	t->ran = false;
}

static void add(uint32_t *list, uint32_t *n, uint32_t request, bool *overflow)
{
	if (*n == THREAD_REQUESTS_MAX) {
		*overflow = true;
		memmove(&list[0], &list[1], (THREAD_REQUESTS_MAX - 1) * sizeof(list[0]));
		--*n;
	}
	list[(*n)++] = request;
}

void attribution_on_read(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_requests *t = claims_thread(c, thread);

	if (!t)
		return;
	resolve(c, t);
	t->is_reader = true;
	add(t->read, &t->n_read, request, &t->overflow);
	claims_wait(c->requests, request);
}

/* Whether the thread has read no other request that waits, but those behind this one on its
 * connection. */
static bool has_read_only(const struct requests *r, const struct thread_requests *t,
			  uint32_t request)
{
	for (uint32_t i = 0; i < t->n_read; i++)
		if (r->states[t->read[i]].connection != r->states[request].connection ||
		    r->list[request].protocol != PROTOCOL_HTTP1)
			if (t->read[i] != request)
				return false;
	return true;
}

/* How the thread comes to write an answer that it has not read the request of; what led to one from
 * before the window is not known. */
static void note_writing(struct thread_requests *t, const struct request *q)
{
	if (!q->read_end_ns)
		return;
	if (t->n_runs && !t->n_written && !t->is_reader)
		t->n_answered++;
	else
		t->writes_others = true;
}

void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_requests *t = claims_thread(c, thread);
	struct requests *r = c->requests;

	if (!t)
		return;
	if (r->list[request].read_thread != thread) {
		note_writing(t, &r->list[request]);
		/* Who still has to answer what it has read itself may have done that one's work. */
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
	struct requests *r = c->requests;
	uint32_t thread = r->list[request].read_thread;
	struct thread_requests *t = thread == THREAD_NONE ? NULL : claims_thread(c, thread);

	claims_stop_waiting(r, request);
	for (uint32_t i = 0; t && i < t->n_read; i++)
		if (t->read[i] == request) {
			memmove(&t->read[i], &t->read[i + 1],
				(--t->n_read - i) * sizeof(t->read[0]));
			break;
		}
}

/* Where records were lost, or an answer may have been another's, nothing is said. */
static void drop_doubtful(struct correlator *c)
{
	struct requests *r = c->requests;

	for (uint64_t i = 0; i < c->t->n_spans; i++) {
		const struct span *s = span_at(c, i);

		if (s->kind == SPAN_RUN && s->request &&
		    (r->states[s->request - 1].doubtful ||
		     (losses_within(&c->losses, s->start_ns, s->end_ns))))
			claims_remove(c, i);
	}
}

static void conclude(struct requests *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		r->list[i].attribution = !r->list[i].n_runs        ? ATTRIBUTION_NONE
					 : r->states[i].n_inferred ? ATTRIBUTION_INFERRED
								   : ATTRIBUTION_EXACT;
}

void attribution_close(struct correlator *c)
{
	for (uint32_t i = 0; i < c->t->n_threads && i < c->requests->threads_size && !c->error; i++)
		resolve(c, &c->requests->threads[i]);
	if (c->error || !c->requests->n)
		return;
	streams_close(c);
	crossing_take_back(c);
	drop_doubtful(c);
	conclude(c->requests);
}
