/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/authority.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/control.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/profiler.h"
#include "daemon/rpc/reply.h"
#include "daemon/rpc/requests_reply.h"
#include "daemon/rpc/triggered.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"
#include "proto/profiler_service.pb-c.h"

static void on_ended(struct recorder *recorder, void *data)
{
	Tensorflow__StopContinuousProfilingResponse response =
		TENSORFLOW__STOP_CONTINUOUS_PROFILING_RESPONSE__INIT;
	struct service *s = data;

	s->recorder = NULL;
	s->recorder_ends = false;
	if (s->recorder_stopper) {
		grpc_call_on_cancel(s->recorder_stopper, NULL, NULL);
		reply_answer(s->recorder_stopper, &response.base);
	}
	s->recorder_stopper = NULL;
}

/* Whether the recorder's owner, who may have gone, and the daemon may profile the target. */
static bool is_recorded(struct service *s, const struct target *target)
{
	return (s->recorder_is_configured || s->recorder_owner.is_root ||
		s->recorder_owner.uid == target->uid) &&
	       choose_may(s, BROKER_DAEMON, target->pid, NULL, NULL);
}

/* owner NULL: root configured it. */
static int start(struct service *s, const struct authority_peer *owner, unsigned level)
{
	const struct config *config = s->options.config;
	struct recorder_options options = { .loop = s->options.loop,
					    .proxy = s->options.proxy,
					    .cache = s->options.cache,
					    .hostname = s->options.hostname,
					    .client = BROKER_DAEMON,
					    .detail.level = level,
					    .max_overhead = config->recorder.max_overhead,
					    .last_ns = config->recorder.last_ns,
					    .bytes = config->recorder.bytes,
					    .triggers = triggered_rules(s->triggered),
					    .ended = on_ended,
					    .data = s };
	int r = recorder_new(&options, &s->recorder);

	if (r < 0)
		return r;
	s->recorder_is_configured = !owner;
	s->recorder_owner = owner ? *owner : (struct authority_peer){ .is_root = true };
	s->recorder_uid = s->recorder_owner.uid;
	s->recorder_ends = false;
	for (struct target *t = targets_next(s->targets, NULL); t; t = targets_next(s->targets, t))
		if (is_recorded(s, t))
			recorder_join(s->recorder, t);
	return 0;
}

int recorder_configure(struct service *s)
{
	unsigned level = s->options.config->recorder.level;

	return level ? start(s, NULL, level) : 0;
}

void recorder_on_target(struct service *s, const struct target *target)
{
	if (s->recorder && is_recorded(s, target))
		recorder_join(s->recorder, target);
}

void recorder_stop(struct service *s)
{
	if (s->recorder && !s->recorder_ends)
		recorder_end(s->recorder);
	s->recorder_ends = true;
}

/* The options of a request set the level only; how much is kept, and what it may cost, is
 * configured in the daemon. */
void profiler_start_recorder(struct grpc_call *call, const uint8_t *message, size_t size,
			     void *data)
{
	Tensorflow__ContinuousProfilingResponse response =
		TENSORFLOW__CONTINUOUS_PROFILING_RESPONSE__INIT;
	Tensorflow__ProfileRequest *m = tensorflow__profile_request__unpack(NULL, size, message);
	const struct peer *peer = grpc_call_peer(call);
	struct service *s = data;
	unsigned level = 1;
	int r;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a ProfileRequest");
		return;
	}
	if (m->opts && m->opts->host_tracer_level)
		level = MIN(m->opts->host_tracer_level, 3u);
	tensorflow__profile_request__free_unpacked(m, NULL);
	if (s->stopping || !peer) {
		grpc_call_fail(call, GRPC_UNAVAILABLE, "the daemon is shutting down");
	} else if (s->recorder_ends) {
		grpc_call_fail(call, GRPC_UNAVAILABLE,
			       "the previous recorder is still ending: try again");
	} else if (s->recorder) {
		grpc_call_fail(
			call, GRPC_FAILED_PRECONDITION,
			"a recorder is already running, for user %u at level %u: StopContinuousProfiling ends it",
			s->recorder_uid, recorder_get_options(s->recorder)->detail.level);
	} else if (!s->options.config->recorder_clients) {
		audit_report(s, call, AUDIT_DENY, AUDIT_RECORDER, 0, "recorder-clients is no");
		grpc_call_fail(
			call, GRPC_FAILED_PRECONDITION,
			"a recorder outlives its client: root must allow that (recorder-clients = yes) or start one (tfprofd --recorder 1)");
	} else if (peer->who.scope) {
		audit_report(s, call, AUDIT_DENY, AUDIT_RECORDER, 0,
			     "the client is in a container");
		grpc_call_fail(call, GRPC_PERMISSION_DENIED,
			       "a container may not start the recorder: start it on the host");
	} else if ((r = start(s, &peer->who, level)) < 0) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "cannot start a recorder: %s",
			       strerror(-r));
	} else {
		audit_report(s, call, AUDIT_ALLOW, AUDIT_RECORDER, 0, "started at level %u", level);
		reply_answer(call, &response.base);
	}
}

