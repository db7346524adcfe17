/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/authority.h"
#include "daemon/plan/knowledge.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/reply.h"
#include "lib/base/escape.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

/* Whether the client may see the capture, and stop it. */
static bool is_own(const struct peer *peer, const struct job *job)
{
	return peer && job->capture && authority_may_control(&peer->who, &job->who);
}

bool status_of_requests(const struct service *s, pid_t pid, struct histogram *ret,
			double *ret_seconds)
{
	uint64_t since = 0, now = loop_now();
	bool found = s->recorder && recorder_get_live(s->recorder, pid, ret, &since);

	for (const struct job *j = s->jobs; j && !found; j = j->next)
		found = j->capture && capture_get_live(j->capture, pid, ret, &since);
	*ret_seconds = found && now > since ? (double)(now - since) / 1e9 : 0;
	return found;
}

/* Everything that a StatusReply refers to. */
struct status {
	Tfprofd__StatusReply reply;
	Tfprofd__TargetStatus targets[TARGETS_MAX], *target_list[TARGETS_MAX];
	Tfprofd__Target target_messages[TARGETS_MAX];
	char addresses[TARGETS_MAX][32];
	Tfprofd__CaptureStatus captures[STATUS_CAPTURES_MAX], *capture_list[STATUS_CAPTURES_MAX];
	uint32_t pids[STATUS_CAPTURES_MAX][RECORD_MAX_TARGETS];
	Tfprofd__RecorderStatus recorder;
	char *given_up[KIND_COUNT], *sampled[KIND_COUNT];
};

void status_fill_target(const struct target *target, Tfprofd__Target *ret, char address[static 32])
{
	address[0] = 0;
	if (target->port)
		snprintf(address, 32, "localhost:%u", target->port);
	*ret = (Tfprofd__Target)TFPROFD__TARGET__INIT;
	ret->pid = (uint32_t)target->pid;
	ret->uid = target->uid;
	ret->name = (char *)target->name;
	ret->runtime = (char *)target->packs->name;
	ret->version = (char *)target->version;
	ret->knowledge = (char *)knowledge_name(target->knowledge);
	ret->file = (char *)target->files[0].path;
	ret->address = address;
}

static void fill_targets(struct status *status, struct service *s, const struct grpc_call *call,
			 enum audit_action action)
{
	const struct target *chosen[TARGETS_MAX];
	unsigned more, n;
	pid_t denied;

	n = choose_permitted(s, call, chosen, TARGETS_MAX, &more, &denied);
	audit_report(s, call, denied ? AUDIT_DENY : AUDIT_ALLOW, action, denied, "%u processes", n);
	for (unsigned i = 0; i < n; i++) {
		Tfprofd__TargetStatus *t = status->target_list[i] = &status->targets[i];
		struct histogram latencies = {};
		double seconds;

		*t = (Tfprofd__TargetStatus)TFPROFD__TARGET_STATUS__INIT;
		status_fill_target(chosen[i], &status->target_messages[i], status->addresses[i]);
		t->target = &status->target_messages[i];
		t->measured = status_of_requests(s, chosen[i]->pid, &latencies, &seconds);
		t->requests = latencies.n;
		t->requests_per_s = seconds > 0 ? (double)latencies.n / seconds : 0;
		t->p50_ns = histogram_percentile(&latencies, 50);
		t->p99_ns = histogram_percentile(&latencies, 99);
	}
	status->reply.n_targets = n;
	status->reply.targets = status->target_list;
}

