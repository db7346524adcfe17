/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/request_json.h"

#include "cli/report/hot_report.h"
#include "cli/report/request.h"
#include "lib/base/macro.h"

static void optional_text(struct json *json, const char *key, const char *text)
{
	json_string(json, key, text && *text ? text : NULL);
}

/* 0 is unknown. */
static void optional_number(struct json *json, const char *key, uint64_t number)
{
	if (number)
		json_number(json, key, number);
	else
		json_string(json, key, NULL);
}

/* One more than the number. */
static void optional_status(struct json *json, const char *key, uint32_t number)
{
	if (number)
		json_number(json, key, number - 1);
	else
		json_string(json, key, NULL);
}

static void write_thread(struct json *json, const char *key, const Tfprofd__Request *request,
			 uint32_t reference)
{
	const Tfprofd__RequestThread *thread = request_thread(request, reference);

	if (!thread) {
		json_string(json, key, NULL);
		return;
	}
	json_object_begin(json, key);
	json_number(json, "tid", thread->tid);
	json_string(json, "name", thread->name);
	json_object_end(json);
}

static void write_times(struct json *json, const Tfprofd__Request *r)
{
	json_number(json, "start_unix_ns", r->start_unix_ns);
	json_number(json, "start_ns", r->start_ns);
	json_number(json, "latency_ns", request_latency_ns(r));
	optional_number(json, "accepted_ns", r->accepted_ns);
	optional_number(json, "read_start_ns", r->read_start_ns);
	optional_number(json, "read_end_ns", r->read_end_ns);
	optional_number(json, "write_start_ns", r->write_start_ns);
	json_number(json, "end_ns", r->end_ns);
	json_bool(json, "cut_start", r->cut_start);
	json_bool(json, "cut_end", r->cut_end);
	json_bool(json, "lost", r->lost);
	json_bool(json, "reset", r->reset);
	json_bool(json, "no_arrival", r->no_arrival);
	json_bool(json, "unaccepted", r->unaccepted);
	json_bool(json, "at_library", r->at_library);
	json_bool(json, "streaming", r->streaming);
	json_object_begin(json, "phases");
	for (unsigned i = 0; i < PHASE_COUNT; i++)
		json_number(json, phase_texts[i].key, request_phase_ns(r, i));
	json_object_end(json);
}

static void write_held(struct json *json, const Tfprofd__Request *r)
{
	static const char *const reasons[] = {
		[TFPROFD__HELD_REASON__HELD_UNKNOWN] = "unknown",
		[TFPROFD__HELD_REASON__HELD_NAGLE] = "nagle",
		[TFPROFD__HELD_REASON__HELD_CORK] = "cork",
		[TFPROFD__HELD_REASON__HELD_WINDOW] = "window",
		[TFPROFD__HELD_REASON__HELD_CONGESTION] = "congestion",
	};
	size_t reason = (size_t)r->held_reason;

	if (!r->held_bytes) {
		json_string(json, "held", NULL);
		return;
	}
	json_object_begin(json, "held");
	json_string(json, "reason", reasons[reason < ARRAY_SIZE(reasons) ? reason : 0]);
	json_number(json, "bytes", r->held_bytes);
	json_object_end(json);
}

static void write_cause(struct json *json, const Tfprofd__Request *r)
{
	const Tfprofd__RequestCause *cause = r->cause;

	if (!cause) {
		json_string(json, "cause", NULL);
		return;
	}
	json_object_begin(json, "cause");
	json_string(json, "phase", request_phase(cause->phase)->key);
	json_number(json, "phase_ns", cause->phase_ns);
	json_number(json, "cause_ns", cause->cause_ns);
	json_string(json, "activity", request_activity_key(cause->activity));
	write_thread(json, "thread", r, cause->thread);
	json_string(json, "name", request_name(r, cause->name));
	write_thread(json, "by", r, cause->by);
	json_object_end(json);
}

static void write_bytes(struct json *json, const char *key, const Tfprofd__Request *r,
			uint64_t bytes)
{
	if (r->at_library)
		json_string(json, key, NULL);
	else
		json_number(json, key, bytes);
}

static void write_identity(struct json *json, const Tfprofd__Request *r)
{
	static const char *const protocols[] = { "unknown", "http1", "http2", "mark", "handler" };
	static const char *const attributions[] = { "none", "exact", "inferred" };
	unsigned protocol = r->protocol, attribution = r->attribution;

	json_string(json, "attribution",
		    attributions[attribution < ARRAY_SIZE(attributions) ? attribution : 0]);
	json_string(json, "protocol", protocols[protocol < ARRAY_SIZE(protocols) ? protocol : 0]);
	optional_text(json, "method", r->method);
	optional_text(json, "path", r->path);
	optional_status(json, "status", r->status);
	optional_status(json, "grpc_status", r->grpc_status);
	optional_text(json, "model", r->model);
	optional_text(json, "version", r->version);
	if (r->protocol == TFPROFD__PROTOCOL__PROTOCOL_MARK)
		json_number(json, "id", r->id);
	else
		json_string(json, "id", NULL);
	json_number(json, "pid", r->pid);
	optional_number(json, "connection", r->connection);
	optional_number(json, "local_port", r->local_port);
	optional_number(json, "peer_port", r->peer_port);
	optional_number(json, "stream", r->stream);
	write_bytes(json, "bytes_in", r, r->bytes_in);
	write_bytes(json, "bytes_out", r, r->bytes_out);
	json_object_begin(json, "threads");
	write_thread(json, "read", r, r->read_thread);
	write_thread(json, "run", r, r->run_thread);
	write_thread(json, "write", r, r->write_thread);
	json_object_end(json);
}

