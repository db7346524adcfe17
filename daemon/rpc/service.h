/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon answers, on every listener: TensorBoard's ProfilerService, tfprofctl's Control,
 * and gRPC's own health and reflection. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/listener.h"
#include "daemon/capture/capture.h"
#include "daemon/config/config.h"
#include "daemon/discovery/target.h"
#include "daemon/lifecycle/lifecycle.h"
#include "daemon/proxy/proxy.h"
#include "daemon/recorder/recorder.h"
#include "lib/base/loop.h"
#include "lib/grpc/server.h"

struct service_options {
	struct loop *loop;
	struct proxy *proxy;
	const char *hostname;
	const struct listener *listeners; /* that the broker accepts on */
	unsigned n_listeners;
	const struct config *config; /* borrowed */
	struct grpc_tls *tls;        /* borrowed, NULL: none */
	int metrics; /* a socket that listens, owned by the service from now on; -1: none */
	int cache;   /* a directory for what is worth keeping, owned by the service from now on; -1:
			none */
};

/* A client, as the broker knows it. */
struct peer {
	uint32_t client;
	uid_t uid;
};

/* Of captures that have come to an end. */
struct service_totals {
	uint64_t succeeded, failed, cancelled;
	uint64_t records, dropped;
};

struct service {
	struct service_options options;
	struct service_totals totals;
	struct metrics *metrics; /* NULL: nobody asks */
	struct grpc_server *server;
	struct plan_cache *plans;
	struct capture_shared *captures;
	struct targets *targets;
	struct lifecycles *lifecycles; /* NULL: they have ended */
	struct job *jobs;
	struct recorder *recorder; /* NULL: there is none */
	uid_t recorder_uid;        /* who wanted it */
	bool recorder_ends;
	bool recorder_client_gone; /* its connection is closed, and the broker keeps its place for
				      the recorder */
	struct grpc_call *recorder_stopper; /* who waits for its end; NULL: nobody */
	uint64_t started_ns;
	struct watcher *watchers; /* of health.c */
	unsigned n_watchers;
	bool stopping;
	bool listener_used[BROKER_MAX_LISTENERS]; /* of single targets */
	int listener_ids[BROKER_MAX_LISTENERS];   /* of those for every target, the server's */
};

int service_new(const struct service_options *options, struct service **ret);
/* Serves every target on the listener with this index. */
int service_listen(struct service *s, unsigned index);
/* From now on it is configured otherwise; borrowed. */
void service_set_config(struct service *s, const struct config *config);
/* New connections under TLS are made with this; borrowed. */
void service_set_tls(struct service *s, struct grpc_tls *tls);
/* Ends the windows that are open, answers, and then ends the loop. */
void service_stop(struct service *s);
struct service *service_free(struct service *s);

/* Whether a service of this name, "package.Service", is served. */
bool service_has(const char *name);
/* Whether a client may profile a target; the broker asks the kernel again. */
bool peer_may(const struct peer *peer, const struct target *target);
/*
 * The targets that the client may profile of those that the listener stands for: one, or all; at
 * most max. *ret_denied: the process of a listener for one, when the client may not, else 0;
 * *ret_more: how many were left out for max.
 */
unsigned service_choose(struct service *s, const struct grpc_call *call,
			const struct target **ret_targets, unsigned max, unsigned *ret_more,
			pid_t *ret_denied);

/* Whether the call came in on a listener that stands for every target. */
bool service_is_for_all(const struct grpc_call *call);

/* A capture for a call. */
struct job {
	struct service *service;
	struct grpc_call *call;  /* NULL: the client has gone */
	struct capture *capture; /* NULL: it has delivered its result */
	uid_t uid;
	char session_id[64];
	bool emit_xspace;
	pid_t pid;                   /* Doctor only: who is asked about */
	bool every_target;           /* not only those that were named: more may join */
	struct loop_timer *progress; /* Control only */
	/* What will be attached is known. May be NULL. */
	void (*plan)(struct job *job, const struct capture_plan *plan);
	void (*answer)(struct job *job, struct capture_result *result);
	/* Answers a capture that failed; false: a status says it. May be NULL. */
	bool (*answer_failure)(struct job *job, const struct capture_result *result);
	struct job *next;
};

/* Starts a capture for a call. On failure the call is answered. */
void job_start(struct service *s, struct grpc_call *call, const struct job *job,
	       struct capture_request *request);
/* The status for a negative errno of a capture. */
enum grpc_status status_of_error(int error);

/* Answers with a message. */
void service_answer(struct grpc_call *call, const ProtobufCMessage *message);

/* recorder.c: the flight recorder, of which there is one at the most. Starts that of the
 * configuration, if there is to be one. */
int recorder_configure(struct service *s);
/* A process came to be a target, or has mapped more. */
void recorder_on_target(struct service *s, const struct target *target);
void recorder_stop(struct service *s);
/* Whether the recorder needs the broker's client, whose connection is closed; it is told of then
 * when the recorder has ended. */
bool recorder_keeps_client(struct service *s, uint32_t client);

/* The answers to a capture that came to its end, or to a snapshot. */
void profiler_answer(struct job *job, struct capture_result *result);
bool profiler_answer_failure(struct job *job, const struct capture_result *result);
void control_answer(struct job *job, struct capture_result *result);

void profiler_profile(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_terminate(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_new_session(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_monitor(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void profiler_start_recorder(struct grpc_call *call, const uint8_t *message, size_t size,
			     void *data);
void profiler_stop_recorder(struct grpc_call *call, const uint8_t *message, size_t size,
			    void *data);
void profiler_get_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void health_check(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void health_watch(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
/* Tells those who watch, and ends their calls. */
void health_stop(struct service *s);
void reflection_info(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_list_targets(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_plan(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_doctor(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_snapshot(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_lifecycle(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_stop(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_status(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_capture(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
