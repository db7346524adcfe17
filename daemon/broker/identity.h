/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asking and whom they may watch, by the kernel's word. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * The user at the other end of a connection: a Unix socket's peer credentials, or, for loopback
 * TCP, the owner of the peer's socket by way of diag, a NETLINK_SOCK_DIAG socket. -EACCES: a
 * connection that nobody on this host owns; else -errno.
 */
int identity_of_connection(int fd, int diag, uid_t *ret);

/*
 * The user who may watch a process besides root: the owner that the kernel gives its /proc
 * directory, which is its effective uid, or root when it is not dumpable. -ESRCH when there is no
 * such process.
 */
int identity_of_process(pid_t pid, uid_t *ret);
