/* SPDX-License-Identifier: Apache-2.0 */
/* When bytes came to sockets. */
#pragma once

#include "daemon/correlate/correlator.h"

/* connections.c */
void arrivals_on_ready(struct correlator *c, const struct record_ready *record);
/*
 * When the byte at that sequence number came, 0: not known. *ret_since: what was lost before that
 * time changes nothing about it. *ret_until: the number behind the last byte that came with it.
 */
uint64_t arrivals_find(struct correlator *c, uint64_t socket, uint32_t position,
		       uint64_t *ret_since, uint32_t *ret_until);
