/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that writes an answer may write that of another thread on the same connection along with
 * it, or instead of it. So a claim that is based on the writer is ambiguous, and removed, where a
 * request of that connection has no run and a run has no request.
 *
 * It is not ambiguous in a process whose workers read nothing and have begun exactly one answer
 * after each run.
 *
 * An answer is not held back: a thread that goes on to its next run has handed over the answer to
 * the previous one, and the next write to the connection, or the one after a write in progress,
 * begins that answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/crossing.h"
#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* Rounds in which claims are removed because others were. */
#define ROUNDS_MAX 64
/* Candidates that are looked at for one claim; with more of them it is ambiguous. */
#define NEAR_MAX 4096

/* Answers from which the habits of a process's workers are known. */
#define ANSWERS_MIN 16
/* Kinds of runs that are distinguished. */
#define KINDS_MAX 32

/* Runs of one kind: a server's model has others than what prepares its input. */
struct kind {
	uint32_t process, name;
	bool has_step;
};

/* An outermost run. */
struct outermost {
	uint64_t span;    /* index */
	uint64_t next_ns; /* the next one of its thread began; UINT64_MAX: none did */
};

struct crossing {
	struct correlator *c;
	struct outermost *all; /* as they came */
	uint64_t n_all;
	struct outermost *runs; /* those without a request, by their start */
	uint64_t n_runs;
	uint32_t *requests; /* those without a run, by their start */
	uint32_t n_requests;
	uint32_t *answers; /* requests whose answer began, by connection, then by when it did */
	uint32_t n_answers;
	struct kind last[KINDS_MAX]; /* of runs that came last before an answer */
	unsigned n_last;
	bool many_kinds;                  /* more than those */
	bool orderly[RECORD_MAX_TARGETS]; /* by process: the thread that writes an answer there has
					     done its run */
};

static const struct span *span_of(const struct crossing *x, const struct outermost *o)
{
	return &x->c->t->spans[o->span];
}

static int compare_answers(const void *a, const void *b, void *user)
{
	const struct requests *r = user;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	if (requests_state(r, i)->connection != requests_state(r, k)->connection)
		return requests_state(r, i)->connection < requests_state(r, k)->connection ? -1 : 1;
	return requests_get(r, i)->write_start_ns < requests_get(r, k)->write_start_ns
		       ? -1
		       : requests_get(r, i)->write_start_ns > requests_get(r, k)->write_start_ns;
}

static int compare_runs(const void *a, const void *b, void *spans)
{
	const struct span *list = spans, *x = &list[((const struct outermost *)a)->span],
			  *y = &list[((const struct outermost *)b)->span];

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* The earliest time at which it can have begun, which is estimated if only its answer was seen. */
static uint64_t earliest_start(const struct requests *r, uint32_t request)
{
	return requests_get(r, request)->read_end_ns ? requests_get(r, request)->start_ns
						     : requests_state(r, request)->since_ns;
}

static int compare_requests(const void *a, const void *b, void *requests)
{
	uint64_t x = earliest_start(requests, *(const uint32_t *)a),
		 y = earliest_start(requests, *(const uint32_t *)b);

	return x < y ? -1 : x > y;
}

/* The first answer of that connection that began after that time: index into answers; n_answers:
 * none did. */
static uint32_t answer_after(const struct crossing *x, uint32_t connection, uint64_t time)
{
	const struct requests *r = &x->c->requests;
	uint32_t low = 0, high = x->n_answers;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2, request = x->answers[middle];
		uint32_t other = requests_state(r, request)->connection;

		if (other < connection ||
		    (other == connection && requests_get(r, request)->write_start_ns <= time))
			low = middle + 1;
		else
			high = middle;
	}
	return low < x->n_answers && requests_state(r, x->answers[low])->connection == connection
		       ? low
		       : x->n_answers;
}

/* The latest time at which the answer to a request of that connection began, if the run worked for
 * it. */
static uint64_t latest_answer(const struct crossing *x, const struct outermost *run,
			      uint32_t connection)
{
	uint64_t time = run->next_ns;

	/* The first answer may have been in progress by then. */
	for (unsigned i = 0; i < 2 && time != UINT64_MAX; i++) {
		uint32_t at = answer_after(x, connection, time);

		time = at < x->n_answers
			       ? requests_get(&x->c->requests, x->answers[at])->write_start_ns
			       : UINT64_MAX;
	}
	return time;
}

/* Whether the run can have worked for that request, by their times. */
static bool fits(const struct crossing *x, const struct outermost *run, uint32_t request)
{
	const struct requests *r = &x->c->requests;
	const struct request *q = requests_get(r, request);
	const struct span *s = span_of(x, run);
	uint64_t latest;

	if (q->process != x->c->t->threads[s->thread].process ||
	    (q->read_end_ns && q->read_end_ns > s->start_ns))
		return false;
	if (q->write_start_ns && s->end_ns > q->write_start_ns)
		return false;
	latest = latest_answer(x, run, requests_state(r, request)->connection);
	return q->write_start_ns ? q->write_start_ns <= latest : latest == UINT64_MAX;
}

