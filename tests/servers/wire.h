/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format: fields one after another, read from untrusted bytes and written to a
 * buffer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/servers/buffer.h"

/* What is left of a message. */
struct wire {
	const uint8_t *at, *end;
};

struct wire_field {
	uint32_t number;
	uint64_t value;    /* of a varint */
	struct wire bytes; /* of any other field */
};

/* The next field of a message; false at its end, or when it is malformed. */
bool wire_next(struct wire *w, struct wire_field *ret);
/* Whether the bytes are those of the string. */
bool wire_equal(struct wire bytes, const char *text);

/* Append a field; the buffer remembers when memory runs out. */
void wire_put_number(struct buffer *b, uint32_t number, uint64_t value);
void wire_put_bytes(struct buffer *b, uint32_t number, const void *bytes, size_t size);
