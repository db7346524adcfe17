/* SPDX-License-Identifier: Apache-2.0 */
/* The front's end of the lines to the broker: on each one request at a time, from any thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/message.h"

struct proxy;

/* Takes ownership of the sockets. -ENOMEM. */
int proxy_new(const int sockets[BROKER_LINES], struct proxy **ret);
/* From now on requests go to another broker: sockets as above. Those in flight fail. */
void proxy_renew(struct proxy *proxy, const int sockets[BROKER_LINES]);
/* How many brokers there were before this one; any thread. What an earlier one began has ended with
 * it. */
unsigned proxy_generation(const struct proxy *proxy);
struct proxy *proxy_free(struct proxy *proxy);

/*
 * Sends the request and waits for its answer, which replaces it. Returns the answer's result: 0 or
 * a negative errno, with the reason in message->text if the broker gave one; -EPIPE if the broker
 * has ended. The caller owns the answer's descriptors; ret_fds is NULL if it expects none.
 */
int proxy_call(struct proxy *proxy, struct broker_message *message, int *ret_fds,
	       unsigned *ret_n_fds);

/* The same, and passes a descriptor, which is borrowed, with the request; -1: none. */
int proxy_call_with(struct proxy *proxy, struct broker_message *message, int fd, int *ret_fds,
		    unsigned *ret_n_fds);
/* BROKER_RETURN: the connection of a client that an earlier broker accepted; borrowed. */
int proxy_return(struct proxy *proxy, uint32_t client, int connection);
/* proxy_call() for requests that consist of an id only. */
int proxy_call_id(struct proxy *proxy, enum broker_request type, uint32_t id);
