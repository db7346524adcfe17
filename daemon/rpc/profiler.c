/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/profiler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/authority.h"
#include "daemon/export/exporter.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/reply.h"
#include "daemon/rpc/settle.h"
#include "daemon/rpc/status.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "proto/profiler_service.pb-c.h"

#define LEVEL_DEFAULT 2

/* Fields of ProfileResponse and ProfileToolData. */
enum { TOOL_DATA_FIELD = 6, TOOL_NAME_FIELD = 1, TOOL_DATA_BYTES_FIELD = 2, XSPACE_FIELD = 8 };
/* The file name that makes the client write the bytes as the run's trace; as a ProfileToolData.name
 * on the wire. */
static const char tool_name[] = "\x0a\x09xplane.pb";

static void answer_trace(struct grpc_call *call, struct exported *trace, bool emit_xspace)
{
	struct grpc_body *body;
	int r;

	if (emit_xspace)
		r = reply_trace(trace, 0, XSPACE_FIELD, NULL, 0, &body);
	else
		r = reply_trace(trace, TOOL_DATA_FIELD, TOOL_DATA_BYTES_FIELD, tool_name,
				sizeof(tool_name) - 1, &body);
	if (r < 0)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(call, body);
}

void profiler_answer(struct job *job, struct capture_result *result)
{
	answer_trace(job->call, &result->trace, job->emit_xspace);
}

/* A failed call reaches TensorBoard's user as one fixed sentence; an error in a trace is shown. */
static void answer_error(struct service *s, struct grpc_call *call, const char *text,
			 bool emit_xspace)
{
	struct timeline empty = {};
	const struct export_options options = { .hostname = s->options.hostname,
						.errors = &text,
						.n_errors = 1 };
	struct exported trace = {};

	if (exporter_find(PROFILER_FORMAT)->make(&empty, &options, &trace) < 0)
		grpc_call_fail(call, GRPC_NOT_FOUND, "%s", text);
	else
		answer_trace(call, &trace, emit_xspace);
}

/* A denied client gets a status; all other errors are reported where the user can see them. */
bool profiler_answer_failure(struct job *job, const struct capture_result *result)
{
	if (result->error == -EACCES || result->error == -ECANCELED || result->error == -ENODATA)
		return false;
	answer_error(job->service, job->call, result->text, job->emit_xspace);
	return true;
}

/* Applies the configuration of a process at its own port; the client itself can only set the level,
 * which the configuration overrides. */
static void apply_config(const struct service *s, const struct grpc_call *call,
			 struct capture_request *request)
{
	const struct target *target = request->targets[0];
	const struct config_target *config;

	config = call_is_for_all(call) ? NULL
				       : config_find(s->options.config, target->pid, target->name);
	if (!config)
		return;
	request->filter = config->filter;
	request->max_overhead = config->max_overhead;
	request->extras.input_stages = config->input_stages;
	if (config->level)
		request->detail.level = config->level;
}

static void read_options(const Tensorflow__ProfileOptions *options, struct capture_request *request)
{
	/* A start time in the past is ignored: clients send the time of their call. */
	request->start_unix_ns = options->start_timestamp_ns > clock_now(CLOCK_REALTIME)
					 ? options->start_timestamp_ns
					 : 0;
	if (options->version)
		request->detail.level = MIN(options->host_tracer_level, 3u);
}

static void answer_empty(struct grpc_call *call)
{
	Tensorflow__ProfileResponse response = TENSORFLOW__PROFILE_RESPONSE__INIT;

	response.empty_trace = true;
	reply_answer(call, &response.base);
}

