/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/lifetime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/timeline/critical_path.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/base/parallel.h"
#include "lib/base/search.h"

/* Requests are divided into portions, which the workers take one after the other. */
#define PORTIONS_MAX 16
#define PORTION_REQUESTS 256
#define WORKERS 4
/* Limits the entries of one thread and request, one after the other, that are skipped. */
#define FINISHED_SAME_MAX 64

/* A thread finished a part of its work for a request. */
struct finished {
	uint64_t at_ns;
	uint32_t thread, request;
};

/* A thread reads or answers a request within that time. */
struct turn {
	uint64_t from_ns, until_ns;
	uint32_t thread, request;
};

struct lifetimes {
	struct timeline *t;
	struct span_index *index;
	uint64_t *runs_first;      /* of each request, and the end */
	const struct span **runs;  /* by (request, the last end first) */
	struct finished *finished; /* by (thread, time) */
	uint64_t n_finished;
	bool *undivided; /* requests without a run that one thread had, and no other meanwhile */
	struct portion {
		uint32_t first, end;  /* its requests */
		struct segment *path; /* of the request at hand */
		struct segment *segments;
		uint64_t n_segments, segments_size, segments_max;
		uint64_t place; /* of its segments in the timeline's */
		uint64_t n_truncated;
		int error;
	} portions[PORTIONS_MAX];
	unsigned n_portions;
};

/* The boundaries of one request. */
struct bounds {
	uint64_t start, end;
	uint64_t write_start; /* end: unknown */
	bool handler, write_known;
};

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return MIN(MAX(value, low), high);
}