static void write_runs(struct json *json, const Tfprofd__Request *r)
{
	json_array_begin(json, "runs");
	for (size_t i = 0; i < r->n_runs; i++) {
		const Tfprofd__RequestRun *run = r->runs[i];
		const Tfprofd__RequestThread *thread = request_thread(r, run->thread);

		json_object_begin(json, NULL);
		optional_number(json, "tid", thread ? thread->tid : 0);
		json_number(json, "start_ns", run->start_ns);
		json_number(json, "end_ns", run->end_ns);
		if (run->id == -1)
			json_string(json, "id", NULL);
		else
			json_integer(json, "id", run->id);
		json_bool(json, "whole", !run->not_whole);
		json_object_end(json);
	}
	json_array_end(json);
	json_number(json, "runs_left_out", r->runs_left_out);
}

static void write_batches(struct json *json, const Tfprofd__Request *r)
{
	json_array_begin(json, "batches");
	for (size_t i = 0; i < r->n_batches; i++) {
		const Tfprofd__RequestBatch *batch = r->batches[i];

		json_object_begin(json, NULL);
		optional_number(json, "batch", batch->number);
		optional_number(json, "queued_ns", batch->queued_ns);
		optional_number(json, "start_ns", batch->start_ns);
		optional_number(json, "end_ns", batch->end_ns);
		optional_number(json, "tasks", batch->tasks);
		optional_number(json, "rows", batch->rows);
		optional_number(json, "padded_rows", batch->padded_rows);
		json_object_end(json);
	}
	json_array_end(json);
	json_number(json, "batches_left_out", r->batches_left_out);
}

static void write_quotas(struct json *json, const Tfprofd__Request *r)
{
	json_array_begin(json, "quotas");
	for (size_t i = 0; i < r->n_quotas; i++) {
		json_object_begin(json, NULL);
		json_string(json, "cgroup", request_name(r, r->quotas[i]->name));
		optional_number(json, "quota_ns", r->quotas[i]->quota_ns);
		optional_number(json, "period_ns", r->quotas[i]->period_ns);
		json_object_end(json);
	}
	json_array_end(json);
}

static void write_hop(struct json *json, const char *key, const Tfprofd__RequestHop *hop)
{
	json_object_begin(json, key);
	optional_number(json, "request", hop->request);
	json_number(json, "pid", hop->pid);
	json_number(json, "start_ns", hop->start_ns);
	optional_number(json, "end_ns", hop->end_ns);
	json_object_end(json);
}

static void write_hops(struct json *json, const Tfprofd__Request *r)
{
	json_array_begin(json, "calls");
	for (size_t i = 0; i < r->n_calls; i++)
		write_hop(json, NULL, r->calls[i]);
	json_array_end(json);
	json_number(json, "calls_left_out", r->calls_left_out);
	if (r->called_by)
		write_hop(json, "called_by", r->called_by);
	else
		json_string(json, "called_by", NULL);
}

static void write_path(struct json *json, const Tfprofd__Request *r)
{
	json_array_begin(json, "critical_path");
	for (size_t i = 0; i < r->n_critical_path; i++) {
		const Tfprofd__RequestSegment *s = r->critical_path[i];

		json_object_begin(json, NULL);
		json_number(json, "start_ns", s->start_ns);
		json_number(json, "end_ns", s->end_ns);
		if (s->pieces > 1) {
			json_number(json, "pieces", s->pieces);
		} else {
			json_string(json, "phase", request_phase(s->phase)->key);
			json_string(json, "activity", request_activity_key(s->activity));
			write_thread(json, "thread", r, s->thread);
			json_string(json, "name", request_name(r, s->name));
			write_thread(json, "by", r, s->by);
		}
		json_object_end(json);
	}
	json_array_end(json);
}

void request_json(struct json *json, const char *key, const Tfprofd__Request *r)
{
	json_object_begin(json, key);
	json_number(json, "request", r->number);
	write_times(json, r);
	write_held(json, r);
	write_cause(json, r);
	write_identity(json, r);
	write_runs(json, r);
	write_batches(json, r);
	write_hops(json, r);
	write_quotas(json, r);
	write_path(json, r);
	if (r->samples) {
		json_number(json, "samples", r->samples);
		hot_functions_json(json, r->hot, r->n_hot);
	}
	json_object_end(json);
}
