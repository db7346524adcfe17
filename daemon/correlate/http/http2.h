/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: messages that have a stream each. */
#pragma once

#include <stdint.h>

#include "include/record_types.h"

struct correlator;

/* Frames (RFC 9113, 6). */
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST_STREAM = 3 };

/* Streams of the first and of the last request that was read. */
struct http2_connection {
	uint32_t first_stream, last_stream;
};

void http2_on_message(struct correlator *c, uint32_t connection, const struct record_message *m);
