/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/framing.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "lib/base/macro.h"

#define FIRST_ALLOCATION 4096

static const struct {
	char letter;
	uint64_t ns;
} timeout_units[] = {
	{ 'n', 1 },          { 'u', 1000 },        { 'm', 1000000 },
	{ 'S', 1000000000 }, { 'M', 60000000000 }, { 'H', 3600000000000 },
};

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_SIZE], uint32_t size)
{
	prefix[0] = 0;
	prefix[1] = (uint8_t)(size >> 24);
	prefix[2] = (uint8_t)(size >> 16);
	prefix[3] = (uint8_t)(size >> 8);
	prefix[4] = (uint8_t)size;
}

static int reader_start(struct grpc_reader *reader)
{
	const uint8_t *p = reader->prefix;
	uint32_t size = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];

	if (p[0] > 1)
		return -EBADMSG;
	if (size > reader->max_size)
		return -EMSGSIZE;
	reader->compressed = p[0];
	reader->size = size;
	return 0;
}

static int reader_grow(struct grpc_reader *reader, size_t wanted)
{
	size_t size = MAX(wanted, MAX(reader->allocated * 2, (size_t)FIRST_ALLOCATION));
	uint8_t *bytes;

	if (wanted <= reader->allocated)
		return 0;
	size = MIN(size, reader->size);
	bytes = realloc(reader->bytes, size);
	if (!bytes)
		return -ENOMEM;
	reader->bytes = bytes;
	reader->allocated = size;
	return 0;
}

ssize_t grpc_reader_feed(struct grpc_reader *reader, const uint8_t *bytes, size_t size)
{
	size_t taken = 0;
	int r;

	while (reader->n_prefix < GRPC_PREFIX_SIZE) {
		if (taken == size)
			return (ssize_t)taken;
		reader->prefix[reader->n_prefix++] = bytes[taken++];
		if (reader->n_prefix == GRPC_PREFIX_SIZE) {
			r = reader_start(reader);
			if (r < 0)
				return r;
		}
	}
	size = MIN(size - taken, reader->size - reader->filled);
	if (size) {
		r = reader_grow(reader, reader->filled + size);
		if (r < 0)
			return r;
		memcpy(reader->bytes + reader->filled, bytes + taken, size);
		reader->filled += size;
	}
	return (ssize_t)(taken + size);
}

bool grpc_reader_complete(const struct grpc_reader *reader)
{
	return reader->n_prefix == GRPC_PREFIX_SIZE && reader->filled == reader->size;
}

bool grpc_reader_empty(const struct grpc_reader *reader)
{
	return reader->n_prefix == 0;
}

int grpc_reader_take(struct grpc_reader *reader, uint8_t **ret, size_t *ret_size)
{
	if (!reader->bytes) {
		reader->bytes = malloc(1);
		if (!reader->bytes)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(reader->bytes);
	*ret_size = reader->size;
	grpc_reader_clear(reader);
	return 0;
}

void grpc_reader_clear(struct grpc_reader *reader)
{
	free(reader->bytes);
	*reader = (struct grpc_reader){ .max_size = reader->max_size };
}

int grpc_timeout_parse(const char *text, size_t size, uint64_t *ret_ns)
{
	uint64_t value = 0;

	if (size < 2 || size > 9)
		return -EINVAL;
	for (size_t i = 0; i < size - 1; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	for (size_t i = 0; i < ARRAY_SIZE(timeout_units); i++)
		if (timeout_units[i].letter == text[size - 1]) {
			if (__builtin_mul_overflow(value, timeout_units[i].ns, ret_ns))
				*ret_ns = UINT64_MAX;
			return 0;
		}
	return -EINVAL;
}

void grpc_timeout_format(uint64_t ns, char text[static GRPC_TIMEOUT_SIZE])
{
	for (size_t i = 0; i < ARRAY_SIZE(timeout_units); i++) {
		uint64_t unit = timeout_units[i].ns, value = ns / unit + (ns % unit != 0);

		if (value <= 99999999) {
			snprintf(text, GRPC_TIMEOUT_SIZE, "%" PRIu32 "%c", (uint32_t)value,
				 timeout_units[i].letter);
			return;
		}
	}
}

char *grpc_percent_encode(const char *text)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t size = strlen(text);
	char *encoded = size < SIZE_MAX / 3 - 1 ? malloc(3 * size + 1) : NULL, *p = encoded;

	if (!encoded)
		return NULL;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c <= 0x7e && c != '%') {
			*p++ = (char)c;
		} else {
			*p++ = '%';
			*p++ = digits[c >> 4];
			*p++ = digits[c & 15];
		}
	}
	*p = 0;
	return encoded;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

char *grpc_percent_decode(const char *text, size_t size)
{
	char *decoded = malloc(size + 1), *p = decoded;

	if (!decoded)
		return NULL;
	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		if (c == '%' && size - i > 2 && hex_digit(text[i + 1]) >= 0 &&
		    hex_digit(text[i + 2]) >= 0) {
			c = (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
			i += 2;
		}
		*p++ = c ? c : '?';
	}
	*p = 0;
	return decoded;
}

bool grpc_content_type_valid(const char *text, size_t size)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return size >= n && !strncasecmp(text, type, n) &&
	       (size == n || text[n] == '+' || text[n] == ';');
}

int grpc_gunzip(const uint8_t *bytes, size_t size, size_t max, uint8_t **ret, size_t *ret_size)
{
	_cleanup_free_ uint8_t *out = NULL;
	size_t allocated = 0, filled = 0;
	z_stream z = { .next_in = (Bytef *)bytes, .avail_in = (uInt)size };
	int state = Z_OK, r = 0;

	if (size > UINT_MAX || max >= UINT_MAX / 2)
		return -EMSGSIZE;
	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return -ENOMEM;
	while (r == 0 && state == Z_OK) {
		if (filled == allocated) {
			/* One byte more than allowed, to detect that there is more. */
			size_t larger = MIN(MAX(allocated * 2, (size_t)FIRST_ALLOCATION), max + 1);
			uint8_t *p = filled > max ? NULL : realloc(out, larger);

			if (!p) {
				r = filled > max ? -EMSGSIZE : -ENOMEM;
				break;
			}
			out = p;
			allocated = larger;
		}
		z.next_out = out + filled;
		z.avail_out = (uInt)(allocated - filled);
		state = inflate(&z, Z_NO_FLUSH);
		filled = allocated - z.avail_out;
	}
	if (r == 0 && (state != Z_STREAM_END || z.avail_in))
		r = state == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	inflateEnd(&z);
	if (r == 0 && filled > max)
		r = -EMSGSIZE;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(out);
	*ret_size = filled;
	return 0;
}
