/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role with capabilities and without network: identifies clients, opens files of processes,
 * loads and attaches probes. It serves one front over socket pairs and ends when the front does;
 * everything attached then disappears with it. After its own end another broker may serve the same
 * front.
 */
#pragma once

#include <stdbool.h>

#include "daemon/broker/authority.h"
#include "daemon/broker/listener.h"
#include "daemon/broker/message.h"
#include "daemon/broker/snapshots.h"
#include "daemon/sandbox/user.h"
#include "lib/base/share.h"

/* What the supervisor has read on SIGHUP. */
struct broker_rules {
	struct authority access;
	struct trigger_names triggers;
};

struct broker_options {
	int requests; /* SOCK_SEQPACKET, owned by the broker */
	int captures; /* likewise: its line for requests that take time */
	int events;   /* likewise; the front only sends struct audit_note on it */
	int prover;   /* likewise: the line to the prover */
	/* The table of the front's clients, as clients_memory_new(); borrowed. */
	int clients;
	/*
	 * Bound sockets, shared with the front. The broker accepts their connections, so that the
	 * identity of a client comes from the kernel alone. The front refers to them by index.
	 */
	const struct listener *listeners;
	unsigned n_listeners;
	/* Like requests: a byte, enum broker_state, for what the service manager is to be notified
	 * of; and from there struct broker_rules, before SIGHUP. */
	int notes;
	/* Use perf events even if the kernel has links of many sites. */
	bool perf_event_uprobes;
	/* Connections that users may hold. */
	struct share connections;
	uint64_t user_ring_bytes; /* of ring buffers, that one user's captures may hold */
	uint64_t keep_ns;         /* as captures_new() */
	/* Whom the broker becomes if it is root; the state directory belongs to this user. */
	struct sandbox_user user;
	/* Root configured the daemon to capture on its own. */
	bool captures_on_its_own;
	/* Who may do what, until the next rules arrive; the broker completes and owns it. */
	struct authority *authority;
	/* The file of the certificates' users, "": none; read again on SIGHUP. */
	const char *certificates;
	/* The state directory, where the broker writes the audit log, and the verifier's log of
	 * refused programs. */
	int state;
	/* pidfd of a broker that was killed and whose probes the kernel still detaches; -1: none;
	 * owned. */
	int predecessor;
	/* Their files; the directory is owned by whom the broker becomes. */
	struct snapshots_options snapshots;
	/* Report a process as soon as it maps its runtime. */
	bool reports_early;
	/* Files that the broker opens for the front on SIGHUP, by enum broker_reload; "": none.
	 * They belong to root. */
	const char *reload[BROKER_RELOAD_COUNT];
};

/*
 * Checks what this host must have before anything is served: BTF, the capabilities, BPF. Returns 0,
 * or -errno with the remedy in ret_text.
 */
int broker_check_host(char *ret_text, unsigned size);

/*
 * Drops all other privileges, then serves until the front ends. SIGTERM and SIGINT make the front
 * end. On SIGHUP it decides by the rules that were sent, and makes the front read its configuration
 * again. Returns 0 or -errno.
 */
int broker_run(const struct broker_options *given);
