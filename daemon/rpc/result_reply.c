/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/result_reply.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

static void fill_sheds(struct result_reply *reply, const struct capture_result *result)
{
	Tfprofd__CaptureResult *m = &reply->message;

	m->runs_seen_ns = result->window_ns;
	for (unsigned i = 0; i < result->n_shed; i++) {
		Tfprofd__Shed *shed = reply->shed_list[i] = &reply->sheds[i];

		*shed = (Tfprofd__Shed)TFPROFD__SHED__INIT;
		shed->kind = (char *)probe_kind_name(result->shed[i].kind);
		shed->at_ns = result->shed[i].at_ns;
		shed->overhead = result->shed[i].overhead;
		shed->refused = result->shed[i].refused;
		if (result->shed[i].kind == KIND_RUNS)
			m->runs_seen_ns = result->shed[i].at_ns;
	}
	m->n_shed = result->n_shed;
	m->shed = reply->shed_list;
}

static Tfprofd__OpEstimate *fill_estimate(Tfprofd__OpEstimate *m, const struct op_estimate *e)
{
	*m = (Tfprofd__OpEstimate)TFPROFD__OP_ESTIMATE__INIT;
	m->seen = e->seen;
	m->self_error_ns = (uint64_t)e->self_error_ns;
	m->mean_ns = (uint64_t)e->mean_ns;
	m->mean_error_ns = (uint64_t)e->mean_error_ns;
	return m;
}

static Tfprofd__OpSampling *fill_sampling(Tfprofd__OpSampling *m, const struct op_sampling *s)
{
	*m = (Tfprofd__OpSampling)TFPROFD__OP_SAMPLING__INIT;
	m->slices = s->n_slices;
	m->seen_ns = s->seen_ns;
	m->requests_within = s->n_requests_within;
	m->requests_longer = s->n_requests_longer;
	return m;
}

static void fill_ops(struct result_reply *reply, const struct summary *s)
{
	for (unsigned i = 0; i < s->n_top_ops; i++) {
		Tfprofd__OpSummary *op = reply->op_list[i] = &reply->ops[i];

		*op = (Tfprofd__OpSummary)TFPROFD__OP_SUMMARY__INIT;
		op->name = s->top_ops[i].name;
		op->type = s->top_ops[i].type;
		op->count = s->top_ops[i].count;
		op->total_ns = s->top_ops[i].total_ns;
		op->self_ns = s->top_ops[i].self_ns;
		if (s->sampling.n_slices >= 2)
			op->estimate =
				fill_estimate(&reply->op_estimates[i], &s->top_ops[i].estimate);
	}
	if (s->sampling.is_part)
		reply->message.op_sampling = fill_sampling(&reply->op_sampling, &s->sampling);
	reply->message.n_top_ops = s->n_top_ops;
	reply->message.top_ops = reply->op_list;
}

static void fill_memory(struct result_reply *reply, const struct summary *s)
{
	Tfprofd__CaptureResult *m = &reply->message;

	m->memory = reply->memory_list;
	for (unsigned i = 0; i < ALLOCATOR_COUNT; i++) {
		const struct memory_use *use = &s->memory[i];
		Tfprofd__MemorySummary *memory = &reply->memory[m->n_memory];

		if (!use->n_allocations && !use->n_deallocations && !use->n_unknown)
			continue;
		*memory = (Tfprofd__MemorySummary)TFPROFD__MEMORY_SUMMARY__INIT;
		memory->allocator = (char *)memory_allocator_name(i);
		memory->allocations = use->n_allocations;
		memory->deallocations = use->n_deallocations;
		memory->allocated_bytes = use->allocated_bytes;
		memory->peak_bytes = use->peak_bytes;
		memory->unknown = use->n_unknown;
		reply->memory_list[m->n_memory++] = memory;
	}
}