static void fill_captures(struct status *status, const struct service *s, const struct peer *peer)
{
	unsigned n = 0;

	for (const struct job *j = s->jobs; j && n < STATUS_CAPTURES_MAX; j = j->next) {
		Tfprofd__CaptureStatus *c = &status->captures[n];
		struct capture_progress p;
		pid_t pids[RECORD_MAX_TARGETS];

		if (!is_own(peer, j))
			continue;
		*c = (Tfprofd__CaptureStatus)TFPROFD__CAPTURE_STATUS__INIT;
		capture_get_progress(j->capture, &p);
		c->n_pids = capture_get_pids(j->capture, pids, RECORD_MAX_TARGETS);
		for (unsigned i = 0; i < c->n_pids; i++)
			status->pids[n][i] = (uint32_t)pids[i];
		c->pids = status->pids[n];
		c->uid = j->uid;
		c->subject = (char *)(j->call ? grpc_call_subject(j->call) ?: "" : "");
		c->elapsed_ns = p.elapsed_ns;
		c->duration_ns = p.duration_ns;
		c->records = p.records;
		c->dropped = p.dropped;
		c->requests = p.requests;
		c->overhead = p.overhead;
		status->capture_list[n++] = c;
	}
	status->reply.n_captures = n;
	status->reply.captures = status->capture_list;
}

static void fill_recorder(struct status *status, const struct service *s)
{
	Tfprofd__RecorderStatus *m = &status->recorder;
	const struct recorder_options *options;
	struct recorder_status r;

	if (!s->recorder || s->recorder_ends)
		return;
	options = recorder_get_options(s->recorder);
	recorder_get_status(s->recorder, &r);
	*m = (Tfprofd__RecorderStatus)TFPROFD__RECORDER_STATUS__INIT;
	m->uid = s->recorder_uid;
	m->configured = s->recorder_is_configured;
	m->level = options->detail.level;
	m->attached = r.attached;
	m->processes = r.n_targets;
	m->left_out = r.n_left_out;
	m->kept_ns = r.oldest_ns ? MIN(loop_now() - r.oldest_ns, options->last_ns) : 0;
	m->bytes = r.bytes;
	m->max_bytes = options->bytes;
	m->records = r.records;
	m->dropped = r.dropped;
	m->overhead = r.overhead;
	m->max_overhead = options->max_overhead;
	for (unsigned i = 0; i < r.n_shed; i++)
		status->given_up[i] = (char *)probe_kind_name(r.shed[i]);
	m->n_given_up = r.n_shed;
	m->given_up = status->given_up;
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++)
		if (r.sampled_kinds & 1u << kind)
			status->sampled[m->n_sampled++] = (char *)probe_kind_name(kind);
	m->sampled = status->sampled;
	status->reply.recorder = m;
}

const Tfprofd__StatusReply *status_new(struct service *s, const struct grpc_call *call,
				       enum audit_action action, struct status **ret)
{
	struct status *status = calloc(1, sizeof(*status));

	if (!status)
		return NULL;
	status->reply = (Tfprofd__StatusReply)TFPROFD__STATUS_REPLY__INIT;
	status->reply.version = (char *)TFPROFD_VERSION;
	status->reply.hostname = (char *)s->options.hostname;
	if (s->options.config->n_triggers)
		status->reply.snapshot_directory = (char *)s->options.config->snapshots.directory;
	status->reply.uptime_ns = loop_now() - s->started_ns;
	fill_targets(status, s, call, action);
	fill_captures(status, s, grpc_call_peer(call));
	fill_recorder(status, s);
	*ret = status;
	return &status->reply;
}

void control_status(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct status *status = NULL;
	const Tfprofd__StatusReply *reply = status_new(data, call, AUDIT_STATUS, &status);

	if (reply)
		reply_answer(call, &reply->base);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	free(status);
}

/* Whether the request names a process of the capture: *ret_named, 0: it names none. */
static bool is_meant(const struct job *job, const Tfprofd__StopRequest *m, pid_t *ret_named)
{
	*ret_named = 0;
	for (size_t i = 0; job->capture && i < m->n_pids && !*ret_named; i++)
		if (capture_asks_for(job->capture, (pid_t)m->pids[i]))
			*ret_named = (pid_t)m->pids[i];
	return *ret_named;
}

