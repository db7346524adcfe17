/* SPDX-License-Identifier: Apache-2.0 */
/* The context of every call: the daemon's front as its services know it. The services share it, and
 * each changes only its own part. */
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
	const struct listener *listeners; /* whose connections the broker accepts */
	unsigned n_listeners;
	const struct config *config; /* borrowed */
	struct grpc_tls *tls;        /* borrowed, NULL: none */
	/* A listening socket, owned by the service; -1: none. */
	int metrics;
	/* As service_ports_new(), borrowed. */
	int ports;
	/* To the broker, for its audit log. */
	int notes;
	/* The directory for cached data, owned by the service; -1: none. */
	int cache;
};

/* Of how many targets it is kept whether a client may see them. */
#define PEER_SEEN 16

struct seen {
	uint32_t program; /* of the target; 0: none */
	bool may;
	uint64_t until_ns;
};

/* A client, as the broker identified it. */
struct peer {
	uint32_t client;
	uid_t uid;
	/* Whose share of the connections it has. */
	uid_t holder;
	/* Whose time in the loop its calls take; 0: they never wait. */
	uint64_t account;
	struct authority_peer who; /* the same user */
	/* The broker was asked for the user of its certificate, and there is one. */
	bool is_certified, is_known;
	struct seen seen[PEER_SEEN]; /* of choose.c: a ring */
	unsigned n_seen;
};

/* The targets of a listener. */
struct port {
	unsigned index; /* of the listener */
	pid_t pid;      /* 0: every target */
};

/* The latest captures that their clients have canceled. */
#define CANCELED_KEPT 64

struct canceled {
	uid_t uid;
	uint64_t at_ns; /* 0: none */
};

/* Of captures that have ended. */
struct service_totals {
	uint64_t succeeded, failed, cancelled;
	uint64_t records, dropped;
};

struct service {
	struct service_options options;
	struct service_totals totals;
	struct metrics *metrics; /* NULL: not configured */
	struct grpc_server *server;
	struct capture_shared *captures;
	struct targets *targets;
	struct lifecycles *lifecycles; /* NULL: they have ended */
	struct job *jobs;
	struct settling *settling;               /* of settle.c, like the next */
	unsigned n_doctors;                      /* threads that ask the broker */
	bool is_settled;                         /* the call that is being handled has waited */
	struct canceled canceled[CANCELED_KEPT]; /* of jobs.c: a ring */
	unsigned n_canceled;
	/* Of choose.c: processes without a known runtime that the call being handled names. */
	struct target unlisted[RECORD_MAX_TARGETS];
	struct triggered *triggered;          /* of triggered.c */
	struct recorder *recorder;            /* NULL: there is none */
	uid_t recorder_uid;                   /* the user who started it */
	struct authority_peer recorder_owner; /* the same */
	bool recorder_is_configured;          /* root started it */
	bool recorder_ends;
	/* The call that waits for the recorder's end; NULL: none. */
	struct grpc_call *recorder_stopper;
	uint64_t started_ns;
	struct watcher *watchers; /* of health.c */
	unsigned n_watchers;
	struct reflection_files *reflection; /* of reflection.c; NULL: nobody has asked for them */
	bool stopping;
	struct loop_timer *ending; /* set while what still runs keeps the service from its end */
	unsigned notes_unsent;
	bool listener_used[BROKER_MAX_LISTENERS]; /* of single targets */
	/* Of each such listener, the process that has or had it: also of an earlier front. Shared
	 * memory. */
	pid_t *port_pids;
	/* Of the listeners for every target: the server's ids. */
	int listener_ids[BROKER_MAX_LISTENERS];
};
