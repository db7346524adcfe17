/* SPDX-License-Identifier: Apache-2.0 */
/* A command's connection to the daemon: the one that runs, the one that was named, or a private
 * one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/connect/address.h"
#include "cli/outcome.h"
#include "lib/grpc/client.h"

struct session;

/*
 * Connects to the address, or without one to the default one, and when no daemon is there starts a
 * private one. Anything but OUTCOME_OK has been explained to the user.
 */
enum outcome session_open(const struct daemon_address *address, struct session **ret);
/* Receives what would be said to the user: one line, without the program's name. */
typedef void (*session_say_fn)(const char *text, void *data);
/* The same, but what is to be said until it has connected goes to a function. NULL: to the user. */
enum outcome session_open_saying(const struct daemon_address *address, session_say_fn say,
				 void *data, struct session **ret);
/* The same, but only with a daemon that runs already. */
enum outcome session_open_running(const struct daemon_address *address, struct session **ret);
/* Ends a private daemon, too. */
struct session *session_free(struct session *session);

/* Whether the daemon lives only as long as the session. */
bool session_is_private(const struct session *session);

/* As the calls of lib/grpc/client.h, cancelled by interrupt_flag(). */
enum outcome session_call(struct session *session, const char *path, const void *request,
			  size_t size, uint64_t timeout_ns, uint8_t **ret_message,
			  size_t *ret_size);
/* When message() returns a negative value, it has said why. */
enum outcome session_stream(struct session *session, const char *path, const void *request,
			    size_t size, uint64_t timeout_ns, grpc_message_fn message, void *data);
