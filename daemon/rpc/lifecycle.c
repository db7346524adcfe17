/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/lifecycle.h"

#include <errno.h>
#include <string.h>

#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/reply.h"
#include "daemon/rpc/settle.h"
#include "daemon/rpc/status.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

/* One process, and what its message refers to. */
struct process_reply {
	Tfprofd__ProcessLifecycle message;
	Tfprofd__Target target;
	char address[32];
	struct lifecycle lifecycle;
	struct startup_track track;
	Tfprofd__LifecyclePhase phases[STARTUP_PHASES_MAX], *list[STARTUP_PHASES_MAX];
};

static void fill_phase(const struct startup_phase *phase, uint64_t offset,
		       Tfprofd__LifecyclePhase *ret)
{
	*ret = (Tfprofd__LifecyclePhase)TFPROFD__LIFECYCLE_PHASE__INIT;
	ret->name = (char *)startup_phase_name(phase->kind);
	ret->path =
		(ProtobufCBinaryData){ .data = (uint8_t *)phase->path, .len = strlen(phase->path) };
	ret->start_unix_ns = phase->start_ns + offset;
	ret->end_unix_ns = phase->end_ns ? phase->end_ns + offset : 0;
	ret->runs = phase->runs;
	ret->failed = phase->failed;
	ret->goes_on = phase->goes_on;
	ret->start_is_bound = phase->start_is_bound;
	ret->end_is_bound = phase->end_is_bound;
}

static void fill_process(struct process_reply *p, const struct target *target, uint64_t offset)
{
	const struct startup *s = &p->lifecycle.startup;

	startup_phases(s, &p->track);
	p->message = (Tfprofd__ProcessLifecycle)TFPROFD__PROCESS_LIFECYCLE__INIT;
	status_fill_target(target, &p->target, p->address);
	p->message.target = &p->target;
	p->message.seen_live = s->executed_ns;
	p->message.is_watched = p->lifecycle.is_watched;
	p->message.watched_since_unix_ns = s->watched_ns ? s->watched_ns + offset : 0;
	p->message.watched_until_unix_ns = s->unwatched_ns ? s->unwatched_ns + offset : 0;
	p->message.note = p->lifecycle.note;
	p->message.loads_left_out = s->n_loads_left_out;
	for (unsigned i = 0; i < p->track.n; i++) {
		p->list[i] = &p->phases[i];
		fill_phase(&p->track.phases[i], offset, &p->phases[i]);
	}
	p->message.phases = p->list;
	p->message.n_phases = p->track.n;
}

/* Collects the requested processes; answers the call if there is no memory. */
static struct process_reply *collect(struct service *s, struct grpc_call *call, uint32_t pid,
				     Tfprofd__ProcessLifecycle **list, size_t *ret_n)
{
	const struct target *chosen[TARGETS_MAX];
	struct process_reply *replies;
	unsigned more, n;
	pid_t denied;

	n = choose_permitted(s, call, chosen, TARGETS_MAX, &more, &denied);
	replies = calloc(MAX(n, 1u), sizeof(replies[0]));
	*ret_n = 0;
	for (unsigned i = 0; replies && i < n; i++) {
		struct process_reply *p = &replies[*ret_n];

		if ((pid && chosen[i]->pid != (pid_t)pid) || !s->lifecycles ||
		    !lifecycles_get(s->lifecycles, chosen[i], true, &p->lifecycle))
			continue;
		fill_process(p, chosen[i], clock_unix_offset());
		list[(*ret_n)++] = &p->message;
	}
	return replies;
}

/* pid: as the request names it; n: how many processes the answer has. */
static void report(struct service *s, const struct grpc_call *call, uint32_t pid, size_t n)
{
	const struct port *port = grpc_call_listener(call);
	const struct peer *peer = grpc_call_peer(call);
	pid_t named = pid ? audit_pid(pid) : port ? port->pid : 0;
	int error = 0;
	/* A target without an answer: the client may not see it, or nothing of it is known. */
	bool denied = named && !n && targets_examine(s->targets, named, &error) &&
		      !(peer && choose_may(s, peer->client, named, NULL, NULL));

	audit_report(s, call,
		     denied      ? AUDIT_DENY
		     : pid && !n ? AUDIT_FAIL
				 : AUDIT_ALLOW,
		     AUDIT_LIFECYCLE, named, "%zu processes", n);
}

void control_lifecycle(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__LifecycleRequest *request =
		tfprofd__lifecycle_request__unpack(NULL, size, message);
	Tfprofd__LifecycleReply reply = TFPROFD__LIFECYCLE_REPLY__INIT;
	Tfprofd__ProcessLifecycle *list[TARGETS_MAX];
	struct process_reply *replies;
	uint32_t pid;

	if (!request) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a LifecycleRequest");
		return;
	}
	pid = request->pid;
	tfprofd__lifecycle_request__free_unpacked(request, NULL);
	if (settle(data, call, control_lifecycle, message, size, &pid, pid > 0))
		return;
	replies = collect(data, call, pid, list, &reply.n_processes);
	reply.processes = list;
	report(data, call, pid, reply.n_processes);
	if (!replies)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else if (pid && !reply.n_processes)
		grpc_call_fail(
			call, GRPC_NOT_FOUND,
			"process %u is not among those that you may profile: tfprofctl targets lists them",
			pid);
	else
		reply_answer(call, &reply.base);
	free(replies);
}
