/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/control.h"
#include "daemon/rpc/doctor.h"
#include "daemon/rpc/health.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/lifecycle.h"
#include "daemon/rpc/metrics.h"
#include "daemon/rpc/profiler.h"
#include "daemon/rpc/recorder.h"
#include "daemon/rpc/reflection.h"
#include "daemon/rpc/settle.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/triggered.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"
#include "lib/base/shared.h"

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

/* Requests are small: a larger message only costs memory and time to unpack. */
#define REQUEST_BYTES_MAX (64u << 10)
#define BUFFERED_BYTES_MAX (16u << 20)

/* From one look at what still runs to the next, once the service stops. */
#define ENDING_STEP_NS 5000000

/*
 * Whose time the client's calls take: its user's, or that of a host, because a client under TLS is
 * not known before it has presented its certificate. Root's calls on this host never wait.
 */
static uint64_t account_of(const struct listener *listener, uid_t uid, int connection)
{
	struct sockaddr_storage address = {};
	socklen_t size = sizeof(address);

	if (listener->kind != LISTENER_TLS)
		return uid;
	getpeername(connection, (struct sockaddr *)&address, &size);
	/* The port is not part of a host. */
	((struct sockaddr_in *)&address)->sin_port = 0;
	return hash_text(0, (const char *)&address, sizeof(address)) | 1ull << 63;
}

static uint64_t on_account(void *peer, void *data)
{
	return ((const struct peer *)peer)->account;
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
	if (r < 0)
		return r;
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		proxy_call_id(s->options.proxy, BROKER_CLIENT_GONE, m.id);
		close(connection);
		return -ENOMEM;
	}
	/* Until its handshake is complete it can be anybody. */
	*peer = (struct peer){ .client = m.id,
			       .uid = m.peer.uid,
			       .who = m.peer,
			       .holder = m.peer.holder,
			       .account = account_of(&s->options.listeners[port->index],
						     m.peer.holder, connection) };
	*ret_peer = peer;
	return connection;
}

static void on_released(void *data, void *user)
{
	struct service *s = user;
	struct peer *peer = data;

	proxy_call_id(s->options.proxy, BROKER_CLIENT_GONE, peer->client);
	free(peer);
}

static const char *on_crowded(void *peer, enum share_verdict verdict, void *data)
{
	const char *reason =
		verdict == SHARE_OF_USER_HELD
			? "you hold as many connections as one user may (tfprofd --max-connections-per-user): close one of them"
			: "all connections are held, and the others are reserved for root (tfprofd --max-connections): try again soon";

	audit_report_peer(data, peer, AUDIT_DENY, AUDIT_CONNECT, reason);
	return reason;
}

static uid_t holder_of(void *peer, void *data)
{
	return ((struct peer *)peer)->holder;
}

/* Finds the user of a client's certificate. */
static void certify(struct service *s, struct grpc_call *call, struct peer *peer)
{
	const char *name;

	peer->is_certified = true;
	for (unsigned i = 0; !peer->is_known && (name = grpc_call_certified_name(call, i)); i++) {
		struct broker_message m = { .type = BROKER_CERTIFY, .id = peer->client };

		snprintf(m.name, sizeof(m.name), "%s", name);
		if (proxy_call(s->options.proxy, &m, NULL, NULL) < 0)
			continue;
		peer->who = m.peer;
		peer->uid = m.peer.uid;
		peer->is_known = true;
	}
	if (!peer->is_known)
		log_warning("refused a client: no user has its certificate (tls-users)");
}

static const char *on_call(struct grpc_call *call, void *data)
{
	const struct port *port = grpc_call_listener(call);
	struct peer *peer = grpc_call_peer(call);
	struct service *s = data;

	if (!port || !peer || !s->options.listeners[port->index].is_certified)
		return NULL;
	if (!peer->is_certified)
		certify(s, call, peer);
	return peer->is_known
		       ? NULL
		       : "no user has this certificate: root can add it to the file tls-users";
}

static void on_unlistened(void *listener, void *data)
{
	free(listener);
}

/* Serves a listening socket through a copy of its descriptor. */
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

