/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/span_index.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/macro.h"
#include "lib/base/map.h"

/* Runs within runs; deeper ones are roots of their own. */
#define NESTING_MAX 32
/* Batches of one run that overlap one another. */
#define BATCHES_AT_ONCE 16

struct work {
	uint32_t span, above;
};

struct context {
	uint32_t above, root, batch;
};

struct piece {
	uint64_t start_ns;
	uint32_t span, root;
	uint32_t latest; /* the span that ends last, of this and the ones before it */
};

struct task {
	uint32_t root, index;
};

struct span_index {
	const struct timeline *t;
	uint64_t *work_first, *off_first; /* of each thread, and the end */
	struct work *work; /* runs, their pieces, operations, batches and handlers, in the order of
			      the spans */
	uint32_t *off;     /* off-CPU spans in their order */
	struct map context_of; /* index into contexts */
	struct context *contexts;
	uint32_t n_contexts;
	uint64_t *pieces_first, *tasks_first; /* of each root, and the end */
	struct piece *pieces;                 /* by (root, start) */
	struct task *tasks;                   /* by (root, batch, time) */
	uint32_t *root_of_batch;
	uint64_t known_until;
};

static bool is_off(const struct span *s)
{
	return s->kind == SPAN_BLOCKED || s->kind == SPAN_RUNNABLE || s->kind == SPAN_THROTTLED;
}

static bool is_work(const struct span *s)
{
	return !is_off(s) && s->kind != SPAN_SCHEDULE && s->kind != SPAN_LABEL &&
	       s->kind != SPAN_ITERATOR;
}

static bool has_context(const struct span *s)
{
	return s->context && s->context != UINT64_MAX &&
	       (s->kind == SPAN_RUN || s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE ||
		s->kind == SPAN_BATCH);
}

static void *array_of(uint64_t n, size_t element)
{
	return calloc(MAX(n, 1u), element);
}

/* One list of spans for each thread, and for each span of work the one that encloses it. */
static int index_threads(struct span_index *x)
{
	const struct timeline *t = x->t;
	uint64_t n_work = 0, n_off = 0;
	uint32_t above = INDEX_NONE;

	x->work_first = array_of((uint64_t)t->n_threads + 1, sizeof(x->work_first[0]));
	x->off_first = array_of((uint64_t)t->n_threads + 1, sizeof(x->off_first[0]));
	if (!x->work_first || !x->off_first)
		return -ENOMEM;
	for (uint64_t i = 0; i < t->n_spans; i++) {
		x->work_first[t->spans[i].thread + 1] += is_work(&t->spans[i]);
		x->off_first[t->spans[i].thread + 1] += is_off(&t->spans[i]);
	}
	for (uint32_t i = 0; i < t->n_threads; i++) {
		x->work_first[i + 1] += x->work_first[i];
		x->off_first[i + 1] += x->off_first[i];
	}
	x->work = array_of(x->work_first[t->n_threads], sizeof(x->work[0]));
	x->off = array_of(x->off_first[t->n_threads], sizeof(x->off[0]));
	if (!x->work || !x->off)
		return -ENOMEM;
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];

		if (!i || s[-1].thread != s->thread)
			above = INDEX_NONE;
		if (is_off(s))
			x->off[n_off++] = (uint32_t)i;
		if (!is_work(s))
			continue;
		while (above != INDEX_NONE && span_index_work(x, above)->end_ns <= s->start_ns)
			above = x->work[above].above;
		x->work[n_work] = (struct work){ .span = (uint32_t)i, .above = above };
		above = (uint32_t)n_work++;
	}
	return 0;
}

/* Whether threads ran is unknown without scheduler records, and after these ended early. */
static void find_known_until(struct span_index *x)
{
	const struct timeline *t = x->t;
	uint64_t n_off = x->off_first[t->n_threads];

	x->known_until = 0;
	if (!t->n_slices && !n_off)
		return;
	for (uint64_t i = 0; i < t->n_slices; i++)
		x->known_until = MAX(x->known_until, t->slices[i].end_ns);
	for (uint64_t i = 0; i < n_off; i++)
		x->known_until = MAX(x->known_until, t->spans[x->off[i]].end_ns);
	for (uint32_t i = 0; i < t->n_gaps; i++)
		if (t->gaps[i].of < GAP_OF_EXECUTORS)
			return;
	x->known_until = UINT64_MAX;
}

