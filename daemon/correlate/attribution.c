/*
 * Whose work a run is. It is exact where a thread read one request, did the run and wrote that request's answer (nesting), and where a thread that has
 * read nothing which still waits wrote the beginning of an answer next after the run: the connection and stream it wrote to are the
 * request's identity. It is inferred where the thread was woken after the request was read, and no other request waited for a
 * run then. Where another request can be meant as well, the run is nobody's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* Rounds in which claims are taken back because of others that were. */
#define ROUNDS_MAX 64

struct thread_requests *attribution_thread(struct correlator *c, uint32_t thread)
{
	struct requests *r = c->requests;
	uint64_t from = r->threads_size;

	while (thread >= r->threads_size) {
		struct thread_requests *threads = correlator_grow(c, r->threads, &r->threads_size, r->threads_size, sizeof(*threads));

		if (!threads)
			return NULL;
		r->threads = threads;
		memset(threads + from, 0, (r->threads_size - from) * sizeof(*threads));
		from = r->threads_size;
	}
	return &r->threads[thread];
}

static struct span *span_at(struct correlator *c, uint64_t index)
{
	return &c->t->spans[index];
}

static void waiting_remove(struct requests *r, uint32_t request)
{
	for (uint32_t i = 0; i < r->n_waiting; i++)
		if (r->waiting[i] == request) {
			memmove(&r->waiting[i], &r->waiting[i + 1], (--r->n_waiting - i) * sizeof(r->waiting[0]));
			return;
		}
}

static void unclaim(struct correlator *c, uint64_t span)
{
	struct requests *r = c->requests;
	uint32_t request = span_at(c, span)->request - 1;

	span_at(c, span)->request = 0;
	if (span_at(c, span)->flags & SPAN_INFERRED)
		r->states[request].n_inferred--;
	span_at(c, span)->flags &= (uint8_t)~SPAN_INFERRED;
	r->list[request].n_runs--;
}

static void claim(struct correlator *c, uint64_t span, uint32_t request, bool inferred)
{
	struct requests *r = c->requests;

	/* What was inferred gives way to what is known. */
	if (span_at(c, span)->request)
		unclaim(c, span);
	span_at(c, span)->request = request + 1;
	if (inferred)
		span_at(c, span)->flags |= SPAN_INFERRED;
	r->states[request].n_inferred += inferred;
	r->states[request].last_run = span;
	r->list[request].n_runs++;
	waiting_remove(r, request);
}

/* The request was read before the run began, and the run has begun before its answer did. */
static bool can_be_of(struct correlator *c, uint64_t span, uint32_t request)
{
	const struct request *q = &c->requests->list[request];
	const struct span *s = span_at(c, span);

	if (q->process != c->t->threads[s->thread].process)
		return false;
	return c->requests->states[request].read && q->read_end_ns <= s->start_ns && (!q->write_start_ns || s->start_ns <= q->write_start_ns);
}

/*
 * A thread that reads nothing has done runs and then begun answers: whose they were, when only one can be meant. Between two answers of a thread lie the
 * runs of one request, unless another thread wrote an answer for it: attribution_close() looks at that.
 */
static void resolve(struct correlator *c, struct thread_requests *t)
{
	uint32_t found = NO_REQUEST;
	unsigned n = 0;

	if (t->n_runs && t->n_written && !t->overflow) {
		uint64_t last = t->runs[t->n_runs - 1];

		for (uint32_t i = 0; i < t->n_written; i++)
			if (can_be_of(c, last, t->written[i])) {
				found = t->written[i];
				n++;
			}
		for (uint32_t i = 0; i < t->n_runs && n == 1; i++)
			if (can_be_of(c, t->runs[i], found))
				claim(c, t->runs[i], found, false);
	}
	if (t->n_written) {
		t->n_runs = 0;
		t->overflow = false;
	}
	t->n_written = 0;
}

/* The only request of the process that waits for a run, if the thread was woken since it was read. */
static void infer(struct correlator *c, uint32_t thread, struct thread_requests *t, uint64_t span)
{
	struct requests *r = c->requests;
	uint32_t process = c->t->threads[thread].process, found = NO_REQUEST;
	unsigned n = 0;

	for (uint32_t i = 0; i < r->n_waiting && n < 2; i++)
		if (r->list[r->waiting[i]].process == process) {
			found = r->waiting[i];
			n++;
		}
	if (n != 1 || !can_be_of(c, span, found) || t->woken_ns < r->list[found].read_end_ns)
		return;
	claim(c, span, found, true);
}

