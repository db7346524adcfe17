/* SPDX-License-Identifier: Apache-2.0 */
/* The role with the network and without capabilities: parses input from clients and targets, and
 * requests the rest from the broker. */
#pragma once

#include "daemon/broker/listener.h"
#include "daemon/config/config.h"
#include "daemon/sandbox/sandbox.h"
#include "lib/grpc/tls.h"

/* To the broker, as in daemon/broker/broker.h. */
struct front_lines {
	int requests, captures, events;
};

struct front_options {
	struct front_lines lines; /* owned by the front */
	/* From the supervisor, owned likewise: struct front_lines of the next broker, in this
	 * order, with a byte. */
	int supervisor;
	const struct listener *listeners;
	unsigned n_listeners;
	/* A byte is written to it when clients are served; -1: not wanted. */
	int ready;
	/* How often to report that the daemon is alive; 0: never. */
	uint64_t watchdog_ns;
	struct config *config; /* owned by the front */
	struct grpc_tls *tls;  /* likewise; NULL: none */
	/* The flags, needed when the configuration is read again. */
	int argc;
	char **argv;
	/* A listening socket, owned by the front; -1: none. */
	int metrics;
	/* Memory that outlives the front, of service_ports_new(), borrowed: which process has which
	 * port. */
	int ports;
	/* Who the front becomes: a user that owns nothing but the cache. */
	struct sandbox_user user;
	/* The front's own directory, owned by it; -1: none. */
	int cache;
};

/* Drops every privilege and serves until the broker requests its end, or the supervisor ends. When
 * the broker ends, it waits for the next one. Returns 0 or -errno. */
int front_run(const struct front_options *options);
