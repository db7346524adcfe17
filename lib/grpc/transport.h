/* SPDX-License-Identifier: Apache-2.0 */
/* A connected stream socket, in clear or under TLS: what connections read from and write to. Never
 * blocks, never raises SIGPIPE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lib/grpc/tls.h"

struct grpc_transport;

/*
 * Takes the descriptor on success. tls NULL: in clear. host: the name or address that a server's
 * certificate has to be for; NULL on the server's side. -ENOMEM, -EINVAL when the host is no name.
 */
int grpc_transport_new(int fd, struct grpc_tls *tls, const char *host, struct grpc_transport **ret);
/* Closes the descriptor. */
struct grpc_transport *grpc_transport_free(struct grpc_transport *transport);

/*
 * Goes on with what has to be said before the first byte: 0 when it is done (at once in clear),
 * -EAGAIN, or -EPROTO when there is no connection to be had; grpc_transport_error() says why.
 */
int grpc_transport_handshake(struct grpc_transport *transport);
/* Reads up to size bytes: how many, 0 at the end, -EAGAIN, -EPROTO (TLS), or an error of recv. */
ssize_t grpc_transport_read(struct grpc_transport *transport, uint8_t *bytes, size_t size);
/* Writes what is taken: how many bytes, -EAGAIN for none, -EPROTO (TLS), or an error of sendmsg. */
ssize_t grpc_transport_write(struct grpc_transport *transport, struct iovec *iov, size_t n_iov);
/* Says that nothing more will be written. */
void grpc_transport_end(struct grpc_transport *transport);

int grpc_transport_fd(const struct grpc_transport *transport);
/* Whether the last -EAGAIN of the handshake or of reading waits for the socket to take bytes, not
 * to have some. */
bool grpc_transport_wants_write(const struct grpc_transport *transport);
/* The subject of the peer's certificate, which was checked (RFC 2253, at most 255 bytes); NULL: it
 * showed none. */
const char *grpc_transport_subject(const struct grpc_transport *transport);
/* Why the last -EPROTO; never NULL. */
const char *grpc_transport_error(const struct grpc_transport *transport);
