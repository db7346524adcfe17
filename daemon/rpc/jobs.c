/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/reply.h"
#include "lib/base/share.h"

/* To begin and to cancel a capture takes more of the host than of the client, who may do it so many
 * times in so long. */
#define CANCELED_MAX 4
#define CANCELED_NS 10000000000ull

static void job_free(struct job *job)
{
	for (struct job **j = &job->service->jobs; *j; j = &(*j)->next)
		if (*j == job) {
			*j = job->next;
			break;
		}
	loop_timer_free(job->progress);
	free(job);
}

static void on_capture_done(struct capture *capture, void *data)
{
	struct capture_result *result = capture_get_result(capture);
	struct service_totals *totals = &((struct job *)data)->service->totals;
	struct job *job = data;

	job->capture = NULL;
	*(result->error == -ECANCELED ? &totals->cancelled
	  : result->error             ? &totals->failed
				      : &totals->succeeded) += 1;
	totals->records += result->records;
	totals->dropped += result->dropped;
	/* The broker has written whom it denied a process. */
	if (job->call && result->error && result->error != -EACCES)
		audit_report(job->service, job->call, AUDIT_FAIL,
			     job->plan_only ? AUDIT_PLAN : AUDIT_CAPTURE, 0, "%s", result->text);
	if (job->call) {
		grpc_call_on_cancel(job->call, NULL, NULL);
		if (result->error && job->answer_failure && job->answer_failure(job, result))
			; /* done */
		else if (result->error)
			grpc_call_fail(job->call, reply_status_of(result->error), "%s",
				       result->text);
		else
			job->answer(job, result);
	}
	job_free(job);
}

static void on_capture_planned(struct capture *capture, const struct capture_plan *plan, void *data)
{
	struct job *job = data;

	if (job->call)
		job->plan(job, plan);
}

static void on_cancelled(void *data)
{
	struct job *job = data;
	struct service *s = job->service;

	job->call = NULL;
	if (!job->capture)
		return;
	if (!job->plan_only)
		s->canceled[s->n_canceled++ % CANCELED_KEPT] =
			(struct canceled){ .uid = job->uid, .at_ns = loop_now() };
	capture_cancel(job->capture);
}

bool job_may_begin(struct service *s, struct grpc_call *call)
{
	const struct peer *peer = grpc_call_peer(call);
	uint64_t now = loop_now();
	unsigned n = 0;

	if (!peer || peer->who.is_root)
		return true;
	for (unsigned i = 0; i < CANCELED_KEPT; i++)
		n += s->canceled[i].at_ns && s->canceled[i].uid == peer->uid &&
		     now - s->canceled[i].at_ns < CANCELED_NS;
	if (n < CANCELED_MAX)
		return true;
	audit_report(s, call, AUDIT_DENY, AUDIT_CAPTURE, 0, "%u captures were canceled within 10 s",
		     n);
	grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED,
		       "%u captures of user %u were canceled within 10 s; wait a moment", n,
		       peer->uid);
	return false;
}

/* Whether one more capture, or plan, may begin; on failure the call is answered. */
static bool has_room(struct service *s, struct grpc_call *call, uid_t uid, bool plan_only)
{
	const struct config *config = s->options.config;
	const struct share share = { .all = config->max_captures,
				     .per_user = config->max_captures_per_user };
	const char *what =
		plan_only ? "plans are already being made" : "captures are already running";
	enum share_verdict verdict;
	unsigned all = 0, own = 0;

	for (const struct job *j = s->jobs; j; j = j->next) {
		bool counts = j->capture && j->plan_only == plan_only;

		all += counts;
		own += counts && j->uid == uid;
	}
	verdict = share_grant(&share, uid, all, own, 1);
	if (verdict == SHARE_ALL_HELD)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			       "%u %s%s (tfprofd --max-captures); wait for one to end", all, what,
			       all < share.all ? ", and the others are reserved for root" : "");
	else if (verdict == SHARE_OF_USER_HELD)
		grpc_call_fail(
			call, GRPC_RESOURCE_EXHAUSTED,
			"%u %s for user %u (tfprofd --max-captures-per-user); wait for one to end",
			own, what, uid);
	if (verdict != SHARE_GRANTED)
		audit_report(s, call, AUDIT_DENY, plan_only ? AUDIT_PLAN : AUDIT_CAPTURE, 0,
			     "%u %s, %u of them for this user", all, what, own);
	return verdict == SHARE_GRANTED;
}

void job_start(struct service *s, struct grpc_call *call, const struct job *template,
	       struct capture_request *request)
{
	const struct peer *peer = grpc_call_peer(call);
	struct job *job;
	int r = -ENOMEM;

	if (choose_limit(s, call, request) < 0)
		return;
	if (peer && !has_room(s, call, peer->uid, request->plan_only))
		return;
	job = calloc(1, sizeof(*job));
	if (job && peer && !s->stopping) {
		audit_introduce(s, call);
		*job = *template;
		job->plan_only = request->plan_only;
		job->service = s;
		job->call = call;
		job->uid = peer->uid;
		job->who = peer->who;
		job->client = peer->client;
		request->client = peer->client;
		request->done = on_capture_done;
		request->data = job;
		request->planned = job->plan ? on_capture_planned : NULL;
		r = capture_start(s->captures, request, &job->capture);
		if (r >= 0) {
			if (job->plan_only)
				audit_report(s, call, AUDIT_ALLOW, AUDIT_PLAN,
					     request->n_targets ? request->targets[0]->pid : 0,
					     "%u processes", request->n_targets);
			job->next = s->jobs;
			s->jobs = job;
			if (grpc_call_on_cancel(call, on_cancelled, job) < 0)
				capture_cancel(job->capture);
			return;
		}
	}
	free(job);
	if (s->stopping)
		grpc_call_fail(call, GRPC_UNAVAILABLE, "the daemon is shutting down");
	else
		grpc_call_fail(call, reply_status_of(r), "cannot start a capture: %s",
			       strerror(-r));
}
