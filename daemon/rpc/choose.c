/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/choose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/limits.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/reply.h"

/* How long an answer of the broker counts for what is shown; it decides again for each capture. */
#define SEEN_NS 1000000000ull

bool choose_may(struct service *s, uint32_t client, pid_t pid,
		struct authority_ceiling *ret_ceiling, char *ret_text)
{
	struct broker_message m = { .type = BROKER_MAY, .id = client, .pid = (uint32_t)pid };
	int r = proxy_call(s->options.proxy, &m, NULL, NULL);

	if (r >= 0 && ret_ceiling)
		*ret_ceiling = m.ceiling;
	if (r < 0 && ret_text)
		snprintf(ret_text, CHOOSE_TEXT, "%s", *m.text ? m.text : strerror(-r));
	return r >= 0;
}

/* Whether the client sees the target: the broker's answer counts for a while, as every client asks
 * for every target again and again. */
static bool sees(struct service *s, struct peer *peer, const struct target *target)
{
	uint64_t now = loop_now();
	struct seen *seen;

	for (unsigned i = 0; i < PEER_SEEN; i++)
		if (peer->seen[i].program == target->program && peer->seen[i].until_ns > now)
			return peer->seen[i].may;
	seen = &peer->seen[peer->n_seen++ % PEER_SEEN];
	*seen = (struct seen){ .program = target->program,
			       .may = choose_may(s, peer->client, target->pid, NULL, NULL),
			       .until_ns = now + SEEN_NS };
	return seen->may;
}

static bool has_memory(const struct detail *detail)
{
	return detail->memory == MEMORY_ON ||
	       (detail->memory == MEMORY_BY_LEVEL && detail->level >= 3);
}

/* Lowers the request, and states what is lower than requested. */
static void lower(struct capture_request *request, const struct authority_ceiling *ceiling)
{
	bool had_memory = has_memory(&request->detail);
	char level[32] = "", overhead[64] = "";
	bool asked = request->max_overhead > 0;

	if (ceiling->max_level && request->detail.level > ceiling->max_level) {
		request->detail.level = ceiling->max_level;
		snprintf(level, sizeof(level), " level %u;", ceiling->max_level);
	}
	/* 100 is no limit. */
	if (ceiling->max_overhead > 0 && ceiling->max_overhead < 100 &&
	    (request->max_overhead <= 0 || request->max_overhead > ceiling->max_overhead)) {
		request->max_overhead = ceiling->max_overhead;
		/* The result states the budget, and what it lacks for it. */
		if (asked)
			snprintf(overhead, sizeof(overhead), " %.4g %% of the processes' CPU time;",
				 ceiling->max_overhead);
	}
	/* What threads execute belongs to level 2. */
	if (ceiling->max_level == 1)
		request->detail.stacks_hz = 0;
	if (ceiling->no_memory)
		request->detail.memory = MEMORY_OFF;
	request->detail.decrypted = !ceiling->no_decrypted;
	if (*level || *overhead || (ceiling->no_memory && had_memory)) {
		snprintf(
			request->limits, sizeof(request->limits),
			"The daemon's configuration limits your captures of these processes:%s%s%s",
			level, overhead, ceiling->no_memory ? " no allocations;" : "");
		request->limits[strlen(request->limits) - 1] = '.';
	}
}

bool choose_grants(const struct authority_ceiling *ceiling, const struct capture_request *request)
{
	bool is_limited = ceiling->max_overhead > 0 && ceiling->max_overhead < 100;
	const struct detail *detail = &request->detail;

	return (!ceiling->max_level || detail->level <= ceiling->max_level) &&
	       (!ceiling->max_duration_ns || request->duration_ns <= ceiling->max_duration_ns) &&
	       (!is_limited ||
		(request->max_overhead > 0 && request->max_overhead <= ceiling->max_overhead)) &&
	       !(ceiling->no_memory && has_memory(detail)) &&
	       !(ceiling->no_decrypted && detail->decrypted && !detail->no_sockets);
}