static uint32_t context_index(const struct span_index *x, uint64_t context)
{
	uint64_t *found =
		context && context != UINT64_MAX ? map_get(&x->context_of, context) : NULL;

	return found ? (uint32_t)*found : INDEX_NONE;
}

/* The context of what encloses a run on its thread. */
static uint32_t context_above(const struct span_index *x, uint32_t work)
{
	uint64_t own = span_index_work(x, work)->context;
	unsigned int depth = 0;

	for (work = x->work[work].above; work != INDEX_NONE && depth < NESTING_MAX;
	     work = x->work[work].above, depth++)
		if (has_context(span_index_work(x, work)) &&
		    span_index_work(x, work)->context != own)
			return context_index(x, span_index_work(x, work)->context);
	return INDEX_NONE;
}

static int index_contexts(struct span_index *x)
{
	const struct timeline *t = x->t;
	uint64_t n_work = x->work_first[t->n_threads];

	for (uint64_t i = 0; i < n_work; i++) {
		const struct span *s = span_index_work(x, (uint32_t)i);

		if (!has_context(s) || map_get(&x->context_of, s->context))
			continue;
		if (map_put(&x->context_of, s->context, x->n_contexts) < 0)
			return -ENOMEM;
		x->n_contexts++;
	}
	x->contexts = array_of(x->n_contexts, sizeof(x->contexts[0]));
	x->root_of_batch = array_of(t->n_batches, sizeof(x->root_of_batch[0]));
	if (!x->contexts || !x->root_of_batch)
		return -ENOMEM;
	for (uint32_t i = 0; i < x->n_contexts; i++)
		x->contexts[i] =
			(struct context){ .above = INDEX_NONE, .root = i, .batch = INDEX_NONE };
	for (uint32_t i = 0; i < t->n_batches; i++)
		x->root_of_batch[i] = INDEX_NONE;
	for (uint64_t i = 0; i < n_work; i++) {
		const struct span *s = span_index_work(x, (uint32_t)i);
		struct context *c =
			has_context(s) ? &x->contexts[context_index(x, s->context)] : NULL;

		if (c && s->kind == SPAN_RUN && c->above == INDEX_NONE)
			c->above = context_above(x, (uint32_t)i);
		if (c && s->kind == SPAN_BATCH && c->batch == INDEX_NONE && s->batch >= 0 &&
		    (uint64_t)s->batch < t->n_batches)
			c->batch = (uint32_t)s->batch;
	}
	for (uint32_t i = 0; i < x->n_contexts; i++) {
		uint32_t root = i;

		for (unsigned int depth = 0;
		     depth < NESTING_MAX && x->contexts[root].above != INDEX_NONE; depth++)
			root = x->contexts[root].above;
		x->contexts[i].root = root;
	}
	for (uint32_t i = 0; i < x->n_contexts; i++)
		if (x->contexts[i].batch != INDEX_NONE)
			x->root_of_batch[x->contexts[i].batch] = x->contexts[i].root;
	return 0;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->root != y->root)
		return x->root < y->root ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->span < y->span ? -1 : x->span > y->span;
}

static bool is_piece(const struct span *s)
{
	return has_context(s) && (s->kind == SPAN_EXECUTOR || s->kind == SPAN_DONE) &&
	       s->end_ns > s->start_ns;
}

