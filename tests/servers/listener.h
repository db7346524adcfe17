/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket on 127.0.0.1, or on the address that LISTEN_ADDRESS in the environment is, and
 * the connections that it accepts. */
#pragma once

#include <stdint.h>

/* Opens it, non-blocking, on the port, or on a free one when it is 0. Returns a descriptor or a
 * negative errno. */
int listener_open(uint16_t port, uint16_t *ret_port);
/* Accepts one, non-blocking and without Nagle's delay. Returns a descriptor or a negative errno
 * (-EAGAIN: no more). */
int listener_accept(int listener, uint16_t *ret_peer_port);
