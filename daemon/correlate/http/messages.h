/* SPDX-License-Identifier: Apache-2.0 */
/* Requests out of the parts of messages that pass through sockets. */
#pragma once

#include "daemon/correlate/correlator.h"

/* Of the kinds that tell of sockets, and of a target that there is. */
void messages_on_record(struct correlator *c, const struct record *record);
/* Nothing more is seen at sockets from that time on: what goes on is cut. */
void messages_end(struct correlator *c, uint64_t time);
/* The window has closed: hands the requests over to the timeline. */
void messages_close(struct correlator *c);
