/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/result.h"
#include "daemon/record/journal.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/plan_reply.h"
#include "daemon/rpc/reply.h"
#include "daemon/rpc/requests_reply.h"
#include "daemon/rpc/result_reply.h"
#include "daemon/rpc/settle.h"
#include "daemon/rpc/status.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define PROGRESS_NS 200000000ull

/* Fields of CaptureReply. */
enum {
	RECORDING_FIELD = 20,
	XSPACE_FIELD = 21,
	XSPACE_BYTES_FIELD = 22,
	EXPORTED_FIELD = 23,
	EXPORTED_BYTES_FIELD = 24,
	EXPORTED_NUMBER_FIELD = 25,
};

void control_list_targets(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__ListTargetsResponse response = TFPROFD__LIST_TARGETS_RESPONSE__INIT;
	Tfprofd__Target targets[TARGETS_MAX], *list[TARGETS_MAX];
	const struct target *chosen[TARGETS_MAX];
	char addresses[TARGETS_MAX][32];
	unsigned more, n;
	pid_t denied;

	if (settle(data, call, control_list_targets, message, size, NULL, 0))
		return;
	n = choose_permitted(data, call, chosen, TARGETS_MAX, &more, &denied);
	for (unsigned i = 0; i < n; i++) {
		status_fill_target(chosen[i], &targets[i], addresses[i]);
		list[i] = &targets[i];
	}
	response.n_targets = n;
	response.targets = list;
	audit_report(data, call, denied ? AUDIT_DENY : AUDIT_ALLOW, AUDIT_LIST, denied,
		     "%u processes", n);
	reply_answer(call, &response.base);
}

static void send_progress(void *data)
{
	Tfprofd__CaptureReply reply = TFPROFD__CAPTURE_REPLY__INIT;
	Tfprofd__CaptureProgress progress = TFPROFD__CAPTURE_PROGRESS__INIT;
	struct job *job = data;
	struct capture_progress p;
	struct grpc_body *body;

	if (!job->capture || !job->call)
		return;
	capture_get_progress(job->capture, &p);
	progress.elapsed_ns = p.elapsed_ns;
	progress.records = p.records;
	progress.dropped = p.dropped;
	progress.requests = p.requests;
	reply.progress = &progress;
	loop_timer_set(job->progress, loop_now() + PROGRESS_NS);
	/* A client that does not read gets no more progress messages. */
	if (grpc_call_queued(job->call) == 0 && reply_message(&reply.base, &body) >= 0)
		grpc_call_send(job->call, body);
}

/* For a replay with --explain, too. */
static int add_plan(struct journal *recording, const struct capture_plan *plan)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	Tfprofd__PlanReply *message;
	int r = plan_reply_new(plan, &message);

	if (r < 0)
		return r;
	bytes = malloc(MAX(tfprofd__plan_reply__get_packed_size(message), (size_t)1));
	r = bytes ? journal_add(recording, JOURNAL_PLAN, bytes,
				tfprofd__plan_reply__pack(message, bytes))
		  : -ENOMEM;
	plan_reply_free(message);
	return r;
}

/* The blocks are sent from where they are, and each is released once it is sent. */
static int send_recording(struct job *job, struct capture_result *result, uint64_t *ret_size)
{
	struct journal *recording = result->recording;
	const void *bytes;
	size_t size;
	void *block;
	int r;

	*ret_size = 0;
	if (!recording)
		return 0;
	r = add_plan(recording, &result->plan);
	if (r >= 0)
		r = journal_finish(recording);
	if (r < 0) {
		result_warn(result, "The recording was abandoned: %s.", strerror(-r));
		return 0;
	}
	*ret_size = journal_bytes(recording);
	while (r >= 0 && journal_take(recording, &bytes, &size, &block)) {
		struct grpc_body *body;

		r = reply_bytes(RECORDING_FIELD, bytes, size, journal_release, block, &body);
		if (r >= 0)
			r = grpc_call_send(job->call, body);
	}
	return r;
}

static int send_traces(struct job *job, struct capture_result *result)
{
	int r = reply_send_trace(
		job->call, &result->trace,
		&(struct piece_fields){ .bytes = XSPACE_FIELD, .total = XSPACE_BYTES_FIELD });

	for (unsigned i = 0; i < result->n_others && r >= 0; i++)
		r = reply_send_trace(job->call, &result->others[i],
				     &(struct piece_fields){ .bytes = EXPORTED_FIELD,
							     .total = EXPORTED_BYTES_FIELD,
							     .number = EXPORTED_NUMBER_FIELD,
							     .number_value = i + 1 });
	return r;
}

void control_answer(struct job *job, struct capture_result *result)
{
	Tfprofd__CaptureReply outer = TFPROFD__CAPTURE_REPLY__INIT;
	struct result_reply reply;
	struct grpc_body *body;
	uint64_t recording = 0;
	int r;

	r = requests_reply_send(job->call, &result->requests);
	if (r >= 0)
		r = send_recording(job, result, &recording);
	result_reply_fill(&reply, result, job->service->options.hostname);
	reply.message.recording_bytes = recording;
	if (r >= 0)
		r = send_traces(job, result);
	outer.result = &reply.message;
	if (r >= 0)
		r = reply_message(&outer.base, &body);
	if (r >= 0)
		r = grpc_call_send(job->call, body);
	if (r < 0)
		grpc_call_fail(job->call, GRPC_RESOURCE_EXHAUSTED,
			       "out of memory: use a shorter window or a lower level");
	else
		grpc_call_finish(job->call, GRPC_OK, NULL);
}

