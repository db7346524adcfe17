/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/rpc/metrics.h"
#include "daemon/rpc/reply.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* What a listener stands for. */
struct port {
	unsigned index; /* of the listener */
	pid_t pid;      /* 0: every target */
};

static const struct grpc_method methods[] = {
	{ "/tensorflow.ProfilerService/Profile", profiler_profile },
	{ "/tensorflow.ProfilerService/Terminate", profiler_terminate },
	{ "/tensorflow.ProfilerService/Monitor", profiler_monitor },
	{ "/tensorflow.ProfilerService/StartContinuousProfiling", profiler_start_recorder },
	{ "/tensorflow.ProfilerService/ContinuousProfiling", profiler_start_recorder },
	{ "/tensorflow.ProfilerService/StopContinuousProfiling", profiler_stop_recorder },
	{ "/tensorflow.ProfilerService/GetSnapshot", profiler_get_snapshot },
	{ "/tensorflow.ProfilerService/GetSnapShot", profiler_get_snapshot },
	{ "/tensorflow.ProfileAnalysis/NewSession", profiler_new_session },
	{ "/grpc.health.v1.Health/Check", health_check },
	{ "/grpc.health.v1.Health/Watch", health_watch },
	{ "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", reflection_info,
	  .takes_many = true },
	{ "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", reflection_info,
	  .takes_many = true },
	{ "/tfprofd.Control/ListTargets", control_list_targets },
	{ "/tfprofd.Control/Capture", control_capture },
	{ "/tfprofd.Control/Snapshot", control_snapshot },
	{ "/tfprofd.Control/Stop", control_stop },
	{ "/tfprofd.Control/Status", control_status },
	{ "/tfprofd.Control/Plan", control_plan },
	{ "/tfprofd.Control/Doctor", control_doctor },
	{ "/tfprofd.Control/Lifecycle", control_lifecycle },
};

bool service_has(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (!strncmp(methods[i].path + 1, name, n) && methods[i].path[1 + n] == '/')
			return true;
	return false;
}

void service_answer(struct grpc_call *call, const ProtobufCMessage *message)
{
	struct grpc_body *body;

	if (reply_message(message, &body) < 0)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(call, body);
}

static int on_accept(int fd, void *listener, void *data, void **ret_peer)
{
	const struct port *port = listener;
	struct broker_message m = { .type = BROKER_ACCEPT, .index = port->index };
	struct service *s = data;
	int connection = -1, r;
	struct peer *peer;
	unsigned n;

	r = proxy_call(s->options.proxy, &m, &connection, &n);
	if (r == -EACCES)
		log_warning("refused a connection whose owner is not known");
	if (r < 0)
		return r;
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		proxy_call_id(s->options.proxy, BROKER_CLIENT_GONE, m.id);
		close(connection);
		return -ENOMEM;
	}
	*peer = (struct peer){ .client = m.id, .uid = m.uid };
	*ret_peer = peer;
	return connection;
}

static void on_released(void *data, void *user)
{
	struct service *s = user;
	struct peer *peer = data;

	if (!recorder_keeps_client(s, peer->client))
		proxy_call_id(s->options.proxy, BROKER_CLIENT_GONE, peer->client);
	free(peer);
}

static void on_unlistened(void *listener, void *data)
{
	free(listener);
}

/* Serves a socket that listens already, by a copy of it. */
static int serve(struct service *s, unsigned index, pid_t pid, int *ret_id)
{
	_cleanup_close_ int fd = fcntl(s->options.listeners[index].fd, F_DUPFD_CLOEXEC, 0);
	struct port *port = calloc(1, sizeof(*port));
	int r = port && fd >= 0 ? 0 : -ENOMEM;

	if (r >= 0) {
		*port = (struct port){ .index = index, .pid = pid };
		r = grpc_server_listen(
			s->server, fd,
			s->options.listeners[index].kind == LISTENER_TLS ? s->options.tls : NULL,
			port, ret_id);
	}
	if (r < 0)
		free(port);
	else
		TAKE_FD(fd);
	return r;
}

/* Captures of every process take it in, when their client may; those of this one process take what
 * it has mapped since. */
static void on_target_changed(struct target *target, void *data)
{
	struct service *s = data;

	for (struct job *j = s->jobs; j; j = j->next)
		if (j->capture && (j->every_target || capture_asks_for(j->capture, target->pid)) &&
		    (j->uid == 0 || j->uid == target->uid))
			capture_join(j->capture, target);
	if (s->lifecycles)
		lifecycles_add(s->lifecycles, target);
	recorder_on_target(s, target);
}

