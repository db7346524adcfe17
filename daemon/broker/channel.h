/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives broker messages with descriptors; used by both roles. */
#pragma once

#include <stddef.h>

#include "daemon/broker/message.h"

/* Sends data and descriptors. Returns 0, -EPIPE if the other side has closed, or an error of
 * sendmsg. */
int channel_send(int socket, const void *data, size_t size, const int *fds, unsigned n_fds);
/* The same, for the answer to a question: it never waits. -EPIPE, too, if the other side does not
 * read its answers. */
int channel_answer(int socket, const void *data, size_t size, const int *fds, unsigned n_fds);
/*
 * Receives exactly size bytes. Descriptors beyond max_fds are closed; *ret_fds are owned by the
 * caller. Returns 0, -EPIPE if the other side has closed, -EBADMSG for a message of another size,
 * or an error of recvmsg.
 */
int channel_receive(int socket, void *data, size_t size, int *ret_fds, unsigned max_fds,
		    unsigned *ret_n_fds);