/* Checks that the level exists; on failure the call is answered. */
static int check_level(struct grpc_call *call, uint32_t level)
{
	if (level >= 1 && level <= 3)
		return 0;
	grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
		       "the level must be 1 (runs), 2 (operations) or 3 (everything), not %u",
		       level);
	return -EINVAL;
}

int control_choose_format(struct grpc_call *call, const char *name, const struct exporter **ret)
{
	*ret = exporter_find(name);
	if (*ret)
		return 0;
	grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "unknown trace format '%.40s'", name);
	return -EINVAL;
}

/* What is sampled, and the formats beside the trace; on failure the call is answered. */
static int read_stacks(struct grpc_call *call, const Tfprofd__CaptureRequest *m,
		       struct capture_request *request)
{
	struct export_extras *extras = &request->extras;
	int r = 0;

	request->detail.stacks_hz = m->stacks_hz;
	if (m->stacks_hz > STACKS_HZ_MAX) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
			       "stacks are sampled at most %d times a second", STACKS_HZ_MAX);
		return -EINVAL;
	}
	if (m->n_exports > EXPORTS_MAX) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "at most %d formats beside the trace",
			       EXPORTS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < m->n_exports && r >= 0; i++)
		r = control_choose_format(call, m->exports[i], &extras->others[extras->n_others++]);
	return r;
}

static void send_plan(struct job *job, const struct capture_plan *plan)
{
	Tfprofd__CaptureReply reply = TFPROFD__CAPTURE_REPLY__INIT;
	struct grpc_body *body;

	/* A plan that cannot be sent does not prevent the capture. */
	if (plan_reply_new(plan, &reply.plan) < 0)
		return;
	if (reply_message(&reply.base, &body) >= 0)
		grpc_call_send(job->call, body);
	plan_reply_free(reply.plan);
}

static void answer_plan(struct job *job, struct capture_result *result)
{
	Tfprofd__PlanReply *reply = NULL;
	struct grpc_body *body;
	int r;

	r = plan_reply_new(&result->plan, &reply);
	if (r >= 0) {
		reply->warnings = result->warnings;
		reply->n_warnings = result->n_warnings;
		r = reply_message(&reply->base, &body);
	}
	if (r < 0)
		grpc_call_fail(job->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(job->call, body);
	plan_reply_free(reply);
}

void control_plan(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__PlanRequest *m = tfprofd__plan_request__unpack(NULL, size, message);
	struct capture_request request = { .plan_only = true };
	struct job job = { .answer = answer_plan };
	struct service *s = data;
	int r;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a PlanRequest");
		return;
	}
	if (settle(s, call, control_plan, message, size, m->pids, m->n_pids)) {
		tfprofd__plan_request__free_unpacked(m, NULL);
		return;
	}
	request.detail = (struct detail){ .level = m->level,
					  .ops_at_entry = m->ops_at_entry,
					  .no_sockets = m->no_sockets,
					  .memory = (enum memory_choice)m->memory };
	r = check_level(call, m->level);
	if (r >= 0)
		r = choose_targets(s, call, m->pids, m->n_pids, &request);
	tfprofd__plan_request__free_unpacked(m, NULL);
	if (r >= 0)
		job_start(s, call, &job, &request);
}

void control_capture(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__CaptureRequest *m = tfprofd__capture_request__unpack(NULL, size, message);
	struct capture_request request = {};
	struct job job = { .answer = control_answer, .plan = send_plan }, *started;
	struct service *s = data;
	int r;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a CaptureRequest");
		return;
	}
	if (!job_may_begin(s, call)) {
		tfprofd__capture_request__free_unpacked(m, NULL);
		return;
	}
	if (settle(s, call, control_capture, message, size, m->pids, m->n_pids)) {
		tfprofd__capture_request__free_unpacked(m, NULL);
		return;
	}
	request.duration_ns = m->duration_ns;
	request.detail = (struct detail){ .level = m->level,
					  .ops_at_entry = m->ops_at_entry,
					  .no_sockets = m->no_sockets,
					  .memory = (enum memory_choice)m->memory };
	request.max_overhead = m->max_overhead;
	request.record = m->record;
	request.extras = (struct export_extras){ .device_plane = m->device_plane,
						 .input_stages = m->input_stages };
	request.requests =
		(struct request_list_options){ .all = m->requests, .slowest = m->slowest };
	job.every_target = !m->n_pids && call_is_for_all(call);
	if (!request.duration_ns || request.duration_ns > s->options.config->max_duration_ns) {
		grpc_call_fail(
			call, GRPC_INVALID_ARGUMENT,
			"the duration must be more than 0 and at most %.6g s (tfprofd --max-duration)",
			(double)s->options.config->max_duration_ns / 1e9);
		r = -EINVAL;
	} else if (!(request.max_overhead >= 0 && request.max_overhead <= 100)) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
			       "the budget must be more than 0 and at most 100 %%");
		r = -EINVAL;
	} else {
		r = check_level(call, m->level);
		if (r >= 0)
			r = control_choose_format(call, m->format, &request.extras.exporter);
		if (r >= 0)
			r = read_stacks(call, m, &request);
		if (r >= 0)
			r = requests_reply_check(call, m->filter, m->slowest, &request.filter);
		if (r >= 0)
			r = choose_targets(s, call, m->pids, m->n_pids, &request);
	}
	started = s->jobs;
	if (r >= 0)
		job_start(s, call, &job, &request);
	/* The filter's strings are part of it. */
	tfprofd__capture_request__free_unpacked(m, NULL);
	if (s->jobs == started)
		return;
	/* Without a timer there are no progress messages; nothing else is lost. */
	if (loop_timer_new(s->options.loop, send_progress, s->jobs, &s->jobs->progress) >= 0)
		loop_timer_set(s->jobs->progress, loop_now() + PROGRESS_NS);
}
