/* SPDX-License-Identifier: Apache-2.0 */
/* How .eh_frame encodes numbers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Encodings of pointers (DW_EH_PE_…): the form in the low four bits, the base in the next three. */
#define ENCODING_ABSOLUTE 0x00
#define ENCODING_UDATA4 0x03
#define ENCODING_SDATA4 0x0b
#define ENCODING_SDATA8 0x0c
#define ENCODING_UDATA8 0x04
#define ENCODING_PC_RELATIVE 0x10
#define ENCODING_DATA_RELATIVE 0x30
#define ENCODING_OMITTED 0xff

#define FORM(encoding) ((encoding)&0x0f)
#define RELATION(encoding) ((encoding)&0x70)

/* Bytes of a record that is decoded from its start. */
struct cursor {
	const uint8_t *at, *end;
};

static inline bool cursor_skip_leb128(struct cursor *cursor)
{
	while (cursor->at < cursor->end)
		if (!(*cursor->at++ & 0x80))
			return true;
	return false;
}

/* Of more than 64 bits the low ones. */
static inline bool cursor_uleb128(struct cursor *cursor, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		if (shift < 64)
			*ret |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static inline bool cursor_sleb128(struct cursor *cursor, int64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; cursor->at < cursor->end;) {
		uint8_t byte = *cursor->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && shift < 64)
			value |= UINT64_MAX << shift;
		*ret = (int64_t)value;
		return true;
	}
	return false;
}

/* The size of a pointer in one of the forms that compilers use; 0: another one. */
static inline size_t encoding_size(uint8_t encoding)
{
	switch (FORM(encoding)) {
	case ENCODING_UDATA4:
	case ENCODING_SDATA4:
		return 4;
	case ENCODING_ABSOLUTE:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		return 8;
	default:
		return 0;
	}
}

static inline uint64_t encoding_decode(uint8_t encoding, const uint8_t *data)
{
	uint64_t wide;
	uint32_t word;

	if (encoding_size(encoding) == 8) {
		memcpy(&wide, data, sizeof(wide));
		return wide;
	}
	memcpy(&word, data, sizeof(word));
	return FORM(encoding) == ENCODING_SDATA4 ? (uint64_t)(int64_t)(int32_t)word : word;
}
