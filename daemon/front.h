/* The role with the network and no capability: parses what clients and targets say, and asks the broker for the rest. */
#pragma once

#include <stdint.h>

#define FRONT_LISTENERS_MAX 3

struct front_options {
	int requests, events; /* to the broker; owned by the front */
	int listeners[FRONT_LISTENERS_MAX];
	unsigned n_listeners;
	int ready; /* a byte is written to it when clients are served; -1: nobody waits */
	uint64_t max_duration_ns;
	uint16_t first_port, last_port; /* for single targets; 0: none */
};

/* Gives up every privilege and serves until it is told to end or the broker goes. Returns 0 or -errno. */
int front_run(const struct front_options *options);
