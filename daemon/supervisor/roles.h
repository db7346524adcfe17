/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the processes of the daemon: each is a copy of the supervisor that drops what it does not
 * need. */
#pragma once

#include <sys/types.h>

#include "daemon/broker/broker.h"
#include "daemon/front/front.h"
#include "daemon/front/listeners.h"

/* Exit status of a broker whose prover has ended before it. */
#define ROLES_LOST_PROVER 3

/* What they get; the supervisor owns it. */
struct roles_options {
	const struct listeners *listeners;
	int notify;    /* the service manager's socket, the supervisor's alone; -1: none */
	int lock;      /* of the state directory: held as long as a broker lives */
	int state;     /* the state directory; -1: it cannot be used */
	int snapshots; /* the directory of triggers' snapshots, the broker's alone; -1: none */
	/* The table of the front's clients, as clients_memory_new(). */
	int clients;
	struct sandbox_user user;   /* of the broker */
	struct front_options front; /* without its lines */
	int line;                   /* of roles_start_front(); -1: there is no front */
	/* pidfd of a broker that was killed and whose probes the kernel still detaches; -1: none.
	 */
	int leaving;
};

struct broker_role {
	pid_t broker;
	pid_t prover;             /* ends with it */
	struct front_lines lines; /* the front's ends */
	/* A message of one byte, enum broker_state, for each state that the broker reports; to the
	 * broker: struct broker_rules, before SIGHUP. */
	int notes;
};

/* What the broker decides by, of a configuration that was read again. */
void roles_rules(const struct config *config, struct broker_rules *ret);
/* -errno. */
int roles_start_broker(const struct roles_options *options, struct broker_role *ret);
/* ret_line: where the front waits for the lines of the next broker. Closes the broker's lines.
 * -errno. */
int roles_start_front(const struct roles_options *options, const struct broker_role *broker,
		      int *ret_line, pid_t *ret_front);
/* Hands the lines of another broker to the front, and closes them. -errno. */
int roles_hand_over(int line, const struct front_lines *lines);
