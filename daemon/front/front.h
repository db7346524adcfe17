/* SPDX-License-Identifier: Apache-2.0 */
/* The role with the network and no capability: parses what clients and targets say, and asks the
 * broker for the rest. */
#pragma once

#include "daemon/broker/listener.h"
#include "daemon/config/config.h"
#include "lib/grpc/tls.h"

/* The user that owns nothing but the cache. */
#define FRONT_USER 65534

struct front_options {
	int requests, events; /* to the broker; owned by the front */
	const struct listener *listeners;
	unsigned n_listeners;
	int ready; /* a byte is written to it when clients are served; -1: nobody waits */
	struct config *config; /* owned by the front */
	struct grpc_tls *tls;  /* likewise; NULL: none */
	int argc;              /* the flags, for when the configuration is read again */
	char **argv;
	int metrics; /* a socket that listens, owned by the front; -1: none */
	int cache;   /* a directory of the front's own, owned by it; -1: none */
};

/* Gives up every privilege and serves until it is told to end or the broker goes. Returns 0 or
 * -errno. */
int front_run(const struct front_options *options);
