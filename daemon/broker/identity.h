/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of clients and the owners of processes, as the kernel reports them. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * The user at the other end of a connection: a Unix socket's peer credentials, or, for loopback
 * TCP, the owner of the peer's socket, queried through diag, a NETLINK_SOCK_DIAG socket. -EACCES:
 * no user of this host owns the other end; else -errno.
 */
int identity_of_connection(int fd, int diag, uid_t *ret);

/*
 * The user who may profile a process besides root: the owner of its /proc directory, which is its
 * effective uid, or root if it is not dumpable. -ESRCH: there is no such process.
 */
int identity_of_process(pid_t pid, uid_t *ret);
