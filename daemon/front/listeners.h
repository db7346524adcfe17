/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's sockets: created with its initial privileges, before it becomes broker and front, or
 * handed over by the process that started it (systemd's socket activation).
 */
#pragma once

#include <stdbool.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/listener.h"
#include "daemon/config/config.h"

struct listeners {
	struct listener list[BROKER_MAX_LISTENERS];
	unsigned n;
	/* For /metrics, -1: none; served by the front alone. */
	int metrics;
	/* The Unix socket's file is to be removed at the end. */
	bool owns_socket;
};

/*
 * Takes the sockets that were handed over, and creates the other ones that are configured. A
 * failure is logged, and no socket is left: -EINVAL for a socket that cannot be used, or an error
 * of socket, bind or listen.
 */
int listeners_new(const struct config *config, struct listeners *ret);
/* Whether sockets are handed over to this very process. */
bool listeners_are_handed(void);
/* Removes the files that a daemon leaves behind. */
void listeners_remove(const struct config *config, const struct listeners *listeners);
