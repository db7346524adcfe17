/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HTTP/2 (RFC 9113): frames, and the few wanted header fields of their blocks (HPACK, RFC 7541). */
#pragma once

#include "bpf/http/flow.bpf.h"

/* Names of fields by their index in HPACK's static table (RFC 7541, appendix A). */
#define STATIC_METHOD 2
#define STATIC_PATH 4
#define STATIC_STATUS 8
#define STATIC_STATUS_LAST 14
#define STATIC_LAST 61
#define NAME_GRPC_STATUS 0xff

/* HPACK's Huffman code (RFC 7541, appendix B) of '?', and the longest code of a character in a
 * path. */
#define CODE_QUERY 0x3fc
#define CODE_QUERY_BITS 10
#define CODE_BITS_MAX 15

/* Whether nine bytes can be the head of a frame (RFC 9113, 4.1 and 6). */
static __always_inline bool is_frame(const __u8 *raw)
{
	__u32 length = (__u32)raw[0] << 16 | (__u32)raw[1] << 8 | raw[2], stream;

	stream = (__u32)raw[5] << 24 | (__u32)raw[6] << 16 | (__u32)raw[7] << 8 | raw[8];
	if (stream >> 31)
		return false;
	switch (raw[3]) {
	case 0: /* DATA */
		return (stream & 1) && !(raw[4] & ~0x09);
	case 1: /* HEADERS */
		return (stream & 1) && !(raw[4] & ~0x2d) && length;
	case 2: /* PRIORITY */
		return stream && length == 5;
	case 3: /* RST_STREAM */
		return stream && length == 4;
	case 4: /* SETTINGS */
		return !stream && length % 6 == 0 && length <= 600 && !(raw[4] & ~0x01);
	case 6: /* PING */
		return !stream && length == 8 && !(raw[4] & ~0x01);
	case 7: /* GOAWAY */
		return !stream && length >= 8 && length <= 16384;
	case 8: /* WINDOW_UPDATE */
		return length == 4;
	case 9: /* CONTINUATION */
		return (stream & 1) && !(raw[4] & ~0x04);
	default:
		return false;
	}
}

static __always_inline void block_begin(struct flow *f)
{
	f->field = FIELD_BEGIN;
	f->seen_status = f->seen_method = f->seen_path = f->n_references = 0;
}

/* The frame has passed. */
static __always_inline void frame_end(struct pass *p, struct flow *f)
{
	/* END_STREAM is on HEADERS and takes effect when their block has ended. */
	if (f->ends_stream && (f->type == 0 || f->frame_flags & 4 /* END_HEADERS */)) {
		send_message(p, f, MESSAGE_LAST);
		f->ends_stream = 0;
	}
	f->n = 0;
	f->state = STATE_FRAME;
}

/* The block of header fields ends with its frame, or continues in the next one. */
ENTRY block_end(struct pass *p, struct flow *f)
{
	__u16 part = MESSAGE_FIRST;

	if (!p || !f)
		return 0;
	if (f->frame_flags & 4 /* END_HEADERS */) {
		if (f->fields_lost) {
			part |= MESSAGE_NO_FIELDS;
			f->n_references = 0;
		}
		f->type = 1;
		send_headers(p, f, part);
	}
	f->state = STATE_FRAME;
	f->skip = f->padding;
	f->padding = 0;
	if (!f->skip)
		frame_end(p, f);
	return 0;
}

