/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 1024

int buffer_reserve(struct buffer *b, size_t size)
{
	size_t room = b->room ? b->room : ROOM_MIN;

	if (b->failed)
		return -ENOMEM;
	if (size <= b->room - b->used)
		return 0;
	while (room - b->used < size) {
		if (room > SIZE_MAX / 2) {
			b->failed = true;
			return -ENOMEM;
		}
		room *= 2;
	}
	uint8_t *grown = realloc(b->bytes, room);

	if (!grown) {
		b->failed = true;
		return -ENOMEM;
	}
	b->bytes = grown;
	b->room = room;
	return 0;
}

int buffer_append(struct buffer *b, const void *bytes, size_t size)
{
	int r = buffer_reserve(b, size);

	if (r < 0)
		return r;
	if (size)
		memcpy(b->bytes + b->used, bytes, size);
	b->used += size;
	return 0;
}

void buffer_consume(struct buffer *b, size_t size)
{
	b->used -= size;
	if (b->used)
		memmove(b->bytes, b->bytes + size, b->used);
}

void buffer_clear(struct buffer *b)
{
	free(b->bytes);
	*b = (struct buffer){ 0 };
}
