/* SPDX-License-Identifier: Apache-2.0 */
/* A socket at which the daemon accepts clients, shared by broker and front. */
#pragma once

#include <stdbool.h>

/* Connections that wait to be accepted. */
#define LISTENER_BACKLOG 1024

enum listener_kind {
	LISTENER_CLEAR, /* for every target; reachable only from this host */
	LISTENER_TLS,   /* likewise, under TLS */
	/* A loopback port, bound, for a single target: it listens while there is one. */
	LISTENER_TARGET,
};

struct listener {
	int fd;
	enum listener_kind kind;
	/* Clients present a certificate, which the front verifies: the kernel cannot identify a
	 * remote user. */
	bool is_certified;
};

/*
 * A TCP socket that is bound with SO_REUSEADDR begins to listen, and stops again; it stays bound.
 * Connections of an earlier daemon that are in TIME_WAIT do not matter. A port that was closed by
 * listener_close() belongs to the socket: no other process can bind or listen there. Returns 0, or
 * an error of listen(2) or shutdown(2).
 */
int listener_open(int fd);
int listener_close(int fd);