ENTRY frame_begin(struct pass *p, struct flow *f)
{
	__u32 length;

	if (!p || !f)
		return 0;
	length = (__u32)f->raw[0] << 16 | (__u32)f->raw[1] << 8 | f->raw[2];
	if (!is_frame(f->raw)) {
		/* Frames of unknown kinds are skipped if the connection is known to be HTTP/2. */
		if (f->protocol != MESSAGE_HTTP2 || f->raw[3] <= 9) {
			flow_lost(p, f);
			return 0;
		}
	}
	f->protocol = MESSAGE_HTTP2;
	f->state = STATE_FRAME;
	f->n = 0;
	f->type = f->raw[3];
	f->frame_flags = f->raw[4];
	f->stream = ((__u32)f->raw[5] << 24 | (__u32)f->raw[6] << 16 | (__u32)f->raw[7] << 8 |
		     f->raw[8]) &
		    0x7fffffff;
	f->padding = 0;
	f->skip = length;
	/* A block that continues belongs to its beginning. */
	if (f->type == 9) {
		f->bytes += length;
	} else {
		f->bytes = length;
		f->began = f->raw_began;
		f->ends_stream = f->type <= 1 && (f->frame_flags & 1);
	}
	if (f->type == 1 || f->type == 9) {
		if (f->type == 1)
			block_begin(f);
		f->state = STATE_BLOCK;
		f->skip = 0;
		f->block = length;
		if (f->type == 1 && (f->frame_flags & 8)) {
			f->state = STATE_PADDING;
			return 0;
		}
		if (f->type == 1 && (f->frame_flags & 0x20)) {
			if (length < 5) {
				flow_lost(p, f);
				return 0;
			}
			f->skip = 5;
			f->block = length - 5;
		}
		if (!f->block && !f->skip)
			block_end(p, f);
		return 0;
	}
	if (f->type == 0 || f->type == 3) {
		/* Its last byte may come with a later call. */
		if (f->ends_stream && length <= p->left) {
			f->ends_stream = 0;
			send_message(p, f, MESSAGE_FIRST | MESSAGE_LAST);
		} else {
			send_message(p, f, MESSAGE_FIRST);
		}
	}
	if (!f->skip)
		frame_end(p, f);
	return 0;
}

static __always_inline void padding_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 before = 1 + (f->frame_flags & 0x20 ? 5 : 0);

	if (f->block < before + b) {
		flow_lost(p, f);
		return;
	}
	f->padding = b;
	f->block -= before + b;
	f->state = STATE_BLOCK;
	f->skip = before - 1;
	if (!f->block && !f->skip)
		block_end(p, f);
}

/* The meaning of a name; -1: not wanted. */
static __always_inline int field_wanted(const struct flow *f)
{
	if (f->name == STATIC_PATH || f->name == STATIC_PATH + 1)
		return FIELD_PATH;
	if (f->name == STATIC_METHOD || f->name == STATIC_METHOD + 1)
		return FIELD_METHOD;
	if (f->name >= STATIC_STATUS && f->name <= STATIC_STATUS_LAST)
		return FIELD_STATUS;
	return f->name == NAME_GRPC_STATUS ? FIELD_GRPC_STATUS : -1;
}

static __always_inline void field_end(struct pass *p, struct flow *f)
{
	int wanted = field_wanted(f);

	f->number = f->inserted;
	if (f->kind == KIND_INSERTED) {
		if (f->name == NAME_GRPC_STATUS) {
			f->has_grpc_status = 1;
			f->grpc_status = f->number;
		}
		f->inserted++;
	}
	/* The requests that a target makes to others are not recorded. */
	if (wanted >= 0 && (p->server || p->direction == MESSAGE_READ))
		send_field(p, f, (__u32)wanted);
	f->field = FIELD_BEGIN;
}

/* Skips a text that is not wanted, as far as it is in this frame. */
static __always_inline void text_skip(struct flow *f)
{
	__u32 n = f->left < f->block ? f->left : f->block;

	f->skip = n;
	f->left -= n;
	f->block -= n;
}

static __always_inline void value_begin(struct pass *p, struct flow *f)
{
	f->kept = 0;
	f->query = 0;
	f->code = 0;
	f->code_bits = 0;
	f->left = f->value;
	f->field = FIELD_VALUE_BYTES;
	if (!f->left)
		field_end(p, f);
}

