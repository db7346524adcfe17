/* SPDX-License-Identifier: Apache-2.0 */
/* The front's side of the broker: one request at a time, from any thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/message.h"

struct proxy;

/* Takes the socket. -ENOMEM. */
int proxy_new(int socket, struct proxy **ret);
struct proxy *proxy_free(struct proxy *proxy);

/*
 * Sends the request and waits for its answer, which replaces it. Returns the answer's result: 0 or
 * a negative errno, with the reason in message->text when the broker gave one; -EPIPE when the
 * broker has gone. Descriptors of the answer become the caller's; where it does not want any,
 * ret_fds is NULL.
 */
int proxy_call(struct proxy *proxy, struct broker_message *message, int *ret_fds,
	       unsigned *ret_n_fds);

/* proxy_call() for requests that are no more than an id. */
int proxy_call_id(struct proxy *proxy, enum broker_request type, uint32_t id);
