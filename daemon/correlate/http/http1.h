/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: messages in sequence. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"

struct correlator;
struct connection;

/* Messages have numbers, ordinals, in each direction of a connection. */
struct http1_connection {
	uint32_t first, last;         /* requests that are not answered, the oldest first */
	uint32_t reading;             /* the request that is being read */
	uint32_t first_ordinal;       /* of the first request that was read */
	uint32_t read_ordinal;        /* of the last request; 0: none since the window opened */
	uint32_t written_ordinal;     /* the same of answers */
	uint64_t read_ns, written_ns; /* when those were */
	uint32_t offset;              /* from a request's ordinal to its answer's */
	uint32_t ahead;   /* answers for which no request was read, since the last one that
			     was */
	bool counts_lost; /* the offset is unknown */
};

#define HTTP1_CONNECTION_NEW                                                                       \
	((struct http1_connection){                                                                \
		.first = UINT32_MAX, .last = UINT32_MAX, .reading = UINT32_MAX })

void http1_on_message(struct correlator *c, uint32_t connection, const struct record_message *m);
/* Records of messages were lost. */
void http1_lose_count(struct connection *conn);
/* The request is over: no further message of the connection is of it. */
void http1_forget(struct correlator *c, uint32_t connection, uint32_t request);