static bool may_join(struct service *s, const struct job *j, const struct target *target)
{
	bool is_asked = j->every_target || capture_asks_for(j->capture, target->pid);
	struct authority_ceiling own;

	return (is_asked || capture_request_has_parent(capture_get_request(j->capture), target)) &&
	       choose_may(s, j->client, target->pid, &own, NULL) &&
	       (is_asked || choose_grants(&own, capture_get_request(j->capture)));
}

/* Captures of all processes add it if their client may profile it; captures of this process add its
 * new files. */
static void on_target_changed(struct target *target, void *data)
{
	struct service *s = data;

	for (struct job *j = s->jobs; j; j = j->next)
		if (j->capture && may_join(s, j, target))
			capture_join(j->capture, target);
	if (s->lifecycles)
		lifecycles_add(s->lifecycles, target);
	recorder_on_target(s, target);
}

/* One user's processes take at most half of the ports. */
static bool may_have_port(const struct service *s, const struct target *target)
{
	struct share share = {};
	unsigned all = 0, own = 0;

	for (unsigned i = 0; i < s->options.n_listeners; i++)
		share.all += s->options.listeners[i].kind == LISTENER_TARGET;
	share.per_user = (share.all + 1) / 2;
	for (struct target *t = targets_next(s->targets, NULL); t;
	     t = targets_next(s->targets, t)) {
		all += t->port != 0;
		own += t->port && t->uid == target->uid;
	}
	return share_grant(&share, target->uid, all, own, 1) == SHARE_GRANTED;
}

/* Serves the target on the listener; false: it cannot. */
static bool take_port(struct service *s, struct target *target, unsigned i)
{
	struct broker_message m = { .type = BROKER_LISTEN, .index = i };
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	if (s->listener_used[i] || s->options.listeners[i].kind != LISTENER_TARGET)
		return false;
	/* Before it listens: a later front looks at these ports only. */
	s->port_pids[i] = target->pid;
	if (proxy_call(s->options.proxy, &m, NULL, NULL) < 0 ||
	    serve(s, i, target->pid, &target->listener) < 0)
		return false;
	s->listener_used[i] = true;
	target->listener_index = i;
	if (getsockname(s->options.listeners[i].fd, (struct sockaddr *)&address, &size) == 0)
		target->port = ntohs(address.sin_port);
	return true;
}

/* The port that it had at an earlier front, or the first one that no process had, or the first free
 * one. */
static void assign_port(struct service *s, struct target *target)
{
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (s->port_pids[i] == target->pid && take_port(s, target, i))
			return;
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (!s->port_pids[i] && take_port(s, target, i))
			return;
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (take_port(s, target, i))
			return;
}

static void on_target_added(struct target *target, void *data)
{
	struct service *s = data;

	on_target_changed(target, data);
	log_info("found process %d (%s): %s, %s", target->pid, target->name, target->packs->name,
		 target->version);
	/* A capture of its parent is of it, too. */
	if (pack_set_works_for_parent(target->packs) || !may_have_port(s, target))
		return;
	assign_port(s, target);
}

static void on_target_removed(struct target *target, void *data)
{
	struct service *s = data;

	log_info("process %d (%s) has ended or is no longer a target", target->pid, target->name);
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
	s->port_pids[target->listener_index] = 0;
}

void service_close_ports(struct service *s)
{
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (s->port_pids[i] && !s->listener_used[i])
			proxy_call(s->options.proxy,
				   &(struct broker_message){ .type = BROKER_UNLISTEN, .index = i },
				   NULL, NULL);
}

#define PORTS_BYTES (sizeof(pid_t) * BROKER_MAX_LISTENERS)

int service_ports_new(void)
{
	return shared_new("ports", PORTS_BYTES);
}

static void on_lifecycles_ended(void *data)
{
	((struct service *)data)->lifecycles = NULL;
}

static int watch_lifecycles(struct service *s)
{
	struct lifecycles_options options = { .loop = s->options.loop,
					      .proxy = s->options.proxy,
					      .cache = s->options.cache,
					      .watches = s->options.config->lifecycle,
					      .ended = on_lifecycles_ended,
					      .data = s };
	int r = lifecycles_new(&options, &s->lifecycles);

	if (r >= 0)
		capture_shared_set_startup(s->captures, lifecycles_track, s->lifecycles);
	return r;
}

