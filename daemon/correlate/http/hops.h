/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that targets make to other targets: a request of one that leads to a request of another. */
#pragma once

#include <stdint.h>

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

/* Zeros at first. */
struct hops {
	struct call *list;
	uint64_t size;
	uint32_t n;
	struct map open; /* by connection and stream: the oldest one that is not answered */
	uint64_t n_left_out;
};

/* A part of a message: of a connection at which the target is the client, as far as that is known.
 */
void hops_on_message(struct correlator *c, uint32_t connection, const struct record_message *m);
/* Bytes of the connection passed unseen. */
void hops_lose(struct correlator *c, uint32_t connection);
/* The window has closed: finds the requests at the other ends. */
void hops_close(struct correlator *c);
void hops_done(struct hops *h);