/* Whether there is another request without a run that this run can have worked for. */
static bool has_other_request(const struct crossing *x, const struct outermost *run,
			      uint32_t request, bool same_connection)
{
	const struct requests *r = &x->c->requests;
	uint64_t start = span_of(x, run)->start_ns;
	uint32_t low = 0, high = x->n_requests;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (earliest_start(r, x->requests[middle]) <= start)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint32_t i = low; i > 0; i--) {
		uint32_t other = x->requests[i - 1];

		if (low - i >= NEAR_MAX)
			return true;
		if (same_connection &&
		    requests_state(r, other)->connection != requests_state(r, request)->connection)
			continue;
		if (other != request && fits(x, run, other))
			return true;
	}
	return false;
}

static struct kind kind_of(const struct crossing *x, const struct span *s)
{
	return (struct kind){ .process = x->c->t->threads[s->thread].process,
			      .name = s->name,
			      .has_step = !(s->flags & SPAN_MARK) && s->step != -1 };
}

/* Whether an answer can follow the run: one of its kind was the last before an answer. */
static bool can_be_last(const struct crossing *x, const struct span *s)
{
	struct kind k = kind_of(x, s);

	for (unsigned i = 0; i < x->n_last; i++)
		if (x->last[i].process == k.process && x->last[i].name == k.name &&
		    x->last[i].has_step == k.has_step)
			return true;
	return x->many_kinds;
}

/* Whether there is another run without a request that can have worked for this one. */
static bool has_other_run(const struct crossing *x, uint32_t request)
{
	const struct request *q = requests_get(&x->c->requests, request);
	uint64_t low = 0, high = x->n_runs;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (span_of(x, &x->runs[middle])->start_ns < q->read_end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint64_t i = low; i < x->n_runs; i++) {
		if (q->write_start_ns && span_of(x, &x->runs[i])->start_ns > q->write_start_ns)
			break;
		if (i - low >= NEAR_MAX ||
		    (can_be_last(x, span_of(x, &x->runs[i])) && fits(x, &x->runs[i], request)))
			return true;
	}
	return false;
}

/* Finds the runs without a request and the requests at sockets without a run. What began before the
 * window is listed by when it ends. */
static void find_free(struct crossing *x)
{
	struct correlator *c = x->c;
	struct requests *r = &c->requests;

	x->n_runs = 0;
	x->n_requests = 0;
	for (uint64_t i = 0; i < x->n_all; i++)
		if (!span_of(x, &x->all[i])->request)
			x->runs[x->n_runs++] = x->all[i];
	qsort_r(x->runs, x->n_runs, sizeof(x->runs[0]), compare_runs, c->t->spans);
	for (uint32_t i = 0; i < requests_count(r); i++)
		if (!requests_get(r, i)->n_runs &&
		    !(requests_get(r, i)->flags & REQUEST_AT_LIBRARY))
			x->requests[x->n_requests++] = i;
	qsort_r(x->requests, x->n_requests, sizeof(x->requests[0]), compare_requests, r);
}

/* Whether a claim is based on which thread wrote the answer. */
static bool is_by_writer(const struct crossing *x, const struct span *run)
{
	const struct requests *r = &x->c->requests;

	return run->request && !(run->flags & SPAN_INFERRED) &&
	       !claims_is_by_stream(x->c, run->request - 1) &&
	       requests_get(r, run->request - 1)->read_thread != run->thread;
}

static bool is_orderly(const struct crossing *x, const struct span *run)
{
	uint32_t process = x->c->t->threads[run->thread].process;

	return process < RECORD_MAX_TARGETS && x->orderly[process];
}

static bool is_ambiguous(const struct crossing *x, const struct outermost *run)
{
	const struct requests *r = &x->c->requests;
	const struct span *s = span_of(x, run);
	uint32_t request = s->request - 1;
	bool last;

	/* At the time of the inference, requests that were read before the window were unknown. */
	if (s->request && s->flags & SPAN_INFERRED)
		return has_other_request(x, run, request, false);
	if (!is_by_writer(x, s))
		return false;
	/* On a connection that is not shared, a thread writes the answer of another one only if
	 * threads take any work there is: then the run has no request. */
	last = claims_is_last(x->c, run->span);
	if (requests_get(r, request)->protocol != PROTOCOL_HTTP2 && !is_orderly(x, s))
		return true;
	/* The last run before an answer can only belong to another request of that connection; an
	 * earlier one, to any request. */
	if (last && is_orderly(x, s))
		return false;
	/* A run that leads to another one belongs to the same request. */
	if (!last && !can_be_last(x, s))
		return false;
	return has_other_request(x, run, request, last) && (!last || has_other_run(x, request));
}

