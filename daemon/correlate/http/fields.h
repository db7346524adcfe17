/* SPDX-License-Identifier: Apache-2.0 */
/* Methods, paths and statuses, of lines and of HPACK's tables. */
#pragma once

#include "daemon/correlate/correlator.h"

/* fields.c */
void fields_on_field(struct correlator *c, const struct record_field *r);
void fields_set_request_line(struct correlator *c, struct request *q, uint32_t line);
void fields_set_headers(struct correlator *c, uint32_t request, const struct record_headers *h);
/* What the table of a direction holds is not known any more. */
void fields_forget(struct connection *conn, uint8_t direction);
