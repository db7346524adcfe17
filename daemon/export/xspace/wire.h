/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format, as far as it is written: numbers and text behind their tags. The caller
 * provides the room. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WIRE_VARINT_MAX 10
#define WIRE_NUMBER_MAX (1 + WIRE_VARINT_MAX) /* a tag and a varint */

/* Tags of fields below 16: the number and the wire type, a varint or a length and bytes. */
#define WIRE_VARINT(field) ((field) << 3)
#define WIRE_BYTES(field) ((field) << 3 | 2)

static inline size_t wire_varint_size(uint64_t value)
{
	size_t n = 1;

	while (value >>= 7)
		n++;
	return n;
}

/* Each of these writes at p and returns the end. */
static inline uint8_t *wire_put_varint(uint8_t *p, uint64_t value)
{
	while (value >= 0x80) {
		*p++ = (uint8_t)value | 0x80;
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

static inline uint8_t *wire_put_number(uint8_t *p, uint8_t tag, uint64_t value)
{
	*p++ = tag;
	return wire_put_varint(p, value);
}

/* A tag, a length, and that many bytes. */
static inline size_t wire_bytes_size(size_t length)
{
	return 1 + wire_varint_size(length) + length;
}

/* Writes wire_bytes_size(length) bytes. Each byte that is not valid UTF-8, which readers would
 * reject, becomes '?'. */
uint8_t *wire_put_text(uint8_t *p, uint8_t tag, const char *text, size_t length);
