/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role with capabilities and no network: finds out who asks, opens files of processes, loads
 * and attaches. It serves one front over a socket pair and ends when the front does; whatever is
 * attached then goes with it.
 */
#pragma once

#include <stdbool.h>

#include "daemon/broker/listener.h"
#include "daemon/broker/message.h"

struct broker_options {
	int requests; /* SOCK_SEQPACKET, owned by the broker */
	int events;   /* likewise; written only */
	/*
	 * Sockets that are bound, shared with the front. Connections are accepted here, so that who
	 * is at their other end is known from the kernel alone. The front names them by their
	 * index.
	 */
	const struct listener *listeners;
	unsigned n_listeners;
	bool perf_event_uprobes; /* do not use links of many sites, as if the kernel had none */
	bool captures_itself;    /* root wants the daemon to */
	int state; /* the state directory, where the broker writes what the kernel said of programs
		      that it refuses */
	bool hurries; /* processes are to be looked at as soon as they map their runtime */
	/* Files that the front gets opened on SIGHUP, by enum broker_reload; "": none. They are
	 * root's own. */
	const char *reload[BROKER_RELOAD_COUNT];
};

/*
 * What this host must have, checked before anything is served: BTF, the capabilities, BPF. Returns
 * 0, or -errno with the sentence that says what to do in ret_text.
 */
int broker_check_host(char *ret_text, unsigned size);

/*
 * Serves until the front goes; gives up all other privileges first. SIGTERM and SIGINT ask the
 * front to end, SIGHUP to read its configuration again. Returns 0 or -errno.
 */
int broker_run(const struct broker_options *options);