static int compare_runs(const void *a, const void *b)
{
	const struct span *x = *(const struct span *const *)a, *y = *(const struct span *const *)b;

	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int compare_finished(const void *a, const void *b)
{
	const struct finished *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* Of a run. */
static bool is_run_of_request(const struct timeline *t, const struct span *s)
{
	return s->request && s->request <= t->n_requests;
}

/* Of a run. */
static bool is_orphan(const struct span *s)
{
	return !s->request && !(s->flags & (SPAN_INNER | SPAN_MARK));
}

static int collect_runs(struct lifetimes *l)
{
	const struct timeline *t = l->t;
	uint64_t n = 0, n_orphans = 0;

	l->runs_first = calloc((size_t)t->n_requests + 1, sizeof(l->runs_first[0]));
	if (!l->runs_first)
		return -ENOMEM;
	TIMELINE_EACH (t, i, 1 << SPAN_RUN)
		if (is_run_of_request(t, &t->spans[i]))
			l->runs_first[t->spans[i].request]++;
	for (uint32_t i = 0; i < t->n_requests; i++)
		l->runs_first[i + 1] += l->runs_first[i];
	l->runs = calloc(MAX(l->runs_first[t->n_requests], 1u), sizeof(l->runs[0]));
	TIMELINE_EACH (t, i, 1 << SPAN_RUN)
		n_orphans += is_orphan(&t->spans[i]);
	l->finished = calloc(MAX(l->runs_first[t->n_requests] + t->n_requests + n_orphans, 1u),
			     sizeof(l->finished[0]));
	if (!l->runs || !l->finished)
		return -ENOMEM;
	TIMELINE_EACH (t, i, 1 << SPAN_RUN)
		if (is_run_of_request(t, &t->spans[i]))
			l->runs[n++] = &t->spans[i];
	qsort(l->runs, n, sizeof(l->runs[0]), compare_runs);
	for (uint64_t i = 0; i < n; i++)
		l->finished[l->n_finished++] =
			(struct finished){ l->runs[i]->end_ns, l->runs[i]->thread,
					   l->runs[i]->request - 1 };
	/* A thread that does a run without a request is busy, too. */
	TIMELINE_EACH (t, i, 1 << SPAN_RUN)
		if (is_orphan(&t->spans[i]))
			l->finished[l->n_finished++] =
				(struct finished){ t->spans[i].end_ns, t->spans[i].thread,
						   UINT32_MAX };
	for (uint32_t i = 0; i < t->n_requests; i++)
		if (t->requests[i].write_thread < t->n_threads && t->requests[i].write_start_ns)
			l->finished[l->n_finished++] =
				(struct finished){ t->requests[i].held_ns ?: t->requests[i].end_ns,
						   t->requests[i].write_thread, i };
	qsort(l->finished, l->n_finished, sizeof(l->finished[0]), compare_finished);
	return 0;
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static uint64_t list_turns(const struct timeline *t, struct turn *ret)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *r = &t->requests[i];
		struct turn turn = { r->read_start_ns ?: r->start_ns, r->held_ns ?: r->end_ns,
				     r->read_thread, i };

		ret[n++] = turn;
		turn.thread = r->write_thread;
		if (r->write_thread != r->read_thread)
			ret[n++] = turn;
	}
	if (n)
		qsort(ret, n, sizeof(ret[0]), compare_turns);
	return n;
}

/* Finds the requests without a run that one thread read and answered, and no other request
 * meanwhile. */
static int find_undivided(struct lifetimes *l)
{
	const struct timeline *t = l->t;
	_cleanup_free_ struct turn *turns = NULL;
	uint64_t n, busy_until = 0;
	uint32_t with_run = 0;

	for (uint32_t i = 0; i < t->n_requests; i++)
		with_run += l->runs_first[i] < l->runs_first[i + 1];
	if (with_run == t->n_requests)
		return 0;
	l->undivided = calloc(t->n_requests, sizeof(l->undivided[0]));
	turns = malloc(2 * (size_t)t->n_requests * sizeof(turns[0]));
	if (!l->undivided || !turns)
		return -ENOMEM;
	n = list_turns(t, turns);
	for (uint64_t i = 0; i < n; i++) {
		const struct turn *turn = &turns[i];
		const struct request *r = &t->requests[turn->request];

		if (i && turn->thread != turn[-1].thread)
			busy_until = 0;
		l->undivided[turn->request] = r->read_thread == r->write_thread && r->read_end_ns &&
					      r->write_start_ns && busy_until <= r->read_end_ns &&
					      (i + 1 == n || turn[1].thread != turn->thread ||
					       turn[1].from_ns >= r->write_start_ns);
		busy_until = MAX(busy_until, turn->until_ns);
	}
	return 0;
}

/* When the thread last finished work for another request, until that time; 0: never, as far as
 * known. */
static uint64_t finished_before(const struct lifetimes *l, uint32_t thread, uint64_t at,
				uint32_t request)
{
	uint64_t n =
		SEARCH_FIRST(l->n_finished, i,
			     l->finished[i].thread < thread || (l->finished[i].thread == thread &&
								l->finished[i].at_ns <= at));

	for (unsigned int i = 0;
	     i < FINISHED_SAME_MAX && n > 0 && l->finished[n - 1].thread == thread; i++, n--)
		if (l->finished[n - 1].request != request)
			return l->finished[n - 1].at_ns;
	return 0;
}

/* When the thread next got a CPU, if it was not on one at that time. */
static uint64_t on_cpu_from(const struct lifetimes *l, uint32_t thread, uint64_t at, uint64_t until)
{
	while (at < until) {
		const struct span *off = span_index_off_before(l->index, thread, at + 1);

		if (!off || off->end_ns <= at)
			break;
		at = off->end_ns;
	}
	return MIN(at, until);
}

/* When, between the request's last byte and its first run, the run's thread took up the request. */
static uint64_t taken_up(const struct lifetimes *l, uint32_t index, const struct span *run,
			 uint64_t read_end, uint64_t run_start)
{
	const struct request *r = &l->t->requests[index];
	uint64_t at = clamp(finished_before(l, run->thread, run_start, index), read_end, run_start),
		 taken;
	const struct span *off;

	/* The thread that read the request has it, unless it still worked for another one. */
	if (run->thread == r->read_thread || run_start > span_index_known_until(l->index))
		return at;
	taken = on_cpu_from(l, run->thread, at, run_start);
	if (at > read_end || taken > at)
		return taken;
	/* It was about to wait for work: then the request's reader woke it for this one. */
	off = span_index_off_after(l->index, run->thread, at);
	if (off && off->kind == SPAN_BLOCKED && off->waker == r->read_thread &&
	    off->end_ns <= run_start)
		taken = on_cpu_from(l, run->thread, off->start_ns, run_start);
	return taken;
}

static uint32_t known_thread(const struct lifetimes *l, uint32_t thread)
{
	return thread < l->t->n_threads ? thread : THREAD_NONE;
}

/* When its messages were read and written is unknown. */
static bool is_streaming(const struct request *r)
{
	return r->flags & REQUEST_STREAMING;
}

static struct bounds bounds_of(const struct request *r)
{
	uint64_t end = r->held_ns ? clamp(r->held_ns, r->start_ns, r->end_ns) : r->end_ns;
	struct bounds b = { .start = r->start_ns, .end = end, .write_start = end };

	b.handler = r->protocol == PROTOCOL_HANDLER || r->protocol == PROTOCOL_MARK;
	b.write_known = r->write_start_ns && !b.handler && !is_streaming(r);
	if (b.write_known)
		b.write_start = clamp(r->write_start_ns, b.start, b.end);
	return b;
}

/* The thread of a handler that has no run. */
static uint32_t handler_thread(const struct lifetimes *l, const struct request *r)
{
	return r->read_thread < l->t->n_threads ? r->read_thread : known_thread(l, r->run_thread);
}

/* Of a thread, from its run to the answer. */
#define ANSWER_SPANS_MAX 64

/* Until when the thread that did the run can have made the answer, which another thread sent: then
 * it blocked for something else. */
static uint64_t answer_made(const struct lifetimes *l, uint32_t thread, uint64_t run_end,
			    uint64_t write_start)
{
	const struct span *off;
	uint64_t at = run_end;

	/* This advances always, whatever the end of the span. */
	for (unsigned i = 0; i < ANSWER_SPANS_MAX && at < write_start;
	     i++, at = MAX(off->start_ns + 1, off->end_ns + 1)) {
		off = span_index_off_after(l->index, thread, at);
		if (!off || off->start_ns >= write_start)
			break;
		if (off->kind == SPAN_BLOCKED)
			return MAX(off->start_ns, run_end);
	}
	return write_start;
}

/* Fills the path from the end of the last run on. thread: THREAD_NONE: its work went on elsewhere.
 */
static void fill_answer(struct lifetimes *l, struct path *p, const struct request *r,
			const struct bounds *b, uint32_t thread, uint64_t run_end)
{
	uint32_t writer = known_thread(l, r->write_thread);
	/* At the library the answer was passed when the request ended, and is not written. */
	bool passed = b->write_known ||
		      (r->flags & REQUEST_AT_LIBRARY && !is_streaming(r) && writer != THREAD_NONE);
	bool known = passed || b->handler;

	if (b->write_known)
		path_fill(p, PHASE_WRITE, writer, MAX(b->write_start, run_end));
	if (thread == THREAD_NONE) {
		path_fill(p, PHASE_UNKNOWN, writer, run_end);
		return;
	}
	/* Between two threads the answer is in a queue. Without scheduler records the time when it
	 * was put there is unknown. */
	if (passed && writer != thread && writer != THREAD_NONE) {
		if (b->write_start > span_index_known_until(l->index))
			path_fill(p, PHASE_UNKNOWN, thread, run_end);
		else
			path_fill(p, PHASE_QUEUE, writer,
				  answer_made(l, thread, run_end, b->write_start));
	}
	/* The answer of a request that is truncated there had not begun. */
	known |= r->flags & REQUEST_TRUNCATED_END && !is_streaming(r);
	path_fill(p, known ? PHASE_ENCODE : PHASE_UNKNOWN, thread, run_end);
}

/* Fills the path until the first run begins, or until the time of unknown work. */
static void fill_arrival(struct lifetimes *l, struct path *p, const struct request *r,
			 const struct bounds *b, uint64_t read_start)
{
	uint32_t thread = known_thread(l, r->read_thread);

	path_fill(p, PHASE_READ, thread, read_start);
	path_fill(p, r->flags & REQUEST_NO_ARRIVAL ? PHASE_READ : PHASE_QUEUE, thread,
		  clamp(r->accepted_ns, b->start, read_start));
	path_fill(p, PHASE_ACCEPT_QUEUE, THREAD_NONE, b->start);
}

static void fill_without_run(struct lifetimes *l, struct path *p, const struct request *r,
			     const struct bounds *b)
{
	uint64_t read_start = clamp(r->read_start_ns, b->start, b->end),
		 read_end = clamp(r->read_end_ns, read_start, b->end);
	uint32_t thread = known_thread(l, r->write_thread);

	if (b->handler) {
		path_fill(p, PHASE_UNKNOWN, handler_thread(l, r), b->start);
		return;
	}
	if (is_streaming(r)) {
		path_fill(p, PHASE_UNKNOWN, thread, read_start);
		fill_arrival(l, p, r, b, read_start);
		return;
	}
	/* Its bytes were still being read when the window closed. */
	if (!r->read_end_ns && r->read_start_ns && !b->write_known &&
	    r->flags & REQUEST_TRUNCATED_END)
		read_end = b->end;
	if (b->write_known)
		path_fill(p, PHASE_WRITE, thread, MAX(b->write_start, read_end));
	/* NULL: each has a run, of which this one's are outside of it. */
	path_fill(p,
		  l->undivided && l->undivided[r - l->t->requests] ? PHASE_HANDLER : PHASE_UNKNOWN,
		  thread == THREAD_NONE ? known_thread(l, r->read_thread) : thread, read_end);
	fill_arrival(l, p, r, b, read_start);
}

/* Fills the path from the request's start to its first run, where the cursor is. */
static void fill_until_run(struct lifetimes *l, struct path *p, const struct request *r,
			   const struct bounds *b, const struct span *run)
{
	uint64_t run_start = p->at, read_start = clamp(r->read_start_ns, b->start, run_start);
	uint64_t read_end = clamp(r->read_end_ns, read_start, run_start);
	uint64_t taken;

	if (b->handler) {
		path_fill(p, PHASE_DECODE, run->thread, b->start);
		return;
	}
	if (r->taken_ns && !is_streaming(r)) {
		path_fill(p, PHASE_DECODE, run->thread, r->taken_ns);
		path_fill(p, PHASE_QUEUE, run->thread, read_start);
	} else if (is_streaming(r) || (!r->read_end_ns && !(r->flags & REQUEST_AT_LIBRARY))) {
		path_fill(p, PHASE_UNKNOWN, run->thread, read_start);
	} else {
		taken = taken_up(l, (uint32_t)(r - l->t->requests), run, read_end, run_start);
		/* Without scheduler records it is unknown when a thread that did not read the
		 * request took it up. */
		if (run->thread != r->read_thread && run_start > span_index_known_until(l->index))
			path_fill(p, PHASE_UNKNOWN, run->thread, taken);
		path_fill(p, PHASE_DECODE, run->thread, taken);
		path_fill(p, PHASE_QUEUE, run->thread, read_end);
	}
	fill_arrival(l, p, r, b, read_start);
}

/* Whether what lies between two runs is the request's, too: it has its thread for itself. */
static bool is_own_work(const struct request *r, const struct span *run, const struct span *next)
{
	return r->attribution == ATTRIBUTION_EXACT && !is_streaming(r) &&
	       run->thread == next->thread &&
	       (run->thread == r->read_thread || run->thread == r->write_thread);
}

/* The thread that did the last of the run's work, and in *end when: for a run that hands its work
 * over that of its batch, THREAD_NONE if no batch was seen. */
static uint32_t last_thread(const struct lifetimes *l, const struct span *run,
			    const struct bounds *b, uint64_t *end)
{
	uint32_t number = path_batch_after(l->index, run, b->write_start);
	const struct batch *batch = number == INDEX_NONE ? NULL : &l->t->batches[number];

	if (!batch)
		return run->flags & SPAN_HANDED_OVER ? THREAD_NONE : run->thread;
	*end = MAX(*end, MIN(batch->end_ns, b->write_start));
	return known_thread(l, batch->thread);
}

static void tell_request(struct lifetimes *l, struct path *p, uint32_t index)
{
	struct request *r = &l->t->requests[index];
	struct bounds b = bounds_of(r);
	const struct span *first = NULL;

	path_fill(p, PHASE_SEND_HELD, THREAD_NONE, b.end);
	for (uint64_t i = l->runs_first[index]; i < l->runs_first[index + 1]; i++) {
		const struct span *run = l->runs[i];
		uint64_t from = clamp(run->start_ns, b.start, b.end),
			 to = clamp(run->end_ns, from, b.end);
		uint32_t thread;

		if (run->start_ns > b.end || run->end_ns < b.start)
			continue;
		/* Its end was not seen: it had ended when the answer was sent. */
		if (run->flags & SPAN_END_NOT_SEEN && from < b.write_start)
			to = MIN(to, b.write_start);
		thread = last_thread(l, run, &b, &to);
		if (!first)
			fill_answer(l, p, r, &b, thread, to);
		else
			path_fill(p, is_own_work(r, run, first) ? PHASE_HANDLER : PHASE_UNKNOWN,
				  run->thread, to);
		path_execute(p, run, from);
		if (!first || run->start_ns < first->start_ns)
			first = run;
	}
	if (first) {
		r->run_thread = first->thread;
		fill_until_run(l, p, r, &b, first);
	} else {
		fill_without_run(l, p, r, &b);
		if (!b.handler)
			r->run_thread = THREAD_NONE;
	}
}

static int make_request(struct lifetimes *l, struct portion *o, uint32_t index)
{
	struct request *r = &l->t->requests[index];
	/* Each of the remaining requests needs at least one. */
	uint64_t left = o->segments_max - o->n_segments - (o->end - index - 1);
	struct path p;
	int k;

	memset(r->phases, 0, sizeof(r->phases));
	r->first_segment = o->n_segments;
	r->n_segments = 0;
	if (r->end_ns < r->start_ns)
		return 0;
	path_begin(&p, l->index, o->path, (uint32_t)MIN(left, (uint64_t)PATH_SEGMENTS_MAX),
		   r->end_ns);
	tell_request(l, &p, index);
	o->n_truncated += p.full;
	path_end(&p, r->start_ns);
	k = array_reserve(&o->segments, o->n_segments, &o->segments_size, sizeof(o->segments[0]),
			  p.n);
	if (k < 0)
		return k;
	while (p.n > 0) {
		const struct segment *s = &p.segments[--p.n];

		r->phases[s->phase] += s->end_ns - s->start_ns;
		o->segments[o->n_segments++] = *s;
		r->n_segments++;
	}
	return 0;
}

static void make_portion(unsigned i, void *data)
{
	struct lifetimes *l = data;
	struct portion *o = &l->portions[i];

	o->path = malloc(PATH_SEGMENTS_MAX * sizeof(o->path[0]));
	o->error = o->path ? 0 : -ENOMEM;
	for (uint32_t k = o->first; k < o->end && o->error == 0; k++)
		o->error = make_request(l, o, k);
	free(TAKE_PTR(o->path));
}

/* Each has its part of the segments. */
static void divide(struct lifetimes *l, uint64_t segments_max)
{
	uint32_t n = l->t->n_requests;

	l->n_portions = MIN(n / PORTION_REQUESTS + 1, PORTIONS_MAX);
	for (unsigned i = 0; i < l->n_portions; i++) {
		struct portion *o = &l->portions[i];

		o->first = (uint32_t)((uint64_t)n * i / l->n_portions);
		o->end = (uint32_t)((uint64_t)n * (i + 1) / l->n_portions);
		o->segments_max = segments_max * (o->end - o->first) / n;
	}
}

static void place_portion(unsigned i, void *data)
{
	struct lifetimes *l = data;
	struct portion *o = &l->portions[i];

	for (uint32_t k = o->first; k < o->end; k++)
		l->t->requests[k].first_segment += o->place;
	if (o->n_segments)
		memcpy(l->t->segments + o->place, o->segments,
		       o->n_segments * sizeof(o->segments[0]));
	free(TAKE_PTR(o->segments));
}

/* Puts the portions' segments behind each other. */
static int join(struct lifetimes *l)
{
	struct timeline *t = l->t;

	for (unsigned i = 0; i < l->n_portions; i++) {
		struct portion *o = &l->portions[i];

		if (o->error < 0)
			return o->error;
		o->place = t->n_segments;
		t->n_segments += o->n_segments;
		t->n_paths_truncated += o->n_truncated;
	}
	t->segments = malloc(MAX(t->n_segments, 1u) * sizeof(t->segments[0]));
	if (!t->segments) {
		t->n_segments = 0;
		return -ENOMEM;
	}
	parallel_run(WORKERS, l->n_portions, place_portion, l);
	return 0;
}

static int make_all(struct timeline *t, uint64_t segments_max)
{
	struct lifetimes l = { .t = t };
	int r;

	free(TAKE_PTR(t->segments));
	t->n_segments = 0;
	t->n_paths_truncated = 0;
	if (!t->n_requests)
		return 0;
	divide(&l, MAX(segments_max, t->n_requests));
	r = span_index_new(t, &l.index);
	if (r == 0)
		r = collect_runs(&l);
	if (r == 0)
		r = find_undivided(&l);
	if (r == 0) {
		parallel_run(WORKERS, l.n_portions, make_portion, &l);
		r = join(&l);
	}
	for (unsigned i = 0; i < l.n_portions; i++)
		free(l.portions[i].segments);
	span_index_free(l.index);
	free(l.runs_first);
	free(l.runs);
	free(l.finished);
	free(l.undivided);
	return r;
}

int lifetime_make(struct timeline *t)
{
	return make_all(t, LIFETIME_SEGMENTS_MAX);
}