static void fill_hot(struct result_reply *reply, const struct hot_places *hot)
{
	for (unsigned i = 0; i < hot->n; i++) {
		const struct hot_place *from = &hot->list[i];
		Tfprofd__HotPlace *to = reply->hot_list[i] = &reply->hot[i];

		*to = (Tfprofd__HotPlace)TFPROFD__HOT_PLACE__INIT;
		to->kind = (Tfprofd__HotKind)from->kind;
		to->name = from->name;
		to->samples = from->samples;
		for (unsigned k = 0; k < from->n_functions; k++) {
			Tfprofd__HotFunction *f = reply->hot_function_list[i][k] =
				&reply->hot_functions[i][k];

			*f = (Tfprofd__HotFunction)TFPROFD__HOT_FUNCTION__INIT;
			f->name = from->functions[k].name;
			f->file = from->functions[k].file;
			f->self = from->functions[k].self;
			f->total = from->functions[k].total;
		}
		to->functions = reply->hot_function_list[i];
		to->n_functions = from->n_functions;
	}
	reply->message.hot = reply->hot_list;
	reply->message.n_hot = hot->n;
}

void result_reply_fill(struct result_reply *reply, const struct capture_result *result,
		       const char *hostname)
{
	Tfprofd__CaptureResult *m = &reply->message;
	const struct summary *s = &result->summary;

	*m = (Tfprofd__CaptureResult)TFPROFD__CAPTURE_RESULT__INIT;
	m->xspace_bytes = result->trace.size;
	m->window_ns = result->window_ns;
	m->records = result->records;
	m->dropped = result->dropped;
	m->cut = result->cut;
	m->warnings = (char **)result->warnings;
	m->n_warnings = result->n_warnings;
	m->restating_warnings = result->restating;
	m->runs = s->n_runs;
	m->runs_cut = s->n_runs_truncated;
	m->run_p50_ns = s->run_p50_ns;
	m->run_p99_ns = s->run_p99_ns;
	m->ops = s->n_ops;
	m->running_ns = s->running_ns;
	m->runnable_ns = s->runnable_ns;
	m->throttled_ns = s->throttled_ns;
	m->blocked_ns = s->blocked_ns;
	m->lost_names = s->n_lost_names;
	m->hostname = (char *)hostname;
	m->overhead = result->overhead;
	m->max_overhead = result->max_overhead;
	m->ops_at_entry = result->ops_at_entry;
	fill_sheds(reply, result);
	fill_ops(reply, s);
	fill_memory(reply, s);
	fill_hot(reply, &s->hot);
	requests_reply_fill(&reply->requests, result);
	m->requests = &reply->requests.message;
	for (unsigned i = 0; i < result->n_others; i++)
		reply->exported_bytes[i] = result->others[i].size;
	m->exported_bytes = reply->exported_bytes;
	m->n_exported_bytes = result->n_others;
	for (unsigned i = 0; i < result->modules.n; i++)
		reply->modules[i] = (char *)result->modules.list[i].name;
	m->modules = reply->modules;
	m->n_modules = result->modules.n;
	for (unsigned i = 0; i < result->advice.n; i++)
		reply->advice[i] = (char *)result->advice.texts[i];
	m->advice = reply->advice;
	m->n_advice = result->advice.n;
}

int result_reply_new(const struct capture_result *result, const char *hostname,
		     Tfprofd__CaptureReply **ret)
{
	Tfprofd__CaptureReply outer = TFPROFD__CAPTURE_REPLY__INIT, *reply;
	_cleanup_free_ uint8_t *packed = NULL;
	struct result_reply inner;

	result_reply_fill(&inner, result, hostname);
	outer.result = &inner.message;
	packed = malloc(tfprofd__capture_reply__get_packed_size(&outer));
	if (!packed)
		return -ENOMEM;
	reply = tfprofd__capture_reply__unpack(NULL, tfprofd__capture_reply__pack(&outer, packed),
					       packed);
	if (!reply)
		return -ENOMEM;
	*ret = reply;
	return 0;
}
