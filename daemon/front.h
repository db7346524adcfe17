/* The role with the network and no capability: parses what clients and targets say, and asks the broker for the rest. */
#pragma once

#include <stdint.h>

#include "daemon/broker/limits.h"
#include "daemon/config.h"

/* The user that owns nothing but the cache. */
#define FRONT_USER 65534

struct front_options {
	int requests, events; /* to the broker; owned by the front */
	/* Those before first_target_listener listen, for every target; the others are bound, for single targets. */
	int listeners[BROKER_MAX_LISTENERS];
	unsigned n_listeners, first_target_listener;
	int ready; /* a byte is written to it when clients are served; -1: nobody waits */
	uint64_t max_duration_ns;
	const struct config *config; /* NULL: none */
	int cache; /* a directory of the front's own, owned by it; -1: none */
};

/* Gives up every privilege and serves until it is told to end or the broker goes. Returns 0 or -errno. */
int front_run(const struct front_options *options);