static void end_when_idle(void *data)
{
	struct service *s = data;

	/* Threads of captures that still detach use the loop and the lifecycles. */
	if (!capture_count(s->captures) && s->lifecycles)
		lifecycles_end(s->lifecycles);
	if (capture_count(s->captures) || s->recorder || s->lifecycles || s->n_doctors)
		loop_timer_set(s->ending, loop_now() + ENDING_STEP_NS);
	else
		loop_exit(s->options.loop, 0);
}

int service_new(const struct service_options *options, struct service **ret)
{
	struct grpc_server_options server = { .methods = methods,
					      .n_methods = ARRAY_SIZE(methods),
					      .accept = on_accept,
					      .refuse = on_call,
					      .released = on_released,
					      .user = holder_of,
					      .crowded = on_crowded,
					      .max_connections = options->config->max_connections,
					      .max_user_connections =
						      options->config->max_connections_per_user,
					      .account = on_account,
					      .max_message = REQUEST_BYTES_MAX,
					      .max_buffered = BUFFERED_BYTES_MAX,
					      .unlistened = on_unlistened };
	struct targets_options targets = { .loop = options->loop,
					   .proxy = options->proxy,
					   .added = on_target_added,
					   .changed = on_target_changed,
					   .removed = on_target_removed,
					   .max_per_user = options->config->max_targets_per_user,
					   .reports_early = options->config->lifecycle };
	struct service *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->started_ns = loop_now();
	server.data = targets.data = s;
	r = shared_map(s->options.ports, PORTS_BYTES, &s->port_pids);
	if (r >= 0)
		r = grpc_server_new(options->loop, &server, &s->server);
	if (r >= 0)
		r = capture_shared_new(options->loop, options->proxy, options->cache,
				       options->hostname, &s->captures);
	if (r >= 0)
		r = loop_timer_new(options->loop, end_when_idle, s, &s->ending);
	if (r >= 0)
		r = targets_new(&targets, &s->targets);
	if (r >= 0)
		r = triggered_new(s, &s->triggered);
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
	reflection_free(s->reflection);
	metrics_free(s->metrics);
	settle_free(s);
	targets_free(s->targets);
	loop_timer_free(s->ending);
	triggered_free(s->triggered);
	capture_shared_free(s->captures);
	if (s->port_pids)
		munmap(s->port_pids, PORTS_BYTES);
	safe_close(s->options.cache);
	free(s);
	return NULL;
}

int service_listen(struct service *s, unsigned index)
{
	return serve(s, index, 0, &s->listener_ids[index]);
}

/* What is known of a client by the rules that the broker has now. */
static bool renew_peer(int fd, void *data, void *user)
{
	struct peer *peer = data;
	struct service *s = user;
	struct broker_message m = { .type = BROKER_PEER, .id = peer->client };

	memset(peer->seen, 0, sizeof(peer->seen));
	if (proxy_call(s->options.proxy, &m, NULL, NULL) == 0) {
		peer->who = m.peer;
		peer->uid = m.peer.uid;
	}
	return true;
}

void service_set_config(struct service *s, const struct config *config)
{
	s->options.config = config;
	triggered_set(s->triggered, config);
	grpc_server_each(s->server, renew_peer, s);
	/* Their clients may have more of them now. */
	for (struct target *t = targets_next(s->targets, NULL); t; t = targets_next(s->targets, t))
		on_target_changed(t, s);
}

void service_set_tls(struct service *s, struct grpc_tls *tls)
{
	s->options.tls = tls;
	for (unsigned i = 0; i < s->options.n_listeners; i++)
		if (s->options.listeners[i].kind == LISTENER_TLS)
			grpc_server_set_tls(s->server, s->listener_ids[i], tls);
}

static bool return_connection(int fd, void *data, void *user)
{
	const struct peer *peer = data;
	struct service *s = user;

	return proxy_return(s->options.proxy, peer->client, fd) == 0;
}

void service_renew(struct service *s)
{
	grpc_server_each(s->server, return_connection, s);
	targets_renew(s->targets);
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
