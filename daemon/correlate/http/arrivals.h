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
void arrivals_on_accepted(struct correlator *c, const struct record_accepted *record);

struct arrival {
	uint64_t time;   /* 0: unknown */
	bool unaccepted; /* its connection was not accepted yet */
};

/*
 * When the byte at that sequence number came. *ret_since: what was lost before that
 * time changes nothing about it. *ret_until: the number behind the last byte that came with it.
 */
struct arrival arrivals_find(struct correlator *c, uint64_t socket, uint32_t position,
			     uint64_t *ret_since, uint32_t *ret_until);
/* When a target last accepted a connection at that socket, 0: unknown. */
uint64_t arrivals_accepted_ns(struct correlator *c, uint64_t socket);
/* Whether bytes were seen coming to any socket. */
bool arrivals_seen(const struct correlator *c);
void arrivals_done(struct arrivals *a);
