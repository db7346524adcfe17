/* SPDX-License-Identifier: Apache-2.0 */
/* When bytes came to sockets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

/* Zeros at first. */
struct arrivals {
	struct socket_arrivals *sockets;
	uint64_t size;
	uint32_t n;
	struct map of_socket;
	uint64_t n_seen; /* times that bytes were seen coming */
};

void arrivals_on_ready(struct correlator *c, const struct record_ready *record);
/*
 * When the byte at that sequence number came, 0: unknown. *ret_since: what was lost before that
 * time changes nothing about it. *ret_until: the number behind the last byte that came with it.
 */
uint64_t arrivals_find(struct correlator *c, uint64_t socket, uint32_t position,
		       uint64_t *ret_since, uint32_t *ret_until);
/* Whether bytes were seen coming to any socket. */
bool arrivals_seen(const struct correlator *c);
void arrivals_done(struct arrivals *a);
