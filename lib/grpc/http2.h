/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of an HTTP/2 connection without its socket: bytes in, bytes out. The client's and the
 * server's sessions are built on it; it has no clock.
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "lib/grpc/output.h"

struct grpc_http2 {
	nghttp2_session *session;
	struct grpc_output output;
	bool paused; /* the output is full, and the session has more to send */
	/* Further output of the session is dropped. */
	bool silent;
	/* Useless: out of memory, or the peer violates HTTP/2. */
	bool failed;
};

/* The common part of every session's callbacks; their user_data is a struct grpc_http2. */
void grpc_http2_setup(nghttp2_session_callbacks *callbacks);
void grpc_http2_clear(struct grpc_http2 *http2);

/* Processes bytes that arrived. -EPROTO. */
int grpc_http2_receive(struct grpc_http2 *http2, const uint8_t *bytes, size_t size);
/* Makes the session write into the output, until that is full. -EPROTO, -ENOMEM. */
int grpc_http2_fill(struct grpc_http2 *http2);

/*
 * A data source that ends its read function with NGHTTP2_DATA_FLAG_NO_COPY has a struct grpc_queue
 * as its pointer, from which the bytes are taken.
 */
