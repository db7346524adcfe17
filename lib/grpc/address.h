/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of address that gRPC clients accept, for a server on this machine or another. */
#pragma once

#include <stdint.h>

/*
 * Connects a stream socket to "unix:PATH", "unix:///PATH" or "/PATH", "unix-abstract:NAME" or
 * "@NAME", "host:port" or "[v6]:port" within timeout_ns (0: the system's own limit; the lookup of a
 * host's name is not limited). -EINVAL for another form of address, -ENAMETOOLONG, -EHOSTUNREACH if
 * the host's name is unknown, -ETIMEDOUT, or an error of socket or connect. *ret_host: the host,
 * malloc'ed, NULL for a Unix socket; ret_host may be NULL.
 */
int grpc_address_connect(const char *address, uint64_t timeout_ns, int *ret_fd, char **ret_host);
