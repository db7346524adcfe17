/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's end of one connection without its socket: one call after the other. Bytes in, bytes
 * out; it has no clock, because the caller who waits for the call aborts it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/grpc/body.h"
#include "lib/grpc/framing.h"
#include "lib/grpc/http2.h"
#include "lib/grpc/status.h"

/* One call; the memory is reused for the next one. */
struct grpc_request {
	bool active;
	struct grpc_queue queue; /* what is left to be sent */
	struct grpc_reader reader;
	grpc_message_fn message;
	void *data;

	int32_t stream_id;
	bool closed;
	bool refused; /* the connection accepts no more calls */
	uint32_t error_code;
	int http_status;
	bool has_status;
	enum grpc_status status;
	char *status_message;
	int error; /* why this side cancelled the call, or 0 */
};

struct grpc_requests {
	struct grpc_http2 http2;
	struct grpc_request current;
	char *authority;
	bool is_secure;
};

/* authority: the host in the form of HTTP; copied. -ENOMEM. */
int grpc_requests_init(struct grpc_requests *requests, const char *authority, bool is_secure);
void grpc_requests_clear(struct grpc_requests *requests);

/* Begins a call of path with a copy of the size bytes of message; none may be active. -EMSGSIZE,
 * -ENOMEM. */
int grpc_request_start(struct grpc_requests *requests, const char *path, const void *message,
		       size_t size, uint64_t timeout_ns, grpc_message_fn answer, void *data);
/* Whether the call has ended, for whatever reason. */
bool grpc_request_closed(const struct grpc_requests *requests);
/* Aborts the call: grpc_request_finish() then returns error, or, if that is 0, reports the
 * status. */
void grpc_request_abort(struct grpc_requests *requests, int error, enum grpc_status status,
			const char *message);
/* After the call: sets its status and the message, malloc'ed or NULL, or returns the error with
 * which it was aborted. */
int grpc_request_finish(struct grpc_requests *requests, enum grpc_status *ret_status,
			char **ret_message);
