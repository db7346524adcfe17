/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that gRPC clients know, of a server of this machine or another. */
#pragma once

#include <stdint.h>

/*
 * Connects a stream socket to "unix:PATH", "unix:///PATH" or "/PATH", "unix-abstract:NAME" or
 * "@NAME", "host:port" or "[v6]:port" within timeout_ns (0: the system's own limit; looking a
 * host's name up is not limited). -EINVAL for another form of address, -ENAMETOOLONG, -EHOSTUNREACH
 * when the host's name is not known, -ETIMEDOUT, or an error of socket or connect. *ret_host: the
 * host, malloc'ed, NULL for a Unix socket; ret_host may be NULL.
 */
int grpc_address_connect(const char *address, uint64_t timeout_ns, int *ret_fd, char **ret_host);