void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_requests *t = attribution_thread(c, thread);

	if (!t)
		return;
	if (t->n_written)
		resolve(c, t);
	if (t->n_runs == THREAD_RUNS_MAX) {
		t->overflow = true;
		memmove(&t->runs[0], &t->runs[1], (THREAD_RUNS_MAX - 1) * sizeof(t->runs[0]));
		t->n_runs--;
	}
	t->runs[t->n_runs++] = span;
	if (!t->n_read)
		infer(c, thread, t, span);
}

void attribution_on_wake(struct correlator *c, uint32_t thread, uint64_t time)
{
	struct thread_requests *t = attribution_thread(c, thread);

	if (t)
		t->woken_ns = time;
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
	struct thread_requests *t = attribution_thread(c, thread);
	struct requests *r = c->requests;
	uint32_t *waiting;

	if (!t)
		return;
	resolve(c, t);
	add(t->read, &t->n_read, request, &t->overflow);
	waiting = correlator_grow(c, r->waiting, &r->waiting_size, r->n_waiting, sizeof(*waiting));
	if (!waiting)
		return;
	r->waiting = waiting;
	waiting[r->n_waiting++] = request;
}

/* Whether the thread has read no other request that waits, but those behind this one on its connection. */
static bool has_read_only(const struct requests *r, const struct thread_requests *t, uint32_t request)
{
	for (uint32_t i = 0; i < t->n_read; i++)
		if (r->states[t->read[i]].connection != r->states[request].connection || r->list[request].protocol != PROTOCOL_HTTP1)
			if (t->read[i] != request)
				return false;
	return true;
}

void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_requests *t = attribution_thread(c, thread);
	struct requests *r = c->requests;

	if (!t)
		return;
	if (r->list[request].read_thread != thread) {
		/* Who still has to answer what it has read itself may have done that one's work. */
		if (t->n_read)
			t->n_runs = 0;
		else
			add(t->written, &t->n_written, request, &t->overflow);
		return;
	}
	if (has_read_only(r, t, request) && !t->overflow && !t->n_written)
		for (uint32_t i = 0; i < t->n_runs; i++)
			if (can_be_of(c, t->runs[i], request))
				claim(c, t->runs[i], request, false);
	t->n_runs = 0;
	t->n_written = 0;
	t->overflow = false;
}

void attribution_on_end(struct correlator *c, uint32_t request)
{
	struct requests *r = c->requests;
	uint32_t thread = r->list[request].read_thread;
	struct thread_requests *t = thread == THREAD_NONE ? NULL : attribution_thread(c, thread);

	waiting_remove(r, request);
	for (uint32_t i = 0; t && i < t->n_read; i++)
		if (t->read[i] == request) {
			memmove(&t->read[i], &t->read[i + 1], (--t->n_read - i) * sizeof(t->read[0]));
			break;
		}
}

/*
 * Who writes an answer may write another one's of the same connection along with it, or instead of it. Where a claim by who wrote can be read
 * otherwise, since a request of that connection has no run and a run has no request, it is taken back.
 */
struct crossing {
	struct correlator *c;
	uint64_t *runs; /* outermost ones that are nobody's, by their start */
	uint64_t n_runs;
	const uint32_t *order; /* all requests, by when they can have begun */
	uint32_t *requests; /* those without a run, in that order */
	uint64_t *until;    /* until when one of them, and of those before, can have had a run */
	uint32_t n_requests;
};

/* Requests that can be open at once on a connection, and more. */
#define NEAR_MAX 4096

/* Whether the run can have been that request's, by their times. */
static bool fits(struct correlator *c, const struct span *run, const struct request *q)
{
	bool read = !q->read_end_ns || q->read_end_ns <= run->start_ns;

	return read && q->process == c->t->threads[run->thread].process && (!q->write_start_ns || run->end_ns <= q->write_start_ns);
}

/* Whose reading was not seen can have been read at any time. */
static uint64_t earliest(const struct requests *r, uint32_t request)
{
	return r->list[request].read_end_ns ? r->list[request].start_ns : r->states[request].since_ns;
}

/* Another request that has no run, and that this run can be of. */
static bool has_other_request(const struct crossing *x, const struct span *run, uint32_t request, bool same_connection)
{
	const struct requests *r = x->c->requests;
	uint32_t low = 0, high = x->n_requests;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (earliest(r, x->requests[middle]) <= run->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint32_t i = low; i > 0 && x->until[i - 1] >= run->end_ns; i--) {
		uint32_t other = x->requests[i - 1];

		/* Rather nobody's than another's. */
		if (low - i == NEAR_MAX)
			return true;
		if (same_connection && r->states[other].connection != r->states[request].connection)
			continue;
		if (other != request && fits(x->c, run, &r->list[other]))
			return true;
	}
	return false;
}