void profiler_profile(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tensorflow__ProfileRequest *m = tensorflow__profile_request__unpack(NULL, size, message);
	struct service *s = data;
	struct capture_request request = { .detail.level = LEVEL_DEFAULT,
					   .extras.exporter = exporter_find(PROFILER_FORMAT),
					   .skip_ended = call_is_for_all(call) };
	struct job job = { .answer = profiler_answer,
			   .answer_failure = profiler_answer_failure,
			   .every_target = call_is_for_all(call) };
	uint64_t duration_ms;
	pid_t denied;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a ProfileRequest");
		return;
	}
	if (!job_may_begin(s, call)) {
		tensorflow__profile_request__free_unpacked(m, NULL);
		return;
	}
	duration_ms = m->opts && m->opts->duration_ms ? m->opts->duration_ms : m->duration_ms;
	if (m->opts)
		read_options(m->opts, &request);
	job.emit_xspace = m->emit_xspace;
	snprintf(job.session_id, sizeof(job.session_id), "%s", m->session_id ?: "");
	tensorflow__profile_request__free_unpacked(m, NULL);
	if (!duration_ms || duration_ms > s->options.config->max_duration_ns / 1000000) {
		grpc_call_fail(
			call, GRPC_INVALID_ARGUMENT,
			"the duration must be 1 to %llu ms (tfprofd --max-duration), not %llu",
			(unsigned long long)(s->options.config->max_duration_ns / 1000000),
			(unsigned long long)duration_ms);
		return;
	}
	request.duration_ns = duration_ms * 1000000;
	if (request.start_unix_ns >
	    clock_now(CLOCK_REALTIME) + s->options.config->max_duration_ns) {
		grpc_call_fail(
			call, GRPC_INVALID_ARGUMENT,
			"the window would begin more than %llu s from now (tfprofd --max-duration)",
			(unsigned long long)(s->options.config->max_duration_ns / 1000000000));
		return;
	}
	if (!request.detail.level) {
		answer_empty(call);
		return;
	}
	if (settle(s, call, profiler_profile, message, size, NULL, 0))
		return;
	request.n_targets = choose_permitted(s, call, request.targets, RECORD_MAX_TARGETS,
					     &request.n_left_out, &denied);
	if (!request.n_targets && denied) {
		audit_report(s, call, AUDIT_DENY, AUDIT_CAPTURE, denied,
			     "the process belongs to another user");
		grpc_call_fail(call, GRPC_PERMISSION_DENIED,
			       "you may not profile process %d: run as its user or as root",
			       denied);
		return;
	}
	if (!request.n_targets) {
		audit_report(s, call, AUDIT_FAIL, AUDIT_CAPTURE, 0,
			     "no process that the client may profile");
		answer_error(
			s, call,
			"There is no process with a known runtime that you may profile; `tfprofctl targets` lists them.",
			job.emit_xspace);
		return;
	}
	apply_config(s, call, &request);
	job_start(s, call, &job, &request);
}

/* Ends the windows of a session; only those of the same user, because anyone can guess a session's
 * name. */
void profiler_terminate(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tensorflow__TerminateRequest *m =
		tensorflow__terminate_request__unpack(NULL, size, message);
	Tensorflow__TerminateResponse response = TENSORFLOW__TERMINATE_RESPONSE__INIT;
	const struct peer *peer = grpc_call_peer(call);
	struct service *s = data;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a TerminateRequest");
		return;
	}
	for (struct job *j = s->jobs; j; j = j->next) {
		bool is_own = peer && authority_may_control(&peer->who, &j->who);

		if (!j->capture || strcmp(j->session_id, m->session_id ?: ""))
			continue;
		audit_report(s, call, is_own ? AUDIT_ALLOW : AUDIT_DENY, AUDIT_END, 0,
			     "a capture of user %u", j->uid);
		if (is_own)
			capture_stop(j->capture);
	}
	tensorflow__terminate_request__free_unpacked(m, NULL);
	reply_answer(call, &response.base);
}

/* It would make this host profile others and write their traces to a path that the client names. */
void profiler_new_session(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	grpc_call_fail(
		call, GRPC_FAILED_PRECONDITION,
		"tfprofd writes no files for its clients: leave the list of workers empty, and enter all addresses as the profile service's, "
		"HOST:PORT,HOST:PORT");
}

static void print_time(FILE *f)
{
	time_t now = time(NULL);
	struct tm utc;
	char text[40];

	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fprintf(f, "%s\n", text);
}

/* Answers at once: the requested duration is the client's interval between two calls. */
void profiler_monitor(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tensorflow__MonitorRequest *m = tensorflow__monitor_request__unpack(NULL, size, message);
	Tensorflow__MonitorResponse response = TENSORFLOW__MONITOR_RESPONSE__INIT;
	_cleanup_free_ struct status *status = NULL;
	_cleanup_free_ char *text = NULL;
	const Tfprofd__StatusReply *reply;
	size_t length = 0;
	FILE *f;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a MonitorRequest");
		return;
	}
	reply = status_new(data, call, AUDIT_MONITOR, &status);
	f = reply ? open_memstream(&text, &length) : NULL;
	if (f) {
		if (m->timestamp)
			print_time(f);
		status_print(f, reply, m->monitoring_level >= 2);
	}
	tensorflow__monitor_request__free_unpacked(m, NULL);
	if (!f || fclose(f)) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	response.data = text;
	reply_answer(call, &response.base);
}
