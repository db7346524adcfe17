/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that the daemon is called at: made while it may, before it becomes broker and front,
 * or handed to it by who started it (systemd's socket activation).
 */
#pragma once

#include <stdbool.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/listener.h"
#include "daemon/config/config.h"

struct listeners {
	struct listener list[BROKER_MAX_LISTENERS];
	unsigned n;
	int metrics;      /* where /metrics is asked for, -1: nowhere; served by the front alone */
	bool owns_socket; /* the Unix socket's file is to be removed in the end */
};

/*
 * Takes the sockets that were handed over, and makes what is configured besides. A failure is
 * logged, and nothing is left: -EINVAL for a socket that cannot be used, or an error of socket,
 * bind or listen.
 */
int listeners_new(const struct config *config, struct listeners *ret);
/* Whether who started the daemon hands sockets over to this very process. */
bool listeners_are_handed(void);
/* Removes what a daemon leaves behind. */
void listeners_remove(const struct config *config, const struct listeners *listeners);
