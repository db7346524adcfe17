/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/request.h"

#include <stdio.h>
#include <string.h>

#include "cli/report/text.h"
#include "lib/base/macro.h"
#include "lib/base/quota.h"

static const char *const activities[] = {
	[TFPROFD__ACTIVITY__ACTIVITY_UNKNOWN] = "unknown",
	[TFPROFD__ACTIVITY__ACTIVITY_RUNNING] = "running",
	[TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE] = "runnable",
	[TFPROFD__ACTIVITY__ACTIVITY_BLOCKED] = "blocked",
	[TFPROFD__ACTIVITY__ACTIVITY_WAITING] = "waiting",
	[TFPROFD__ACTIVITY__ACTIVITY_THROTTLED] = "throttled",
};

const struct phase_text *request_phase(unsigned phase)
{
	return &phase_texts[MIN(phase, (unsigned)PHASE_UNKNOWN)];
}

const char *request_activity_key(unsigned activity)
{
	return activities[activity < ARRAY_SIZE(activities) ? activity : 0];
}

uint64_t request_phase_ns(const Tfprofd__Request *request, unsigned phase)
{
	return phase < request->n_phases ? request->phases[phase] : 0;
}

uint64_t request_latency_ns(const Tfprofd__Request *request)
{
	return request->end_ns > request->start_ns ? request->end_ns - request->start_ns : 0;
}

bool request_is_whole(const Tfprofd__Request *request)
{
	return !request->cut_start && !request->cut_end && !request->lost && !request->reset;
}

const Tfprofd__RequestThread *request_thread(const Tfprofd__Request *request, uint32_t reference)
{
	return reference && reference <= request->n_threads ? request->threads[reference - 1]
							    : NULL;
}

const char *request_name(const Tfprofd__Request *request, uint32_t reference)
{
	return reference && reference <= request->n_names ? request->names[reference - 1] : NULL;
}

char *request_thread_text(const Tfprofd__Request *request, uint32_t reference)
{
	const Tfprofd__RequestThread *thread = request_thread(request, reference);
	char *text;

	if (!thread)
		return strdup("");
	if (!thread->tid)
		return strdup(thread->name);
	return asprintf(&text, "%s/%u", thread->name, thread->tid) < 0 ? NULL : text;
}

static const char *const held_reasons[] = {
	[TFPROFD__HELD_REASON__HELD_UNKNOWN] = "",
	[TFPROFD__HELD_REASON__HELD_NAGLE] =
		" until the client's ACK of what was written before (Nagle's algorithm)",
	[TFPROFD__HELD_REASON__HELD_CORK] = ", corked",
	[TFPROFD__HELD_REASON__HELD_WINDOW] = ", as the client's receive window was full",
	[TFPROFD__HELD_REASON__HELD_CONGESTION] = ", as the congestion window was full",
};

static char *describe_held(const Tfprofd__Request *request)
{
	char number[TEXT_NUMBER], *text;
	size_t reason = (size_t)request->held_reason;

	if (asprintf(&text, "the answer's last %s bytes stayed in the socket%s",
		     text_count(request->held_bytes, number),
		     reason < ARRAY_SIZE(held_reasons) ? held_reasons[reason] : "") < 0)
		return NULL;
	return text;
}

static char *describe_waiting(const Tfprofd__Request *request,
			      const struct request_activity *activity)
{
	switch (activity->phase) {
	case TFPROFD__PHASE__PHASE_BATCH:
		return strdup("in a batch queue");
	case TFPROFD__PHASE__PHASE_QUEUE:
		return strdup("waiting for a thread");
	case TFPROFD__PHASE__PHASE_ACCEPT_QUEUE:
		return strdup("its connection waits to be accepted");
	case TFPROFD__PHASE__PHASE_SEND_HELD:
		return describe_held(request);
	default:
		return strdup("waiting");
	}
}

/* name: a reference. */
static char *describe_throttled(const Tfprofd__Request *request, uint32_t name)
{
	const char *cgroup = request_name(request, name);
	const Tfprofd__RequestQuota *quota = NULL;
	char limit[QUOTA_TEXT], *text;

	if (!cgroup)
		return strdup("throttled");
	for (size_t i = 0; i < request->n_quotas && !quota; i++)
		if (request->quotas[i]->name == name)
			quota = request->quotas[i];
	if (asprintf(&text, "throttled by the quota of cgroup %s (%s)", cgroup,
		     quota_text(quota ? quota->quota_ns : 0, quota ? quota->period_ns : 0, limit)) <
	    0)
		return NULL;
	return text;
}

char *request_describe(const Tfprofd__Request *request, const struct request_activity *activity)
{
	_cleanup_free_ char *by = request_thread_text(request, activity->by);
	const char *name = request_name(request, activity->name);
	char *text = NULL;
	int n;

	if (!by)
		return NULL;
	switch (activity->activity) {
	case TFPROFD__ACTIVITY__ACTIVITY_RUNNING:
		n = asprintf(&text, "running%s%s", name ? " " : "", name ?: "");
		break;
	case TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE:
		n = asprintf(&text, *by ? "waiting for a CPU while %s ran" : "waiting for a CPU",
			     by);
		break;
	case TFPROFD__ACTIVITY__ACTIVITY_BLOCKED:
		if (name && !strcmp(name, "unknown"))
			name = NULL;
		n = asprintf(&text, "blocked%s%s%s%s", name ? " in " : "", name ?: "",
			     *by ? ", woken by " : "", by);
		break;
	case TFPROFD__ACTIVITY__ACTIVITY_WAITING:
		return describe_waiting(request, activity);
	case TFPROFD__ACTIVITY__ACTIVITY_THROTTLED:
		return describe_throttled(request, activity->name);
	default:
		return strdup(name ?: "unknown activity");
	}
	return n < 0 ? NULL : text;
}
