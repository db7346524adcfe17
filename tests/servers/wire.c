/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/servers/wire.h"

#include <string.h>

enum { TYPE_VARINT, TYPE_FIXED64, TYPE_BYTES, TYPE_FIXED32 = 5 };

static bool varint_read(struct wire *w, uint64_t *ret)
{
	uint64_t value = 0;

	for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
		uint8_t byte = *w->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

bool wire_next(struct wire *w, struct wire_field *ret)
{
	uint64_t key, size;

	*ret = (struct wire_field){ 0 };
	if (!varint_read(w, &key))
		return false;
	ret->number = (uint32_t)(key >> 3);
	switch (key & 7) {
	case TYPE_VARINT:
		return varint_read(w, &ret->value);
	case TYPE_FIXED64:
		size = 8;
		break;
	case TYPE_BYTES:
		if (!varint_read(w, &size))
			return false;
		break;
	case TYPE_FIXED32:
		size = 4;
		break;
	default:
		return false;
	}
	if (size > (uint64_t)(w->end - w->at))
		return false;
	ret->bytes = (struct wire){ w->at, w->at + size };
	w->at += size;
	return true;
}

bool wire_equal(struct wire bytes, const char *text)
{
	size_t size = strlen(text);

	return (size_t)(bytes.end - bytes.at) == size && !memcmp(bytes.at, text, size);
}

static void varint_put(struct buffer *b, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
		value >>= 7;
	} while (value);
	buffer_append(b, bytes, n);
}

void wire_put_number(struct buffer *b, uint32_t number, uint64_t value)
{
	varint_put(b, (uint64_t)number << 3 | TYPE_VARINT);
	varint_put(b, value);
}

void wire_put_bytes(struct buffer *b, uint32_t number, const void *bytes, size_t size)
{
	varint_put(b, (uint64_t)number << 3 | TYPE_BYTES);
	varint_put(b, size);
	buffer_append(b, bytes, size);
}