static __always_inline void name_begin(struct flow *f)
{
	f->left = f->value;
	f->name_bytes = 0;
	f->name = 0;
	f->field = f->left ? FIELD_NAME_BYTES : FIELD_VALUE_LENGTH;
}

/* Either not a field of the known tables, or one of them, by its index. */
static __always_inline void index_end(struct flow *f)
{
	__u32 index = f->value;

	f->field = FIELD_BEGIN;
	if (f->kind == KIND_RESIZE)
		return;
	if (f->kind != KIND_INDEXED) {
		f->name = index <= STATIC_LAST ? (__u8)index : 0;
		if (index > STATIC_LAST && f->has_grpc_status &&
		    f->inserted - 1 - (index - STATIC_LAST - 1) == f->grpc_status)
			f->name = NAME_GRPC_STATUS;
		f->field = index ? FIELD_VALUE_LENGTH : FIELD_NAME_LENGTH;
		return;
	}
	if (index > STATIC_LAST) {
		__u32 n = f->n_references;

		if (n < RECORD_REFERENCES) {
			f->references[n] = (__u16)(f->inserted - 1 - (index - STATIC_LAST - 1));
			f->n_references++;
		}
	} else if (index >= STATIC_STATUS && index <= STATIC_STATUS_LAST) {
		f->seen_status = (__u8)index;
	} else if (index == STATIC_PATH || index == STATIC_PATH + 1) {
		f->seen_path = (__u8)index;
	} else if (index == STATIC_METHOD || index == STATIC_METHOD + 1) {
		f->seen_method = (__u8)index;
	}
}

/* One more byte of a number that did not fit into its first one; true: the last. */
static __always_inline bool number_byte(struct pass *p, struct flow *f, __u8 b)
{
	if (f->shift > 21) {
		flow_lost(p, f);
		return false;
	}
	f->value += (__u32)(b & 0x7f) << f->shift;
	f->shift += 7;
	return !(b & 0x80);
}

static __always_inline bool number_begin(struct flow *f, __u8 b, __u8 most)
{
	f->value = b & most;
	f->shift = 0;
	return f->value < most;
}

/* Whether the field's name, as it is or in HPACK's Huffman code, is this one. */
#define NAME_IS(f, plain, coded)                                                                   \
	((f)->huffman ? (f)->name_bytes == sizeof(coded) - 1 && IS((f)->bytes_of_line, coded)      \
		      : (f)->name_bytes == sizeof(plain) - 1 && IS((f)->bytes_of_line, plain))

/* gRPC's C core does not use the static table for the name of a path. */
static __always_inline void name_end(struct flow *f)
{
	if (NAME_IS(f, "grpc-status", "\x9a\xca\xc8\xb2\x12\x34\xda\x8f"))
		f->name = NAME_GRPC_STATUS;
	else
		f->name = NAME_IS(f, ":path", "\xb9\x58\xd3\x3f") ? STATIC_PATH : 0;
	f->field = FIELD_VALUE_LENGTH;
}

/* Whether this many bits are a complete code; shorter codes are smaller. */
static __always_inline bool code_ends(__u32 code, __u8 bits)
{
	switch (bits) {
	case 5:
		return code <= 0x9;
	case 6:
		return code <= 0x2d;
	case 7:
		return code <= 0x7b;
	case 8:
		return code <= 0xfd;
	case 10:
		return code <= 0x3fc;
	case 11:
		return code <= 0x7fc;
	case 12:
		return code <= 0xffb;
	case 13:
		return code <= 0x1ffd;
	case 14:
		return code <= 0x3ffd;
	case 15:
		return code <= 0x7ffe;
	default:
		return false;
	}
}