/* Gives the target the first port that is free. */
static void on_target_added(struct target *target, void *data)
{
	struct service *s = data;

	on_target_changed(target, data);
	log_info("found process %d (%s): %s, %s", target->pid, target->name, target->pack->name,
		 target->version);
	for (unsigned i = 0; i < s->options.n_listeners; i++) {
		struct broker_message m = { .type = BROKER_LISTEN, .index = i };
		struct sockaddr_in address;
		socklen_t size = sizeof(address);

		if (s->listener_used[i] || s->options.listeners[i].kind != LISTENER_TARGET)
			continue;
		if (proxy_call(s->options.proxy, &m, NULL, NULL) < 0 ||
		    serve(s, i, target->pid, &target->listener) < 0)
			continue;
		s->listener_used[i] = true;
		target->listener_index = i;
		if (getsockname(s->options.listeners[i].fd, (struct sockaddr *)&address, &size) ==
		    0)
			target->port = ntohs(address.sin_port);
		return;
	}
}

static void on_target_removed(struct target *target, void *data)
{
	struct service *s = data;

	log_info("process %d (%s) has ended or is no target any more", target->pid, target->name);
	if (s->lifecycles)
		lifecycles_remove(s->lifecycles, target);
	if (!target->port)
		return;
	if (s->server)
		grpc_server_unlisten(s->server, target->listener);
	proxy_call(s->options.proxy,
		   &(struct broker_message){ .type = BROKER_UNLISTEN,
					     .index = target->listener_index },
		   NULL, NULL);
	s->listener_used[target->listener_index] = false;
}

static void on_lifecycles_ended(void *data)
{
	((struct service *)data)->lifecycles = NULL;
}

static int watch_lifecycles(struct service *s)
{
	struct lifecycles_options options = { .loop = s->options.loop,
					      .proxy = s->options.proxy,
					      .plans = s->plans,
					      .cache = s->options.cache,
					      .watches = s->options.config->lifecycle,
					      .ended = on_lifecycles_ended,
					      .data = s };
	int r = lifecycles_new(&options, &s->lifecycles);

	capture_shared_set_lifecycles(s->captures, s->lifecycles);
	return r;
}

