/* SPDX-License-Identifier: Apache-2.0 */
/* Streams. */
#pragma once

#include "daemon/correlate/correlator.h"

/* Frames (RFC 9113, 6). */
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST_STREAM = 3 };

void http2_on_message(struct correlator *c, uint32_t connection, const struct record_message *m);