/* Bit i of a byte of a Huffman-coded path; true: the rest is not wanted. */
ENTRY query_bit(struct flow *f, __u32 byte, __u32 i)
{
	if (!f)
		return 1;
	f->code = f->code << 1 | (byte >> ((7 - i) & 7) & 1);
	f->code_bits++;
	if (f->code_bits == CODE_QUERY_BITS && f->code == CODE_QUERY) {
		f->query = 1;
		f->kept = (f->kept * 8u + i + 1 - CODE_QUERY_BITS + 7) / 8;
		return 1;
	}
	if (code_ends(f->code, f->code_bits)) {
		f->code = 0;
		f->code_bits = 0;
	} else if (f->code_bits > CODE_BITS_MAX) {
		f->query = 1;
		f->kept = 0xffff;
		return 1;
	}
	return 0;
}

/* Ends the path before a Huffman-coded '?', whose first bits, all ones, are also the padding of a
 * text. */
ENTRY find_query(struct flow *f, __u32 byte)
{
	for (__u32 i = 0; i < 8; i++)
		if (query_bit(f, byte, i))
			break;
	return 0;
}

/* The wanted part of a value: of a path, the part before its query. */
static __always_inline void value_byte(struct flow *f, __u8 b)
{
	int wanted = field_wanted(f);
	__u32 at;

	if (wanted == FIELD_PATH && !f->query) {
		if (f->huffman)
			find_query(f, b);
		else
			f->query = b == '?';
	}
	if (f->query)
		return;
	at = f->kept;
	if (at < RECORD_FIELD_SIZE && wanted >= 0)
		f->text[at] = (char)b;
	if (f->kept < 0xffff)
		f->kept++;
}

static __always_inline bool text_is_unwanted(const struct flow *f)
{
	if (!f->left || !f->block)
		return false;
	if (f->field == FIELD_VALUE_BYTES)
		return !f->kept && field_wanted(f) < 0;
	/* The lengths of grpc-status, in Huffman code and without, and of :path. */
	return f->field == FIELD_NAME_BYTES && !f->name_bytes && f->left != 8 && f->left != 11 &&
	       f->left != 4 && f->left != 5;
}

ENTRY field_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	switch (f->field) {
	case FIELD_BEGIN:
		f->kind = b & 0x80   ? KIND_INDEXED
			  : b & 0x40 ? KIND_INSERTED
			  : b & 0x20 ? KIND_RESIZE
				     : KIND_LITERAL;
		if (number_begin(f, b,
				 f->kind == KIND_INDEXED    ? 0x7f
				 : f->kind == KIND_INSERTED ? 0x3f
				 : f->kind == KIND_RESIZE   ? 0x1f
							    : 0x0f))
			index_end(f);
		else
			f->field = FIELD_INDEX;
		break;
	case FIELD_INDEX:
		if (number_byte(p, f, b))
			index_end(f);
		break;
	case FIELD_NAME_LENGTH:
	case FIELD_VALUE_LENGTH:
		f->huffman = b >> 7;
		if (!number_begin(f, b, 0x7f))
			f->field++;
		else if (f->field == FIELD_NAME_LENGTH)
			name_begin(f);
		else
			value_begin(p, f);
		break;
	case FIELD_NAME_LENGTH_ON:
		if (number_byte(p, f, b))
			name_begin(f);
		break;
	case FIELD_VALUE_LENGTH_ON:
		if (number_byte(p, f, b))
			value_begin(p, f);
		break;
	case FIELD_NAME_BYTES:
		at = f->name_bytes;
		if (at < LINE_BYTES)
			f->bytes_of_line[at] = (char)b;
		if (f->name_bytes < 0xffff)
			f->name_bytes++;
		if (!--f->left)
			name_end(f);
		break;
	case FIELD_VALUE_BYTES:
		value_byte(f, b);
		if (!--f->left)
			field_end(p, f);
		break;
	}
	if (p->dead)
		return 0;
	f->block--;
	if (text_is_unwanted(f))
		text_skip(f);
	if (!f->block && !f->skip)
		block_end(p, f);
	return 0;
}