/* Adds the targets that work for those that were asked for, unless they would limit the capture. */
static void add_children(struct service *s, struct peer *peer, struct capture_request *request)
{
	struct authority_ceiling own;
	unsigned n_limited = 0;
	size_t used;

	request->n_asked = request->n_targets;
	for (struct target *t = targets_next(s->targets, NULL); t;
	     t = targets_next(s->targets, t)) {
		if (!capture_request_has_parent(request, t) ||
		    !choose_may(s, peer->client, t->pid, &own, NULL))
			continue;
		if (!choose_grants(&own, request))
			n_limited++;
		else if (request->n_targets < RECORD_MAX_TARGETS)
			request->targets[request->n_targets++] = t;
		else
			request->n_left_out++;
	}
	used = strlen(request->limits);
	if (n_limited)
		snprintf(
			request->limits + used, sizeof(request->limits) - used,
			"%s%u process%s that work%s for these %s left out: the limits are lower there.",
			used ? " " : "", n_limited, n_limited == 1 ? "" : "es",
			n_limited == 1 ? "s" : "", n_limited == 1 ? "is" : "are");
}

int choose_limit(struct service *s, struct grpc_call *call, struct capture_request *request)
{
	const struct peer *peer = grpc_call_peer(call);
	struct authority_ceiling ceiling = {}, next;
	bool any = false;

	for (unsigned i = 0; peer && i < request->n_targets; i++)
		if (choose_may(s, peer->client, request->targets[i]->pid, &next, NULL)) {
			ceiling = authority_lower(&ceiling, &next);
			any = true;
		}
	ceiling.no_decrypted |= !any;
	if (ceiling.max_duration_ns && request->duration_ns > ceiling.max_duration_ns) {
		audit_report(s, call, AUDIT_DENY, AUDIT_CAPTURE, request->targets[0]->pid,
			     "the duration is above max-duration");
		grpc_call_fail(
			call, GRPC_INVALID_ARGUMENT,
			"the daemon's configuration limits your captures of these processes to %.6g s: use a shorter duration",
			(double)ceiling.max_duration_ns / 1e9);
		return -EINVAL;
	}
	lower(request, &ceiling);
	if (any)
		add_children(s, grpc_call_peer(call), request);
	return 0;
}

unsigned choose_permitted(struct service *s, const struct grpc_call *call,
			  const struct target **ret_targets, unsigned max, unsigned *ret_more,
			  pid_t *ret_denied)
{
	const struct port *port = grpc_call_listener(call);
	struct peer *peer = grpc_call_peer(call);
	bool is_last = false;
	unsigned n = 0;

	*ret_more = 0;
	*ret_denied = 0;
	if (!port || !peer)
		return 0;
	if (!port->pid)
		targets_scan(s->targets);
	/* Those that work for others come last. */
	for (struct target *t = targets_next(s->targets, NULL); t || !is_last;
	     t = targets_next(s->targets, t)) {
		if (!t) {
			is_last = true;
			continue;
		}
		if ((port->pid && port->pid != t->pid) ||
		    pack_set_works_for_parent(t->packs) != is_last)
			continue;
		if (!sees(s, peer, t))
			*ret_denied = port->pid;
		else if (n < max)
			ret_targets[n++] = t;
		else
			++*ret_more;
	}
	return n;
}

bool call_is_for_all(const struct grpc_call *call)
{
	const struct port *port = grpc_call_listener(call);

	return port && !port->pid;
}

void choose_named(struct service *s, const struct grpc_call *call, unsigned number, pid_t pid,
		  struct named *ret)
{
	struct broker_message m = { .type = BROKER_MAY, .pid = (uint32_t)pid };
	const struct peer *peer = grpc_call_peer(call);
	const struct target *target;

