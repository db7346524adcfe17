/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of clients and the owners of processes, as the kernel reports them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "daemon/broker/authority.h"

/* Queries the sockets of the network namespace in which it was opened. */
struct diag {
	int fd; /* NETLINK_SOCK_DIAG */
	uint32_t sequence;
};

/* -errno of socket(2). */
int diag_open(struct diag *ret);

/* The socket at the other end of a loopback TCP connection. */
struct remote_end {
	struct sockaddr_storage here, there;
	uint8_t cookie[8]; /* the kernel's number of the socket, which it never reuses */
	uid_t uid;
};

/*
 * Finds the client of a TCP connection: the socket whose addresses are exactly those of the
 * connection, in state ESTABLISHED, and open in some process, looked up twice. -EACCES: there is
 * none on this host; else -errno.
 */
int identity_of_tcp(int fd, struct diag *diag, struct remote_end *ret);
/* Whether that socket is still connected to this one and open in some process, perhaps only for
 * reading. */
bool identity_is_connected(int fd, struct diag *diag, const struct remote_end *end);

/*
 * The client of a connection of a Unix socket: the process that connected, with its capabilities
 * and namespaces, completed by the rules that name it. CALLER_TCP if the process is not visible
 * from here. -EACCES: the process has ended; else -errno.
 */
int identity_of_unix(int fd, const struct authority *authority, struct caller *ret);

/* Finds the rules that name the client of a connection: by its user, and by the groups that its
 * process had when it connected. */
void identity_name(int fd, const struct authority *authority, struct caller *caller);

/*
 * The user who may profile a process besides root: its effective user, or root if it is not
 * dumpable. -ESRCH: there is no such process.
 */
int identity_of_process(pid_t pid, uid_t *ret);
