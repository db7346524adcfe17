/* SPDX-License-Identifier: Apache-2.0 */
/* A connected stream socket, unencrypted or under TLS, that connections read from and write to.
 * Never blocks, never raises SIGPIPE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lib/grpc/tls.h"

struct grpc_transport;

/*
 * Takes ownership of the descriptor on success. tls NULL: unencrypted. host: the name or address in
 * the server's certificate; NULL on the server's side. -ENOMEM, -EINVAL if the host is not a valid
 * name.
 */
int grpc_transport_new(int fd, struct grpc_tls *tls, const char *host, struct grpc_transport **ret);
/* Closes the descriptor. */
struct grpc_transport *grpc_transport_free(struct grpc_transport *transport);

/*
 * Continues the handshake: 0 when it is done (at once if unencrypted), -EAGAIN, or -EPROTO if it
 * failed; grpc_transport_error() is the reason.
 */
int grpc_transport_handshake(struct grpc_transport *transport);
/* Reads up to size bytes. Returns their number, 0 at the end, -EAGAIN, -EPROTO (TLS), or an error
 * of recv. */
ssize_t grpc_transport_read(struct grpc_transport *transport, uint8_t *bytes, size_t size);
/* Writes as much as the socket accepts. Returns the number of bytes, -EAGAIN for none, -EPROTO
 * (TLS), or an error of sendmsg. */
ssize_t grpc_transport_write(struct grpc_transport *transport, struct iovec *iov, size_t n_iov);
/* Ends the output: nothing more will be written. */
void grpc_transport_end(struct grpc_transport *transport);

int grpc_transport_fd(const struct grpc_transport *transport);
/* Whether the last -EAGAIN of the handshake or of reading waits for the socket to be writable
 * instead of readable. */
bool grpc_transport_wants_write(const struct grpc_transport *transport);
/* The subject of the peer's verified certificate (RFC 2253, at most 255 bytes); NULL: it presented
 * none. */
const char *grpc_transport_subject(const struct grpc_transport *transport);
/*
 * The names in the peer's verified certificate: its subject (RFC 2253), then its alternative names
 * as "DNS:NAME", "URI:NAME", "email:NAME"; NULL: there are no more. Names of 256 bytes or more, or
 * with other than printable ASCII, are left out.
 */
#define GRPC_TRANSPORT_NAMES_MAX 17
const char *grpc_transport_name(const struct grpc_transport *transport, unsigned i);
/* The reason for the last -EPROTO; never NULL. */
const char *grpc_transport_error(const struct grpc_transport *transport);