static int index_pieces(struct span_index *x)
{
	const struct timeline *t = x->t;
	uint64_t n_work = x->work_first[t->n_threads], n = 0;

	for (uint64_t i = 0; i < n_work; i++)
		n += is_piece(span_index_work(x, (uint32_t)i));
	x->pieces = array_of(n, sizeof(x->pieces[0]));
	x->pieces_first = array_of((uint64_t)x->n_contexts + 1, sizeof(x->pieces_first[0]));
	if (!x->pieces || !x->pieces_first)
		return -ENOMEM;
	n = 0;
	for (uint64_t i = 0; i < n_work; i++) {
		const struct span *s = span_index_work(x, (uint32_t)i);

		if (!is_piece(s))
			continue;
		x->pieces[n] =
			(struct piece){ .start_ns = s->start_ns,
					.span = x->work[i].span,
					.root = x->contexts[context_index(x, s->context)].root };
		x->pieces_first[x->pieces[n++].root + 1]++;
	}
	for (uint32_t i = 0; i < x->n_contexts; i++)
		x->pieces_first[i + 1] += x->pieces_first[i];
	qsort(x->pieces, n, sizeof(x->pieces[0]), compare_pieces);
	for (uint64_t i = 0; i < n; i++) {
		struct piece *p = &x->pieces[i];

		p->latest = p->span;
		if (i && p[-1].root == p->root &&
		    t->spans[p[-1].latest].end_ns > t->spans[p->span].end_ns)
			p->latest = p[-1].latest;
	}
	return 0;
}

static int compare_tasks(const void *a, const void *b, void *timeline)
{
	const struct task *x = a, *y = b;
	const struct batch_task *tasks = ((const struct timeline *)timeline)->batch_tasks;
	const struct batch_task *p = &tasks[x->index], *q = &tasks[y->index];

	if (x->root != y->root)
		return x->root < y->root ? -1 : 1;
	if (p->batch != q->batch)
		return p->batch < q->batch ? -1 : 1;
	return p->queued_ns < q->queued_ns ? -1 : p->queued_ns > q->queued_ns;
}

static int index_tasks(struct span_index *x)
{
	const struct timeline *t = x->t;
	uint64_t n = 0;

	x->tasks = array_of(t->n_batch_tasks, sizeof(x->tasks[0]));
	x->tasks_first = array_of((uint64_t)x->n_contexts + 1, sizeof(x->tasks_first[0]));
	if (!x->tasks || !x->tasks_first)
		return -ENOMEM;
	for (uint64_t i = 0; i < t->n_batch_tasks; i++) {
		uint32_t root = span_index_root(x, t->batch_tasks[i].run);

		if (root == INDEX_NONE || t->batch_tasks[i].batch >= t->n_batches)
			continue;
		x->tasks[n++] = (struct task){ .root = root, .index = (uint32_t)i };
		x->tasks_first[root + 1]++;
	}
	for (uint32_t i = 0; i < x->n_contexts; i++)
		x->tasks_first[i + 1] += x->tasks_first[i];
	qsort_r(x->tasks, n, sizeof(x->tasks[0]), compare_tasks, (void *)t);
	return 0;
}

int span_index_new(const struct timeline *t, struct span_index **ret)
{
	struct span_index *x;
	int r;

	if (t->n_spans >= INDEX_NONE || t->n_batch_tasks >= INDEX_NONE)
		return -E2BIG;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->t = t;
	r = index_threads(x);
	if (r == 0)
		r = index_contexts(x);
	if (r == 0)
		r = index_pieces(x);
	if (r == 0)
		r = index_tasks(x);
	if (r < 0) {
		span_index_free(x);
		return r;
	}
	find_known_until(x);
	*ret = x;
	return 0;
}

struct span_index *span_index_free(struct span_index *x)
{
	if (!x)
		return NULL;
	free(x->work_first);
	free(x->off_first);
	free(x->work);
	free(x->off);
	map_done(&x->context_of);
	free(x->contexts);
	free(x->pieces_first);
	free(x->tasks_first);
	free(x->pieces);
	free(x->tasks);
	free(x->root_of_batch);
	free(x);
	return NULL;
}

const struct timeline *span_index_timeline(const struct span_index *x)
{
	return x->t;
}

uint64_t span_index_known_until(const struct span_index *x)
{
	return x->known_until;
}