void control_stop(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__StopRequest *m = tfprofd__stop_request__unpack(NULL, size, message);
	Tfprofd__StopReply reply = TFPROFD__STOP_REPLY__INIT;
	struct service *s = data;
	unsigned n = 0;

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a StopRequest");
		return;
	}
	for (struct job *j = s->jobs; j; j = j->next) {
		bool may = is_own(grpc_call_peer(call), j);
		pid_t named;

		if (!is_meant(j, m, &named) && !(may && !m->n_pids))
			continue;
		audit_report(s, call, may ? AUDIT_ALLOW : AUDIT_DENY, AUDIT_END, named,
			     "a capture of user %u", j->uid);
		if (may)
			capture_stop(j->capture);
		reply.captures += may;
		n++;
	}
	if (!n)
		audit_report(s, call, AUDIT_FAIL, AUDIT_END, m->n_pids ? audit_pid(m->pids[0]) : 0,
			     "no such capture runs");
	tfprofd__stop_request__free_unpacked(m, NULL);
	reply_answer(call, &reply.base);
}

/* Names and versions are those of others' processes and files. */
static void print_untrusted(FILE *f, const char *text)
{
	char piece[ESCAPE_SIZE];

	while (*text) {
		escape_next(&text, piece);
		fputs(piece, f);
	}
}

static void print_target(FILE *f, const Tfprofd__TargetStatus *t, bool more)
{
	fprintf(f, "  %u ", t->target->pid);
	print_untrusted(f, t->target->name);
	fprintf(f, ", %s, ", t->target->runtime);
	print_untrusted(f, t->target->version);
	if (*t->target->address)
		fprintf(f, ", %s", t->target->address);
	if (t->measured)
		fprintf(f, ": %.1f requests/s, p50 %.3f ms, p99 %.3f ms", t->requests_per_s,
			(double)t->p50_ns / 1e6, (double)t->p99_ns / 1e6);
	else if (more)
		fprintf(f, ": requests are counted while a capture or the recorder runs");
	fputc('\n', f);
}

static void print_recorder(FILE *f, const Tfprofd__RecorderStatus *r)
{
	fprintf(f,
		"  recorder at level %u%s: the last %.1f s in %.1f of %.1f MiB, %" PRIu64
		" records, %" PRIu64 " lost, cost %.2f %% of %.4g %%",
		r->level, r->attached ? "" : ", waiting for a process", (double)r->kept_ns / 1e9,
		(double)r->bytes / (1 << 20), (double)r->max_bytes / (1 << 20), r->records,
		r->dropped, r->overhead, r->max_overhead);
	for (size_t i = 0; i < r->n_given_up; i++)
		fprintf(f, "%s %s", i ? "," : ", disabled:", r->given_up[i]);
	for (size_t i = 0; i < r->n_sampled; i++)
		fprintf(f, "%s %s", i ? "," : ", sampled:", r->sampled[i]);
	fputc('\n', f);
}

void status_print(FILE *f, const Tfprofd__StatusReply *reply, bool more)
{
	fprintf(f, "tfprofd on %s: %zu process%s to profile\n", reply->hostname, reply->n_targets,
		reply->n_targets == 1 ? "" : "es");
	for (size_t i = 0; i < reply->n_targets; i++)
		print_target(f, reply->targets[i], more);
	for (size_t i = 0; i < reply->n_captures; i++) {
		const Tfprofd__CaptureStatus *c = reply->captures[i];

		fprintf(f,
			"  capture running for %.1f s: %" PRIu64 " records, %" PRIu64
			" lost, cost %.2f %%",
			(double)c->elapsed_ns / 1e9, c->records, c->dropped, c->overhead);
		if (more)
			fprintf(f,
				", of user %u, %zu process%s, %.1f s in all, %" PRIu64 " requests",
				c->uid, c->n_pids, c->n_pids == 1 ? "" : "es",
				(double)c->duration_ns / 1e9, c->requests);
		fputc('\n', f);
	}
	if (reply->recorder)
		print_recorder(f, reply->recorder);
	if (more)
		fprintf(f, "  version %s, up for %.0f s\n", reply->version,
			(double)reply->uptime_ns / 1e9);
}
