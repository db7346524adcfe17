/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/requests_reply.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

/* Limits a pattern or a name in a request: no path or model is longer. */
#define TEXT_MAX 4096

static Tfprofd__Percentiles make_percentiles(const struct percentiles *p)
{
	Tfprofd__Percentiles m = TFPROFD__PERCENTILES__INIT;

	m.p50_ns = p->p50_ns;
	m.p90_ns = p->p90_ns;
	m.p99_ns = p->p99_ns;
	m.max_ns = p->max_ns;
	m.sum_ns = p->sum_ns;
	return m;
}

static void fill_models(struct requests_reply *reply, const struct request_summary *s)
{
	for (unsigned i = 0; i < s->n_models; i++) {
		reply->models[i] = (Tfprofd__ModelSummary)TFPROFD__MODEL_SUMMARY__INIT;
		reply->models[i].name = s->models[i].name;
		reply->models[i].count = s->models[i].count;
		reply->models[i].p50_ns = s->models[i].p50_ns;
		reply->models[i].p99_ns = s->models[i].p99_ns;
		reply->model_list[i] = &reply->models[i];
	}
	reply->message.models = reply->model_list;
	reply->message.n_models = s->n_models;
	reply->message.models_left_out = s->n_models_left_out;
}

static void fill_batches(struct requests_reply *reply, const struct request_summary *s)
{
	reply->batches = (Tfprofd__BatchSummary)TFPROFD__BATCH_SUMMARY__INIT;
	reply->batches.count = s->n_batches;
	reply->batches.tasks = s->n_batch_tasks;
	reply->batches.sized = s->n_batches_sized;
	reply->batches.rows = s->batch_rows;
	reply->batches.padded_rows = s->batch_padded_rows;
	reply->message.batches = &reply->batches;
}

static void fill_filter(struct requests_reply *reply, const struct request_filter *filter)
{
	reply->filter = (Tfprofd__RequestFilter)TFPROFD__REQUEST_FILTER__INIT;
	reply->filter.slower_than_ns = filter->slower_than_ns;
	reply->filter.count = filter->count;
	if (filter->path)
		reply->filter.path = (char *)filter->path;
	if (filter->model)
		reply->filter.model = (char *)filter->model;
	reply->message.filter = &reply->filter;
}

void requests_reply_fill(struct requests_reply *reply, const struct capture_result *result)
{
	const struct request_summary *s = &result->summary.requests;
	Tfprofd__RequestSummary *m = &reply->message;

	*m = (Tfprofd__RequestSummary)TFPROFD__REQUEST_SUMMARY__INIT;
	m->whole = s->n_whole;
	m->cut = s->n_truncated;
	m->reset = s->n_reset;
	m->lost = s->n_lost;
	m->filtered = s->n_filtered;
	m->runs_exact = s->n_runs_exact;
	m->runs_inferred = s->n_runs_inferred;
	m->runs_orphaned = s->n_runs_orphaned;
	m->left_out = result->requests.n_left_out;
	reply->latency = make_percentiles(&s->latency);
	m->latency = &reply->latency;
	for (unsigned i = 0; i < PHASE_COUNT; i++) {
		reply->phases[i] = make_percentiles(&s->phases[i]);
		reply->phase_list[i] = &reply->phases[i];
	}
	m->phases = reply->phase_list;
	m->n_phases = PHASE_COUNT;
	fill_models(reply, s);
	fill_batches(reply, s);
	fill_filter(reply, &result->filter);
}

int requests_reply_send(struct grpc_call *call, struct request_list *list)
{
	for (size_t i = 0; i < list->n_messages; i++) {
		struct grpc_body *body;
		int r;

		r = grpc_body_new(&body);
		if (r < 0)
			return r;
		r = grpc_body_add_owned(body, TAKE_PTR(list->messages[i].bytes),
					list->messages[i].size);
		if (r < 0)
			grpc_body_free(body);
		else
			r = grpc_call_send(call, body);
		if (r < 0)
			return r;
	}
	return 0;
}

int requests_reply_check(struct grpc_call *call, const Tfprofd__RequestFilter *f, uint32_t slowest,
			 struct request_filter *ret)
{
	if (slowest > REQUEST_SLOWEST_MAX) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
			       "at most %d of the slowest requests can be listed, not %u",
			       REQUEST_SLOWEST_MAX, slowest);
		return -EINVAL;
	}
	if (!f)
		return 0;
	if (strlen(f->path) > TEXT_MAX || strlen(f->model) > TEXT_MAX) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
			       "a path or model is limited to %d bytes", TEXT_MAX);
		return -EINVAL;
	}
	*ret = (struct request_filter){ .slower_than_ns = f->slower_than_ns,
					.count = f->count,
					.path = *f->path ? f->path : NULL,
					.model = *f->model ? f->model : NULL };
	return 0;
}