/* How many of a thread's off-CPU spans begin before that time, counted from the first of all
 * threads. */
static uint64_t off_end(const struct span_index *x, uint32_t thread, uint64_t at)
{
	uint64_t low = x->off_first[thread], high = x->off_first[thread + 1];

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (x->t->spans[x->off[middle]].start_ns < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct span *span_index_off_before(const struct span_index *x, uint32_t thread, uint64_t at)
{
	uint64_t end;

	if (thread >= x->t->n_threads)
		return NULL;
	end = off_end(x, thread, at);
	return end > x->off_first[thread] ? &x->t->spans[x->off[end - 1]] : NULL;
}

const struct span *span_index_off_after(const struct span_index *x, uint32_t thread, uint64_t at)
{
	uint64_t end;

	if (thread >= x->t->n_threads)
		return NULL;
	end = off_end(x, thread, at);
	return end < x->off_first[thread + 1] ? &x->t->spans[x->off[end]] : NULL;
}

uint32_t span_index_work_before(const struct span_index *x, uint32_t thread, uint64_t at)
{
	uint64_t low, high, first;

	if (thread >= x->t->n_threads)
		return INDEX_NONE;
	first = low = x->work_first[thread];
	high = x->work_first[thread + 1];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (span_index_work(x, (uint32_t)middle)->start_ns < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first ? (uint32_t)(low - 1) : INDEX_NONE;
}

const struct span *span_index_work(const struct span_index *x, uint32_t work)
{
	return &x->t->spans[x->work[work].span];
}

uint32_t span_index_work_above(const struct span_index *x, uint32_t work)
{
	return x->work[work].above;
}

uint32_t span_index_root(const struct span_index *x, uint64_t context)
{
	uint32_t index = context_index(x, context);

	return index == INDEX_NONE ? INDEX_NONE : x->contexts[index].root;
}

uint32_t span_index_batch_of_root(const struct span_index *x, uint32_t root)
{
	return root == INDEX_NONE ? INDEX_NONE : x->contexts[root].batch;
}

uint32_t span_index_root_of_batch(const struct span_index *x, uint32_t batch)
{
	return x->root_of_batch[batch];
}

const struct span *span_index_latest_piece(const struct span_index *x, uint32_t root, uint64_t at)
{
	uint64_t low, high, first;

	if (root == INDEX_NONE)
		return NULL;
	first = low = x->pieces_first[root];
	high = x->pieces_first[root + 1];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (x->pieces[middle].start_ns < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first ? &x->t->spans[x->pieces[low - 1].latest] : NULL;
}

uint32_t span_index_latest_batch(const struct span_index *x, uint32_t root, uint64_t at)
{
	uint64_t low, high, first, best_end = 0;
	uint32_t best = INDEX_NONE;

	if (root == INDEX_NONE)
		return INDEX_NONE;
	first = low = x->tasks_first[root];
	high = x->tasks_first[root + 1];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (x->t->batches[x->t->batch_tasks[x->tasks[middle].index].batch].start_ns < at)
			low = middle + 1;
		else
			high = middle;
	}
	for (unsigned int i = 0; i < BATCHES_AT_ONCE && low > first; i++, low--) {
		uint32_t batch = x->t->batch_tasks[x->tasks[low - 1].index].batch;
		uint64_t end = MIN(x->t->batches[batch].end_ns, at);

		if (x->t->batches[batch].start_ns >= at || (best != INDEX_NONE && end <= best_end))
			continue;
		best = batch;
		best_end = end;
	}
	return best;
}

const struct batch_task *span_index_task(const struct span_index *x, uint32_t root, uint32_t batch)
{
	const struct batch_task *tasks = x->t->batch_tasks;
	uint64_t low, high, first;

	if (root == INDEX_NONE)
		return NULL;
	first = low = x->tasks_first[root];
	high = x->tasks_first[root + 1];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (tasks[x->tasks[middle].index].batch <= batch)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first && tasks[x->tasks[low - 1].index].batch == batch
		       ? &tasks[x->tasks[low - 1].index]
		       : NULL;
}
