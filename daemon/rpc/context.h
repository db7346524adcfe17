/* SPDX-License-Identifier: Apache-2.0 */
/* What every call is served with: the daemon's front as its services know it. The services share
 * it, and each changes only what is its own. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/listener.h"
#include "daemon/capture/capture.h"
#include "daemon/config/config.h"
#include "daemon/discovery/targets.h"
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

/* What a listener stands for. */
struct port {
	unsigned index; /* of the listener */
	pid_t pid;      /* 0: every target */
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
