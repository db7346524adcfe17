/* SPDX-License-Identifier: Apache-2.0 */
/* What requests and answers contain in their first lines and header fields: methods, paths,
 * statuses. */
#pragma once

#include <stdint.h>

#include "include/record_types.h"

struct correlator;
struct connection;
struct request;

/* A connection's header tables, and the fields of the message that begins. */
struct connection_fields {
	struct fields *directions; /* HTTP/2: one for each direction; NULL: none yet */
	uint32_t line;    /* HTTP/1: the first line of the request that begins; TEXT_NONE */
	uint64_t line_ns; /* when that came */
};

#define CONNECTION_FIELDS_NONE ((struct connection_fields){ .line = UINT32_MAX })

/* Keeps a field until its message comes. */
void fields_on_field(struct correlator *c, uint32_t connection, const struct record_field *r);
/* HTTP/1: the request has the line that was kept, if any was. */
void fields_use_request_line(struct correlator *c, struct connection *conn, struct request *q);
/* HTTP/2: the request, or its answer, has these fields. */
void fields_set_headers(struct correlator *c, uint32_t request, const struct record_headers *h);
/* What the table of a direction holds is unknown from now on. */
void fields_forget(struct connection *conn, uint8_t direction);
void fields_done(struct connection *conn);