static void forget_stopper(void *data)
{
	struct service *s = data;

	s->recorder_stopper = NULL;
}

/* Answered when the recorder has ended. */
void profiler_stop_recorder(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	const struct peer *peer = grpc_call_peer(call);
	struct service *s = data;

	if (!s->recorder || s->recorder_ends) {
		grpc_call_fail(
			call, GRPC_FAILED_PRECONDITION,
			"no recorder is running: StartContinuousProfiling, or tfprofd --recorder, starts one");
	} else if (!peer || !authority_may_control(&peer->who, &s->recorder_owner)) {
		audit_report(s, call, AUDIT_DENY, AUDIT_RECORDER, 0, "the recorder is of user %u",
			     s->recorder_uid);
		grpc_call_fail(call, GRPC_PERMISSION_DENIED,
			       "the recorder belongs to user %u: run as that user or as root",
			       s->recorder_uid);
	} else {
		audit_report(s, call, AUDIT_ALLOW, AUDIT_RECORDER, 0,
			     "stops the recorder of user %u", s->recorder_uid);
		if (grpc_call_on_cancel(call, forget_stopper, s) == 0)
			s->recorder_stopper = call;
		recorder_stop(s);
	}
}

static void on_snapshot_done(struct capture_result *result, void *data)
{
	struct job *job = data;

	if (job->call) {
		audit_report(job->service, job->call,
			     result->error == -EACCES ? AUDIT_DENY
			     : result->error          ? AUDIT_FAIL
						      : AUDIT_ALLOW,
			     AUDIT_SNAPSHOT, 0, "%s", result->error ? result->text : "");
		grpc_call_on_cancel(job->call, NULL, NULL);
		if (!result->error)
			job->answer(job, result);
		else if (!job->answer_failure || !job->answer_failure(job, result))
			grpc_call_fail(job->call,
				       result->error == -ENODATA ? GRPC_NOT_FOUND
								 : reply_status_of(result->error),
				       "%s", result->text);
	}
	free(job);
}

static void on_cancelled(void *data)
{
	struct job *job = data;

	job->call = NULL;
}

static void take_snapshot(struct service *s, struct grpc_call *call, const struct job *template,
			  struct snapshot_request *request)
{
	const struct peer *peer = grpc_call_peer(call);
	struct job *job;
	int r;

	if (!s->recorder || s->recorder_ends || !peer) {
		audit_report(s, call, AUDIT_FAIL, AUDIT_SNAPSHOT, 0, "no recorder is running");
		grpc_call_fail(
			call, GRPC_NOT_FOUND,
			"no recorder is running: start tfprofd with --recorder 1, or call StartContinuousProfiling");
		return;
	}
	job = malloc(sizeof(*job));
	if (!job) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*job = *template;
	request->who = peer->who;
	job->service = s;
	job->call = call;
	request->done = on_snapshot_done;
	request->data = job;
	r = recorder_snapshot(s->recorder, request);
	if (r == 0) {
		if (grpc_call_on_cancel(call, on_cancelled, job) < 0)
			job->call = NULL;
		return;
	}
	free(job);
	audit_report(s, call, AUDIT_FAIL, AUDIT_SNAPSHOT, 0, "%s", strerror(-r));
	if (r == -EBUSY)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			       "too many snapshots are being made; try again soon");
	else
		grpc_call_fail(call, reply_status_of(r), "cannot make a snapshot: %s",
			       strerror(-r));
}

void profiler_get_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	const struct job job = { .answer = profiler_answer,
				 .answer_failure = profiler_answer_failure };
	struct snapshot_request request = { .extras.exporter = exporter_find(PROFILER_FORMAT) };

	take_snapshot(data, call, &job, &request);
}

void control_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__SnapshotRequest *m = tfprofd__snapshot_request__unpack(NULL, size, message);
	const struct job job = { .answer = control_answer };
	struct snapshot_request request = {};

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a SnapshotRequest");
		return;
	}
	request.last_ns = m->last_ns;
	request.extras = (struct export_extras){ .device_plane = m->device_plane,
						 .input_stages = m->input_stages };
	request.requests =
		(struct request_list_options){ .all = m->requests, .slowest = m->slowest };
	if (control_choose_format(call, m->format, &request.extras.exporter) == 0 &&
	    requests_reply_check(call, m->filter, m->slowest, &request.filter) == 0) {
		request.filter.count = 0;
		take_snapshot(data, call, &job, &request);
	}
	tfprofd__snapshot_request__free_unpacked(m, NULL);
}