int service_new(const struct service_options *options, struct service **ret)
{
	struct grpc_server_options server = { .methods = methods,
					      .n_methods = ARRAY_SIZE(methods),
					      .accept = on_accept,
					      .released = on_released,
					      .unlistened = on_unlistened };
	struct targets_options targets = { .loop = options->loop,
					   .proxy = options->proxy,
					   .added = on_target_added,
					   .changed = on_target_changed,
					   .removed = on_target_removed,
					   .hurries = options->config->lifecycle };
	struct service *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->started_ns = loop_now();
	server.data = targets.data = s;
	r = grpc_server_new(options->loop, &server, &s->server);
	if (r >= 0)
		r = plan_cache_new(options->cache, &s->plans);
	if (r >= 0)
		r = capture_shared_new(options->loop, options->proxy, s->plans, options->cache,
				       options->hostname, &s->captures);
	targets.plans = s->plans;
	if (r >= 0)
		r = targets_new(&targets, &s->targets);
	if (r >= 0)
		r = recorder_configure(s);
	if (r >= 0 && options->metrics >= 0)
		r = metrics_new(s, options->metrics, &s->metrics);
	if (r >= 0)
		r = watch_lifecycles(s);
	if (r < 0) {
		service_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct service *service_free(struct service *s)
{
	if (!s)
		return NULL;
	s->server = grpc_server_free(s->server);
	metrics_free(s->metrics);
	targets_free(s->targets);
	capture_shared_free(s->captures);
	plan_cache_free(s->plans);
	safe_close(s->options.cache);
	free(s);
	return NULL;
}

int service_listen(struct service *s, unsigned index)
{
	return serve(s, index, 0, &s->listener_ids[index]);
}

void service_set_config(struct service *s, const struct config *config)
{
	s->options.config = config;
}

void service_set_tls(struct service *s, struct grpc_tls *tls)
{
	s->options.tls = tls;
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (s->options.listeners[i].kind == LISTENER_TLS)
			grpc_server_set_tls(s->server, s->listener_ids[i], tls);
}

static void end_when_idle(void *data)
{
	struct service *s = data;

	/* Threads of captures that still detach use the loop, and what is known of their processes'
	 * lives. */
	if (!capture_count(s->captures) && s->lifecycles)
		lifecycles_end(s->lifecycles);
	if (capture_count(s->captures) || s->recorder || s->lifecycles)
		loop_post(s->options.loop, end_when_idle, s);
	else
		loop_exit(s->options.loop, 0);
}

void service_stop(struct service *s)
{
	if (s->stopping)
		return;
	s->stopping = true;
	health_stop(s);
	recorder_stop(s);
	for (struct job *j = s->jobs; j; j = j->next)
		if (j->capture)
			capture_stop(j->capture);
	grpc_server_stop(s->server, end_when_idle, s);
}

bool peer_may(const struct peer *peer, const struct target *target)
{
	return peer->uid == 0 || peer->uid == target->uid;
}

unsigned service_choose(struct service *s, const struct grpc_call *call,
			const struct target **ret_targets, unsigned max, unsigned *ret_more,
			pid_t *ret_denied)
{
	const struct port *port = grpc_call_listener(call);
	const struct peer *peer = grpc_call_peer(call);
	unsigned n = 0;

	*ret_more = 0;
	*ret_denied = 0;
	if (!port || !peer)
		return 0;
	if (!port->pid)
		targets_scan(s->targets);
	for (struct target *t = targets_next(s->targets, NULL); t;
	     t = targets_next(s->targets, t)) {
		if (port->pid && port->pid != t->pid)
			continue;
		if (!peer_may(peer, t))
			*ret_denied = port->pid;
		else if (n < max)
			ret_targets[n++] = t;
		else
			++*ret_more;
	}
	return n;
}

bool service_is_for_all(const struct grpc_call *call)
{
	const struct port *port = grpc_call_listener(call);

	return port && !port->pid;
}

enum grpc_status status_of_error(int error)
{
	switch (-error) {
	case EACCES:
		return GRPC_PERMISSION_DENIED;
	case ESRCH:
	case ENOENT:
		return GRPC_NOT_FOUND;
	case EBUSY:
	case E2BIG:
	case EFBIG:
	case ENOMEM:
		return GRPC_RESOURCE_EXHAUSTED;
	case EPERM:
	case EOPNOTSUPP:
	case ENOEXEC:
	case EBADMSG:
		return GRPC_FAILED_PRECONDITION;
	case ECANCELED:
		return GRPC_CANCELLED;
	case EINVAL:
		return GRPC_INVALID_ARGUMENT;
	default:
		return GRPC_INTERNAL;
	}
}

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
	if (job->call) {
		grpc_call_on_cancel(job->call, NULL, NULL);
		if (result->error && job->answer_failure && job->answer_failure(job, result))
			; /* done */
		else if (result->error)
			grpc_call_fail(job->call, status_of_error(result->error), "%s",
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

	job->call = NULL;
	if (job->capture)
		capture_cancel(job->capture);
}

/* Whether one more capture may begin; on failure the call is answered. */
static bool has_room(const struct service *s, struct grpc_call *call, uid_t uid)
{
	const struct config *config = s->options.config;
	unsigned all = 0, own = 0;

	for (const struct job *j = s->jobs; j; j = j->next) {
		all += j->capture != NULL;
		own += j->capture && j->uid == uid;
	}
	if (all >= config->max_captures)
		grpc_call_fail(
			call, GRPC_RESOURCE_EXHAUSTED,
			"%u captures are running already (tfprofd --max-captures); wait for one to end",
			all);
	else if (own >= config->max_captures_per_user)
		grpc_call_fail(
			call, GRPC_RESOURCE_EXHAUSTED,
			"%u captures of user %u are running already (tfprofd --max-captures-per-user); wait for one to end",
			own, uid);
	else
		return true;
	return false;
}

void job_start(struct service *s, struct grpc_call *call, const struct job *template,
	       struct capture_request *request)
{
	const struct peer *peer = grpc_call_peer(call);
	struct job *job;
	int r = -ENOMEM;

	if (peer && !request->plan_only && !has_room(s, call, peer->uid))
		return;
	job = calloc(1, sizeof(*job));
	if (job && peer && !s->stopping) {
		log_debug("user %u%s%s asks for a capture", peer->uid,
			  grpc_call_subject(call) ? ", " : "", grpc_call_subject(call) ?: "");
		*job = *template;
		job->service = s;
		job->call = call;
		job->uid = peer->uid;
		request->client = peer->client;
		request->done = on_capture_done;
		request->data = job;
		request->planned = job->plan ? on_capture_planned : NULL;
		r = capture_start(s->captures, request, &job->capture);
		if (r >= 0) {
			job->next = s->jobs;
			s->jobs = job;
			if (grpc_call_on_cancel(call, on_cancelled, job) < 0)
				capture_cancel(job->capture);
			return;
		}
	}
	free(job);
	if (s->stopping)
		grpc_call_fail(call, GRPC_UNAVAILABLE, "the daemon is ending");
	else
		grpc_call_fail(call, status_of_error(r), "cannot start a capture: %s",
			       strerror(-r));
}
