/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a side of a TLS connection knows of itself and whom it trusts. TLS 1.3 only, with HTTP/2
 * agreed on by ALPN. Certificates and keys are PEM texts: reading files is the caller's, who may
 * have to do that before it gives its rights up.
 */
#pragma once

#include <openssl/types.h>
#include <stddef.h>

struct grpc_tls;

struct grpc_tls_options {
	const char *certificate; /* with those between it and the root behind it; NULL: none (a
				    client only) */
	const char *key;         /* of the certificate, not encrypted */
	/*
	 * Who the peer's certificate has to be signed by. For a server: clients have to show one;
	 * NULL: they need none. For a client NULL stands for those that the system trusts.
	 */
	const char *authorities;
};

/* -EINVAL when a text is not what it should be: ret_text is a sentence on that. -ENOMEM. */
int grpc_tls_server_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size);
int grpc_tls_client_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size);
/* Connections that were made with it go on. */
struct grpc_tls *grpc_tls_free(struct grpc_tls *tls);
/* Holds on to it, too: to be freed as often. In the thread of its connections only. */
struct grpc_tls *grpc_tls_ref(struct grpc_tls *tls);

/*
 * For transport.c: one connection over a connected socket, which stays the caller's. host: whom a
 * server's certificate has to be for. -ENOMEM, -EINVAL when that is no name.
 */
int grpc_tls_connect(const struct grpc_tls *tls, int fd, const char *host, SSL **ret);
