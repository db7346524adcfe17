/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of an HTTP/2 connection without its socket: bytes in, bytes out. The client's and the
 * server's sessions are made of it; it is in no hurry and knows no clock.
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "lib/grpc/output.h"

struct grpc_http2 {
	nghttp2_session *session;
	struct grpc_output output;
	bool paused; /* the output is full, and the session has more to say */
	bool silent; /* what the session has to say beyond the output is of no interest any more */
	bool failed; /* of no more use: without memory, or a peer that does not keep to HTTP/2 */
};

/* What every session does with its callbacks; their user_data is a struct grpc_http2. */
void grpc_http2_setup(nghttp2_session_callbacks *callbacks);
void grpc_http2_clear(struct grpc_http2 *http2);

/* Takes bytes that came. -EPROTO. */
int grpc_http2_receive(struct grpc_http2 *http2, const uint8_t *bytes, size_t size);
/* Has the session put what it has to say into the output, until that is full. -EPROTO, -ENOMEM. */
int grpc_http2_fill(struct grpc_http2 *http2);

/*
 * A data source that ends its read function with NGHTTP2_DATA_FLAG_NO_COPY has a struct grpc_queue
 * as its pointer, out of which the bytes are taken.
 */
