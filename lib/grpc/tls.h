/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of one side of a TLS connection, and the authorities that it trusts. TLS 1.3 only,
 * with HTTP/2 negotiated by ALPN. Certificates and keys are PEM texts: the caller reads the files,
 * because it may have to do so before it drops its privileges.
 */
#pragma once

#include <openssl/types.h>
#include <stddef.h>

struct grpc_tls;

struct grpc_tls_options {
	/* Followed by the intermediate certificates; NULL: none (a client only). */
	const char *certificate;
	const char *key; /* of the certificate, not encrypted */
	/*
	 * The authorities of which one must have signed the peer's certificate. For a server:
	 * clients must present one; NULL: they need none. For a client NULL means the system's
	 * trusted authorities.
	 */
	const char *authorities;
	/* A server only: the lists of certificates that each authority has revoked; NULL: none. */
	const char *revoked;
};

/* -EINVAL if a text is invalid: ret_text is then a sentence about it. -ENOMEM. */
int grpc_tls_server_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size);
int grpc_tls_client_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size);
/* Connections that use it stay open. */
struct grpc_tls *grpc_tls_free(struct grpc_tls *tls);
/* Adds a reference: to be freed once more. In the thread of its connections only. */
struct grpc_tls *grpc_tls_ref(struct grpc_tls *tls);

/*
 * For transport.c: one connection over a connected socket, which the caller still owns. host: the
 * name or address in a server's certificate. -ENOMEM, -EINVAL if that is not a valid name.
 */
int grpc_tls_connect(const struct grpc_tls *tls, int fd, const char *host, SSL **ret);
