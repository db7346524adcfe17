/* SPDX-License-Identifier: Apache-2.0 */
/* Sending and receiving broker messages with descriptors; both roles use it. */
#pragma once

#include <stddef.h>

#include "daemon/broker/message.h"

/* Sends data and descriptors; 0, -EPIPE when the other side has gone, or an error of sendmsg. */
int channel_send(int socket, const void *data, size_t size, const int *fds, unsigned n_fds);
/*
 * Receives exactly size bytes. Descriptors beyond max_fds are closed; *ret_fds become the caller's.
 * Returns 0, -EPIPE when the other side has gone, -EBADMSG for a message of another size, or an
 * error of recvmsg.
 */
int channel_receive(int socket, void *data, size_t size, int *ret_fds, unsigned max_fds,
		    unsigned *ret_n_fds);
