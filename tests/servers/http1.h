/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.0 and 1.1 requests out of a stream of bytes, and answers into one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/servers/buffer.h"

struct http1_request {
	char *head; /* what method and path lie in */
	char *method, *path;
	char *body; /* ends as a string; put together when it came in chunks */
	size_t body_size;
	size_t size; /* bytes of the stream that it takes */
	uint64_t id; /* of its header x-request-id; 0: none */
	bool close;  /* the connection ends with the answer */
	int status;  /* 0, or the status that describes its error: nothing can be read after it */
};

/*
 * Reads the request at the start of the bytes. Returns 1 if it is complete or known to be invalid,
 * 0 if more bytes are needed, -ENOMEM. After 1 the caller clears it.
 */
int http1_request_read(const uint8_t *bytes, size_t used, struct http1_request *ret);
void http1_request_clear(struct http1_request *q);

/* Appends an answer with a JSON body and so many bytes of white space after it. Returns 0 or
 * -ENOMEM. */
int http1_answer(struct buffer *b, int status, const char *body, size_t pad, bool close);
/* The words for a status. */
const char *http1_status_text(int status);
