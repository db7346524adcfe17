/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/request_summary.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

/* A whole request's latency, by its model's text. */
struct model_latency {
	uint32_t model;
	uint64_t ns;
};

uint64_t percentile(const uint64_t *sorted, uint64_t n, unsigned int percent)
{
	return n ? sorted[(n * percent + 99) / 100 - 1] : 0;
}

static int compare_durations(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_models(const void *a, const void *b)
{
	const struct model_latency *x = a, *y = b;

	if (x->model != y->model)
		return x->model < y->model ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static bool is_whole(const struct request *r)
{
	return !(r->flags & REQUEST_NOT_WHOLE);
}

static void count_requests(const struct timeline *t, struct request_summary *s)
{
	for (uint32_t i = 0; i < t->n_requests; i++) {
		unsigned flags = t->requests[i].flags;

		if (flags & REQUEST_FILTERED)
			s->n_filtered++;
		else if (flags & (REQUEST_TRUNCATED_START | REQUEST_TRUNCATED_END))
			s->n_truncated++;
		else if (flags & REQUEST_RESET)
			s->n_reset++;
		else if (flags & REQUEST_LOST)
			s->n_lost++;
		else
			s->n_whole++;
	}
}

static struct percentiles rank(uint64_t *durations, uint64_t n)
{
	struct percentiles p = {};

	for (uint64_t i = 0; i < n; i++)
		p.sum_ns += durations[i];
	/* Most phases have no time at all. */
	if (!p.sum_ns)
		return p;
	qsort(durations, n, sizeof(*durations), compare_durations);
	p.p50_ns = percentile(durations, n, 50);
	p.p90_ns = percentile(durations, n, 90);
	p.p99_ns = percentile(durations, n, 99);
	p.max_ns = durations[n - 1];
	return p;
}

static int rank_requests(const struct timeline *t, struct request_summary *s)
{
	_cleanup_free_ uint64_t *durations = malloc((s->n_whole + 1) * sizeof(*durations));

	if (!durations)
		return -ENOMEM;
	/* The latency comes after the phases. */
	for (unsigned phase = 0; phase <= PHASE_COUNT; phase++) {
		uint64_t n = 0;

		for (uint32_t i = 0; i < t->n_requests; i++) {
			const struct request *r = &t->requests[i];

			if (is_whole(r))
				durations[n++] = phase < PHASE_COUNT ? r->phases[phase]
								     : r->end_ns - r->start_ns;
		}
		*(phase < PHASE_COUNT ? &s->phases[phase] : &s->latency) = rank(durations, n);
	}
	return 0;
}

/* The most requests first; equal ones by name. */
static bool goes_before(const struct timeline *t, uint32_t model, uint64_t count,
			const struct request_model *other)
{
	return count != other->count ? count > other->count
				     : strcmp(t->texts[model], other->name) < 0;
}

/* Inserts a model into those that are kept. */
static int keep_model(const struct timeline *t, struct request_summary *s,
		      const struct model_latency *sorted, uint64_t n)
{
	struct request_model *last = &s->models[REQUEST_MODELS_MAX - 1];
	unsigned at = s->n_models;
	char *name;

	while (at && goes_before(t, sorted->model, n, &s->models[at - 1]))
		at--;
	if (at == REQUEST_MODELS_MAX) {
		s->n_models_left_out += n;
		return 0;
	}
	name = strdup(t->texts[sorted->model]);
	if (!name)
		return -ENOMEM;
	if (s->n_models == REQUEST_MODELS_MAX) {
		s->n_models_left_out += last->count;
		free(last->name);
		s->n_models--;
	}
	memmove(&s->models[at + 1], &s->models[at], (s->n_models++ - at) * sizeof(s->models[0]));
	s->models[at] = (struct request_model){ .name = name,
						.count = n,
						.p50_ns = sorted[(n * 50 + 99) / 100 - 1].ns,
						.p99_ns = sorted[(n * 99 + 99) / 100 - 1].ns };
	return 0;
}

static int rank_models(const struct timeline *t, struct request_summary *s)
{
	_cleanup_free_ struct model_latency *latencies =
		malloc((s->n_whole + 1) * sizeof(*latencies));
	uint64_t n = 0, end;
	int r = 0;

	if (!latencies)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_requests; i++) {
		const struct request *request = &t->requests[i];

		if (is_whole(request) && request->model < t->n_texts)
			latencies[n++] =
				(struct model_latency){ request->model,
							request->end_ns - request->start_ns };
	}
	qsort(latencies, n, sizeof(*latencies), compare_models);
	for (uint64_t first = 0; first < n && r >= 0; first = end) {
		for (end = first; end < n && latencies[end].model == latencies[first].model; end++)
			;
		r = keep_model(t, s, &latencies[first], end - first);
	}
	return r;
}

static void count_batches(const struct timeline *t, struct request_summary *s)
{
	for (uint32_t i = 0; i < t->n_batches; i++) {
		const struct batch *b = &t->batches[i];

		if (b->flags & (SPAN_TRUNCATED_START | SPAN_TRUNCATED_END))
			continue;
		s->n_batches++;
		s->n_batch_tasks += b->n_tasks;
		if (!b->size)
			continue;
		s->n_batches_sized++;
		s->batch_rows += b->size;
		s->batch_padded_rows += MAX(b->padded, b->size);
	}
}

int request_summary_make(const struct timeline *t, struct request_summary *ret)
{
	_cleanup_(request_summary_done) struct request_summary s = {
		.n_runs_exact = t->n_runs_exact,
		.n_runs_inferred = t->n_runs_inferred,
		.n_runs_orphaned = t->n_runs_orphaned,
	};
	int r;

	count_requests(t, &s);
	count_batches(t, &s);
	r = rank_requests(t, &s);
	if (r >= 0)
		r = rank_models(t, &s);
	if (r < 0)
		return r;
	*ret = s;
	s.n_models = 0; /* now the caller's */
	return 0;
}

void request_summary_done(struct request_summary *s)
{
	for (unsigned i = 0; i < s->n_models; i++)
		free(s->models[i].name);
	*s = (struct request_summary){};
}
