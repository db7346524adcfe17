/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client over HTTP/2, unencrypted or under TLS, that blocks its caller, for a command line:
 * one connection, one call at a time.
 *
 * Two kinds of failure are distinguished: a negative return value means that the call had no
 * outcome (the connection failed, or the caller cancelled); 0 means that the call ended with
 * *ret_status, which may itself be a failure.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/grpc/framing.h"
#include "lib/grpc/status.h"
#include "lib/grpc/tls.h"

struct grpc_client;

/* The parameters of one call; NULL or a zero field means none. */
struct grpc_client_options {
	/* The call ends with DEADLINE_EXCEEDED after this many ns; the server gets the deadline,
	 * too. */
	uint64_t timeout_ns;
	/*
	 * The call is cancelled when *cancelled becomes non-zero: at once if a signal handler sets
	 * it, else within 0.1 s.
	 */
	const volatile sig_atomic_t *cancelled;
};

/*
 * Connects to an address (forms and errors: lib/grpc/address.h), and creates the client. tls: NULL
 * for unencrypted. -EPROTO if no TLS connection was established: *ret_reason is then the reason,
 * malloc'ed; else it is NULL. ret_reason may be NULL.
 */
int grpc_client_connect(const char *address, struct grpc_tls *tls, uint64_t timeout_ns,
			struct grpc_client **ret, char **ret_reason);
/* Takes ownership of a connected stream socket; on failure the caller still owns it. host: the
 * server's name, NULL: localhost. -ENOMEM, -EINVAL. */
int grpc_client_new(int fd, struct grpc_tls *tls, const char *host, struct grpc_client **ret);
struct grpc_client *grpc_client_free(struct grpc_client *client);
/* The reason, after a call that failed because of the connection. */
const char *grpc_client_reason(const struct grpc_client *client);

/*
 * Calls a unary method, "/package.Service/Method", with the size bytes of request. With GRPC_OK the
 * answer is *ret_message, malloc'ed, never NULL; with another status it is NULL.
 * *ret_status_message is malloc'ed, or NULL if the server sent none. -ECANCELED, -ECONNRESET if the
 * server hung up, -EPROTO if it does not speak HTTP/2, -EMSGSIZE for a request above
 * GRPC_MESSAGE_MAX, -ENOMEM, or an error of the socket. After an error other than -ECANCELED and
 * -EMSGSIZE the client is useless.
 */
int grpc_client_call(struct grpc_client *client, const char *path, const void *request, size_t size,
		     const struct grpc_client_options *options, uint8_t **ret_message,
		     size_t *ret_size, enum grpc_status *ret_status, char **ret_status_message);

/*
 * Calls a server-streaming method: message(bytes, size, data) gets each message. If it returns a
 * negative value, the call is cancelled and that value returned. Otherwise as grpc_client_call().
 */
int grpc_client_stream(struct grpc_client *client, const char *path, const void *request,
		       size_t size, const struct grpc_client_options *options,
		       grpc_message_fn message, void *data, enum grpc_status *ret_status,
		       char **ret_status_message);
