/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own handlers of requests, and what they were called with. */
#pragma once

#include <stdint.h>

struct correlator;
struct entry;

/* Zeros at first. */
struct handlers {
	uint64_t size;
};

void handlers_open(struct correlator *c, const struct entry *e);
void handlers_close(struct correlator *c, const struct entry *e);
