/* SPDX-License-Identifier: Apache-2.0 */
/* A socket that the daemon is called at, shared by broker and front. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum listener_kind {
	LISTENER_CLEAR,  /* for every target; only this host reaches it */
	LISTENER_TLS,    /* likewise, under TLS */
	LISTENER_TARGET, /* a loopback port, bound, for a single target: it listens when there is
			    one */
};

struct listener {
	int fd;
	enum listener_kind kind;
	/* Clients show a certificate, which the front checks, and count as this user: the kernel
	 * knows nobody at the other end. */
	bool is_certified;
	uid_t uid;
};
