/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call on a server, that is one stream of a session: what the session reports about it, and
 * what it sends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/grpc/body.h"
#include "lib/grpc/framing.h"
#include "lib/grpc/server.h"
#include "lib/grpc/session.h"

struct grpc_call {
	struct grpc_session *session; /* NULL if the stream is closed */
	struct grpc_call *next, **link;
	int32_t stream_id;
	uint64_t due_ns; /* when something is next due */

	/* The request. */
	const struct grpc_method *method;
	size_t header_bytes;
	bool is_post, is_grpc;
	bool encoding_known, encoding_gzip; /* encoding_known: absent, identity or gzip */
	bool headers_done, request_done;
	/* To echo; empty if it is too long for that. */
	char content_type[32];
	/* An error to answer once the request is complete, or 0. */
	int http_status;
	size_t http_sent;
	int timeout_error;
	uint64_t request_by;
	uint64_t deadline_ns;
	struct grpc_reader reader;
	size_t buffered; /* counted in the server's total */
	uint8_t *message;
	size_t message_size;
	bool has_message;

	/* The method's side. */
	bool held;       /* the method has the pointer, and has not answered */
	bool cancelling; /* its cancel function runs */
	void (*cancelled)(void *data);
	void *cancelled_data;

	/* The answer. */
	struct grpc_queue queue;
	uint64_t waiting; /* of its bytes, counted in the server's total */
	bool started;     /* its headers are submitted */
	bool deferred;    /* the session waits for more bytes */
	bool ended;       /* status and message are final, and follow the queue */
	enum grpc_status status;
	char *status_message; /* percent-encoded, or NULL */
	/* When bytes were last taken from the queue, or began to wait in it. */
	uint64_t progress_ns;
};

/* The stream's first frame arrived. -ENOMEM. */
int grpc_call_new(struct grpc_session *session, int32_t stream_id, struct grpc_call **ret);
/* Counts a field of the request's headers or trailers; false: there are far too many. */
bool grpc_call_count_header(struct grpc_call *call, size_t size);
void grpc_call_header(struct grpc_call *call, const char *name, size_t name_size, const char *value,
		      size_t value_size);
/* The request's headers are complete. */
void grpc_call_headers_done(struct grpc_call *call);
void grpc_call_data(struct grpc_call *call, const uint8_t *bytes, size_t size);
/* The client has sent its whole request. */
void grpc_call_request_done(struct grpc_call *call);
/* The stream is closed: frees the call, unless its method still holds it. */
void grpc_call_closed(struct grpc_call *call);
/* Does what is due. */
void grpc_call_tick(struct grpc_call *call);
