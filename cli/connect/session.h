/* SPDX-License-Identifier: Apache-2.0 */
/* A command's connection to a daemon: the running one, the one at a given address, or a private
 * one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/connect/address.h"
#include "cli/outcome.h"
#include "lib/grpc/client.h"

struct session;

/*
 * Connects to the address, by default the usual one; if no daemon listens there, starts a private
 * one. Anything but OUTCOME_OK was explained to the user.
 */
enum outcome session_open(const struct daemon_address *address, struct session **ret);
/* Receives a message for the user: one line, without the program's name. */
typedef void (*session_report_fn)(const char *text, void *data);
/* The same, but messages go to a function until the session is open. NULL: to the user. */
enum outcome session_open_reporting(const struct daemon_address *address, session_report_fn report,
				    void *data, struct session **ret);
/* The same, but without starting a daemon. */
enum outcome session_open_running(const struct daemon_address *address, struct session **ret);
/* Also ends a private daemon. */
struct session *session_free(struct session *session);

/* Whether the daemon lives only as long as the session. */
bool session_is_private(const struct session *session);

/* Like the calls of lib/grpc/client.h; interrupt_flag() cancels them. */
enum outcome session_call(struct session *session, const char *path, const void *request,
			  size_t size, uint64_t timeout_ns, uint8_t **ret_message,
			  size_t *ret_size);
/* One call of a running daemon, in a session of its own; the request has no field. */
enum outcome session_ask_running(const struct daemon_address *address, const char *path,
				 uint64_t timeout_ns, uint8_t **ret_message, size_t *ret_size);
/* If message() returns a negative value, it has explained why. */
enum outcome session_stream(struct session *session, const char *path, const void *request,
			    size_t size, uint64_t timeout_ns, grpc_message_fn message, void *data);
