/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HTTP/1 (RFC 9112): heads, chunks and trailers, byte by byte. */
#pragma once

#include "bpf/http/flow.bpf.h"

#define FOR_EVER (1ULL << 62)

ENTRY head_end(struct pass *p, struct flow *f)
{
	if (!p || !f)
		return 0;
	if (!f->is_request && f->status >= 100 && f->status < 200) {
		/* An interim answer: the final one follows; after 101 the protocol is another
		 * one. */
		if (f->status == 101) {
			flow_lost(p, f);
			return 0;
		}
		f->ordinal--;
		flow_restart(f);
		return 0;
	}
	if (!f->is_request && (f->status == 204 || f->status == 304 || p->answers_head)) {
		message_end(p, f);
	} else if (f->chunked) {
		f->state = STATE_CHUNK;
		f->length = 0;
		line_begin(f);
	} else if (f->has_length && f->length) {
		f->state = STATE_BODY;
		f->skip = f->length;
	} else if (f->has_length || f->is_request) {
		message_end(p, f);
	} else {
		f->state = STATE_UNTIL_CLOSE;
		f->skip = FOR_EVER;
	}
	return 0;
}

static __always_inline void head_line(struct pass *p, struct flow *f)
{
	if (!f->line) {
		head_end(p, f);
		return;
	}
	if (IS(f->bytes_of_line, "content-length:")) {
		f->length = 0;
		for (int i = 15; i < LINE_BYTES; i++) {
			char c = f->bytes_of_line[i];

			if (i >= f->line)
				break;
			/* Parsers that read this differently would see other messages. */
			if ((c < '0' || c > '9') && c != ' ' && c != '\t') {
				flow_lost(p, f);
				return;
			}
			if (c >= '0' && c <= '9')
				f->length = f->length * 10 + (__u64)(c - '0');
		}
		f->has_length = 1;
	} else if (IS(f->bytes_of_line, "transfer-encoding:")) {
		f->chunked = 1;
	}
	line_begin(f);
}

/* A message was recognized by its first bytes. */
static __always_inline void message_begin(struct flow *f, bool request)
{
	f->protocol = MESSAGE_HTTP1;
	f->state = STATE_LINE;
	f->first_line = 1;
	f->line = 0;
	f->is_request = request;
	f->chunked = f->has_length = 0;
	f->length = 0;
	f->stream = 0;
	f->pending = MESSAGE_FIRST;
}

static __always_inline void first_line_taken(struct pass *p, struct flow *f)
{
	f->first_line = 0;
	f->ordinal++;
	f->number = 0;
	f->kind = KIND_LITERAL;
	f->huffman = 0;
	if (f->is_request) {
		f->is_head = f->text[0] == 'H' && f->text[1] == 'E';
		if (p->direction == MESSAGE_READ)
			send_field(p, f, FIELD_REQUEST_LINE);
	}
	line_begin(f);
}

static __always_inline void first_line_end(struct pass *p, struct flow *f)
{
	/* Many protocols have lines that begin like a request. */
	if (f->is_request && (f->spaces < 2 || f->line != 8 || !IS(f->bytes_of_line, "HTTP/1."))) {
		flow_restart(f);
		flow_unknown(p, f);
		return;
	}
	first_line_taken(p, f);
}

/* A byte of the first line: "POST /path?query HTTP/1.1", or "HTTP/1.1 200 OK". */
static __always_inline void first_line_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 at;

	if (b == '\n') {
		first_line_end(p, f);
		return;
	}
	if (b == ' ') {
		if (f->spaces < 255)
			f->spaces++;
		line_begin(f);
	} else if (b == '?' && f->spaces == 1) {
		f->query = 1;
	}
	if (!f->is_request) {
		if (f->spaces == 1 && b >= '0' && b <= '9')
			f->status = f->status * 10 + (b - '0');
		return;
	}
	if (b == ' ' ? f->spaces > 1 : b == '\r')
		return;
	at = f->line;
	if (b != ' ') {
		if (at < LINE_BYTES)
			f->bytes_of_line[at] = (char)b;
		if (f->line < 0xffff)
			f->line++;
	}
	/* Only method and path are kept. */
	at = f->kept;
	if (f->query || f->spaces > 1)
		return;
	if (at < RECORD_FIELD_SIZE)
		f->text[at] = (char)b;
	if (f->kept < 0xffff)
		f->kept++;
}

ENTRY head_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	if (f->first_line) {
		first_line_byte(p, f, b);
		return 0;
	}
	if (b == '\n') {
		head_line(p, f);
		return 0;
	}
	if (b == '\r')
		return 0;
	at = f->line;
	b = b >= 'A' && b <= 'Z' ? b + 32 : b;
	if (at < LINE_BYTES)
		f->bytes_of_line[at] = (char)b;
	if (f->line < 0xffff)
		f->line++;
	/* Most lines are of no interest. */
	if (f->line == 1)
		f->passing = b != 'c' && b != 't';
	else if (f->line == 8)
		f->passing = !IS(f->bytes_of_line, "content-") && !IS(f->bytes_of_line, "transfer");
	else if (f->line >= LINE_BYTES)
		f->passing = 1;
	return 0;
}

static __always_inline void chunk_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 digit;

	if (b == '\n') {
		if (!f->length) {
			f->state = STATE_TRAILER;
			line_begin(f);
			return;
		}
		/* And the line end after it. */
		f->skip = f->length + 2;
		f->length = 0;
		line_begin(f);
		return;
	}
	/* What follows a semicolon, or space, is not part of the size. */
	if (b == ';' || b == ' ' || b == '\t')
		f->line = 1;
	if (f->line || b == '\r')
		return;
	digit = b >= '0' && b <= '9'   ? b - '0'
		: b >= 'a' && b <= 'f' ? b - 'a' + 10u
		: b >= 'A' && b <= 'F' ? b - 'A' + 10u
				       : 16u;
	if (digit > 15 || f->length >> 56) {
		flow_lost(p, f);
		return;
	}
	f->length = f->length << 4 | digit;
}

static __always_inline void trailer_byte(struct pass *p, struct flow *f, __u8 b)
{
	if (b == '\n' && !f->line)
		message_end(p, f);
	else if (b == '\n')
		line_begin(f);
	else if (b != '\r')
		f->line = 1;
}
