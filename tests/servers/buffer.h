/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow at their end and are taken from their start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty one. */
struct buffer {
	uint8_t *bytes;
	size_t used, room;
	bool failed; /* memory ran out: what was appended since is not there */
};

/* Makes room for size more bytes after those that are used. Returns 0 or -ENOMEM, which failed
 * remembers. */
int buffer_reserve(struct buffer *b, size_t size);
/* Returns 0 or -ENOMEM, also after an earlier failure. */
int buffer_append(struct buffer *b, const void *bytes, size_t size);
/* Takes size bytes, of those that are used, from the start. */
void buffer_consume(struct buffer *b, size_t size);
/* Frees the bytes; an empty buffer is left. */
void buffer_clear(struct buffer *b);