	*ret = (struct named){ .reason = "the connection is closed" };
	target = targets_examine(s->targets, pid, &ret->error);
	if (!target && ret->error)
		return;
	/* Before its files are read: it may be of another user. */
	m.id = peer ? peer->client : 0;
	ret->error = peer ? proxy_call(s->options.proxy, &m, NULL, NULL) : -EACCES;
	if (ret->error == -EACCES) {
		ret->denied = true;
		ret->uid = m.uid;
		if (peer)
			snprintf(ret->reason, sizeof(ret->reason), "%s",
				 *m.text ? m.text : strerror(EACCES));
	}
	if (ret->error >= 0 && !target) {
		ret->error = targets_describe(s->targets, pid, &s->unlisted[number]);
		target = &s->unlisted[number];
	}
	if (ret->error >= 0)
		ret->target = target;
}

/* error: of struct named. */
static void answer_no_target(struct grpc_call *call, uint32_t pid, int error)
{
	if (error == -ESRCH)
		grpc_call_fail(call, GRPC_NOT_FOUND, "there is no process %u", pid);
	else if (error == -EDQUOT)
		grpc_call_fail(
			call, GRPC_RESOURCE_EXHAUSTED,
			"process %u is not a target: its user has as many as one user may have (tfprofd --max-targets-per-user); end one of them",
			pid);
	else if (error == -E2BIG)
		grpc_call_fail(
			call, GRPC_RESOURCE_EXHAUSTED,
			"process %u is not a target: the daemon keeps no more than %d of all users; end one of them",
			pid, TARGETS_MAX);
	else if (error == -ENOEXEC)
		grpc_call_fail(call, GRPC_NOT_FOUND,
			       "process %u executes no program: it is the kernel's, or has ended",
			       pid);
	else
		grpc_call_fail(call, reply_status_of(error), "cannot examine process %u: %s%s", pid,
			       strerror(-error), error == -EMFILE ? "; " FILES_REMEDY : "");
}

int choose_targets(struct service *s, struct grpc_call *call, const uint32_t *pids, size_t n_pids,
		   struct capture_request *request)
{
	const enum audit_action action = request->plan_only ? AUDIT_PLAN : AUDIT_CAPTURE;
	pid_t denied;

	if (n_pids > RECORD_MAX_TARGETS) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "at most %d processes in one capture",
			       RECORD_MAX_TARGETS);
		return -EINVAL;
	}
	for (size_t i = 0; i < n_pids; i++) {
		struct named named = { .error = -ESRCH };

		for (unsigned k = 0; k < i; k++)
			if (pids[k] == pids[i]) {
				grpc_call_fail(call, GRPC_INVALID_ARGUMENT,
					       "process %u was named twice", pids[i]);
				return -EINVAL;
			}
		if (pids[i] <= INT32_MAX)
			choose_named(s, call, (unsigned)i, (pid_t)pids[i], &named);
		if (named.denied) {
			audit_report(s, call, AUDIT_DENY, action, (pid_t)pids[i],
				     "the process belongs to user %u", named.uid);
			grpc_call_fail(call, GRPC_PERMISSION_DENIED,
				       "you may not profile process %u of user %u: %s", pids[i],
				       named.uid, named.reason);
			return -EACCES;
		}
		if (!named.target) {
			audit_report(s, call, AUDIT_FAIL, action, audit_pid(pids[i]),
				     "the process is not a target");
			answer_no_target(call, pids[i], named.error);
			return -ENOENT;
		}
		request->targets[request->n_targets++] = named.target;
	}
	request->skip_ended = !n_pids;
	if (!n_pids)
		request->n_targets = choose_permitted(s, call, request->targets, RECORD_MAX_TARGETS,
						      &request->n_left_out, &denied);
	if (request->n_targets)
		return 0;
	audit_report(s, call, denied ? AUDIT_DENY : AUDIT_FAIL, action, denied,
		     "no process that the client may profile");
	grpc_call_fail(call, GRPC_NOT_FOUND,
		       "there is no process with a known runtime that you may profile");
	return -ENOENT;
}