/* Whether any claim was removed. */
static bool take_back(struct crossing *x)
{
	bool changed = false;

	for (uint64_t i = 0; i < x->n_all && x->n_requests; i++)
		if (is_ambiguous(x, &x->all[i])) {
			claims_remove(x->c, x->all[i].span);
			changed = true;
		}
	return changed;
}

/* Removes claims of runs that lead to a run of another request. */
static int take_back_leading(struct crossing *x)
{
	struct correlator *c = x->c;
	_cleanup_free_ uint32_t *next = calloc((size_t)c->t->n_threads + 1, sizeof(next[0]));

	if (!next)
		return -ENOMEM;
	for (uint64_t i = x->n_all; i > 0; i--) {
		const struct span *run = span_of(x, &x->all[i - 1]);

		if (is_by_writer(x, run) && !can_be_last(x, run) &&
		    next[run->thread] != run->request)
			claims_remove(c, x->all[i - 1].span);
		next[run->thread] = run->request;
	}
	return 0;
}

/* Removes all claims by writer: the search for the ambiguous ones did not end. */
static void take_back_all(struct crossing *x)
{
	for (uint64_t i = 0; i < x->n_all; i++)
		if (is_by_writer(x, span_of(x, &x->all[i])))
			claims_remove(x->c, x->all[i].span);
}

/* Of a run. */
static bool is_outermost(const struct span *s)
{
	return !(s->flags & SPAN_INNER);
}

static int collect(struct crossing *x)
{
	struct correlator *c = x->c;
	struct requests *r = &c->requests;
	_cleanup_free_ uint64_t *next = malloc(((size_t)c->t->n_threads + 1) * sizeof(next[0]));
	uint64_t n = 0;

	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN)
		n += is_outermost(&c->t->spans[i]);
	x->all = malloc((n + 1) * sizeof(x->all[0]));
	x->runs = malloc((n + 1) * sizeof(x->runs[0]));
	x->requests = malloc(((size_t)requests_count(r) + 1) * sizeof(x->requests[0]));
	x->answers = malloc(((size_t)requests_count(r) + 1) * sizeof(x->answers[0]));
	if (!next || !x->all || !x->runs || !x->requests || !x->answers)
		return -ENOMEM;
	memset(next, 0xff, (size_t)c->t->n_threads * sizeof(next[0]));
	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN)
		if (is_outermost(&c->t->spans[i]))
			x->all[x->n_all++].span = i;
	for (uint64_t i = n; i > 0; i--) {
		const struct span *s = &c->t->spans[x->all[i - 1].span];

		x->all[i - 1].next_ns = next[s->thread];
		next[s->thread] = s->start_ns;
	}
	for (uint32_t i = 0; i < requests_count(r); i++)
		if (requests_get(r, i)->write_start_ns)
			x->answers[x->n_answers++] = i;
	qsort_r(x->answers, x->n_answers, sizeof(x->answers[0]), compare_answers, r);
	return 0;
}

static void learn_last(struct crossing *x)
{
	for (uint64_t i = 0; i < x->n_all; i++) {
		const struct span *s = span_of(x, &x->all[i]);

		if (!s->request || s->flags & SPAN_INFERRED ||
		    !claims_is_last(x->c, x->all[i].span) || can_be_last(x, s))
			continue;
		if (x->n_last < KINDS_MAX)
			x->last[x->n_last++] = kind_of(x, s);
		else
			x->many_kinds = true;
	}
}

static void learn_order(struct crossing *x)
{
	const struct timeline *t = x->c->t;
	uint64_t n[RECORD_MAX_TARGETS] = { 0 };

	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		x->orderly[i] = true;
	for (uint32_t i = 0; i < t->n_threads; i++) {
		struct thread_habits habits = attribution_habits(x->c, i);
		uint32_t process = t->threads[i].process;

		if (process >= RECORD_MAX_TARGETS || !habits.is_worker)
			continue;
		n[process] += habits.n_answered;
		if (habits.writes_others)
			x->orderly[process] = false;
	}
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		x->orderly[i] &= n[i] >= ANSWERS_MIN;
}

void crossing_take_back(struct correlator *c)
{
	struct crossing x = { .c = c };
	bool changed = true;

	if (collect(&x) < 0)
		c->error = -ENOMEM;
	if (!c->error) {
		learn_last(&x);
		learn_order(&x);
	}
	/* Each removal may make other claims ambiguous. */
	for (unsigned round = 0; round < ROUNDS_MAX && changed && !c->error; round++) {
		find_free(&x);
		changed = take_back(&x);
	}
	if (changed && !c->error)
		take_back_all(&x);
	if (!c->error && take_back_leading(&x) < 0)
		c->error = -ENOMEM;
	free(x.all);
	free(x.runs);
	free(x.requests);
	free(x.answers);
}