static bool has_other_run(const struct crossing *x, const struct request *q)
{
	uint64_t low = 0, high = x->n_runs;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (span_at(x->c, x->runs[middle])->start_ns < q->read_end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint64_t i = low; i < x->n_runs && i - low < NEAR_MAX; i++) {
		const struct span *run = span_at(x->c, x->runs[i]);

		if (q->write_start_ns && run->start_ns > q->write_start_ns)
			break;
		if (fits(x->c, run, q))
			return true;
	}
	return false;
}

/* Spans are in order of time. */
static void crossing_fill(struct crossing *x)
{
	struct correlator *c = x->c;
	struct requests *r = c->requests;

	x->n_runs = 0;
	x->n_requests = 0;
	for (uint64_t i = 0; i < c->t->n_spans; i++)
		if (c->t->spans[i].kind == SPAN_RUN && !c->t->spans[i].request && !(c->t->spans[i].flags & SPAN_INNER))
			x->runs[x->n_runs++] = i;
	for (uint32_t i = 0; i < r->n; i++) {
		const struct request *q = &r->list[x->order[i]];
		uint64_t until = q->write_start_ns ?: UINT64_MAX;

		if (q->n_runs)
			continue;
		x->until[x->n_requests] = x->n_requests ? MAX(x->until[x->n_requests - 1], until) : until;
		x->requests[x->n_requests++] = x->order[i];
	}
}

/* Whether any claim was taken back. */
static bool take_back(struct crossing *x)
{
	struct correlator *c = x->c;
	struct requests *r = c->requests;
	bool changed = false;

	for (uint64_t i = 0; i < c->t->n_spans && x->n_requests && x->n_runs; i++) {
		struct span *run = span_at(c, i);
		uint32_t request = run->request - 1;
		bool last;

		if (run->kind != SPAN_RUN || !run->request)
			continue;
		/* Another one waited, too: it was read before the window, or what was seen of its run was taken back. */
		if (run->flags & SPAN_INFERRED && has_other_request(x, run, request, false)) {
			unclaim(c, i);
			changed = true;
		}
		if (!run->request || run->flags & SPAN_INFERRED || r->list[request].read_thread == run->thread)
			continue;
		/* The last run before an answer can only have been another request's of that connection; one before it, of any. */
		last = r->states[request].last_run == i;
		if (last && r->list[request].protocol != PROTOCOL_HTTP2)
			continue;
		if (!has_other_request(x, run, request, last) || (last && !has_other_run(x, &r->list[request])))
			continue;
		unclaim(c, i);
		changed = true;
	}
	return changed;
}

/* Where records were lost, or an answer may have been another's, nothing is said. */
static void drop_doubtful(struct correlator *c)
{
	struct requests *r = c->requests;

	for (uint64_t i = 0; i < c->t->n_spans; i++) {
		const struct span *s = span_at(c, i);

		if (s->kind == SPAN_RUN && s->request &&
		    (r->states[s->request - 1].doubtful || (r->n_losses && requests_lost_within(r, s->start_ns, s->end_ns))))
			unclaim(c, i);
	}
}

static void conclude(struct requests *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		r->list[i].attribution = !r->list[i].n_runs ? ATTRIBUTION_NONE : r->states[i].n_inferred ? ATTRIBUTION_INFERRED : ATTRIBUTION_EXACT;
}

static int compare_starts(const void *a, const void *b, void *requests)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = earliest(requests, i), y = earliest(requests, k);

	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? -1 : 1;
}

void attribution_close(struct correlator *c)
{
	struct crossing x = { .c = c };
	_cleanup_free_ uint32_t *order = NULL;

	for (uint32_t i = 0; i < c->t->n_threads && i < c->requests->threads_size && !c->error; i++)
		resolve(c, &c->requests->threads[i]);
	if (c->error || !c->requests->n)
		return;
	x.runs = malloc((c->t->n_spans + 1) * sizeof(x.runs[0]));
	x.requests = malloc(((size_t)c->requests->n + 1) * sizeof(x.requests[0]));
	x.until = malloc(((size_t)c->requests->n + 1) * sizeof(x.until[0]));
	x.order = order = malloc(((size_t)c->requests->n + 1) * sizeof(order[0]));
	if (!x.runs || !x.requests || !x.until || !order)
		c->error = -ENOMEM;
	for (uint32_t i = 0; order && i < c->requests->n; i++)
		order[i] = i;
	if (order)
		qsort_r(order, c->requests->n, sizeof(order[0]), compare_starts, c->requests);
	/* Each that is taken back may make others doubtful. */
	for (unsigned round = 0; round < ROUNDS_MAX && !c->error; round++) {
		crossing_fill(&x);
		if (!take_back(&x))
			break;
	}
	free(x.runs);
	free(x.requests);
	free(x.until);
	drop_doubtful(c);
	conclude(c->requests);
}
