/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Framing by words: first lines, lines of HTTP/1 heads, and heads of HTTP/2 frames that lie whole
 * in the window. Each function takes all of one or, where it is not whole or not as usual, nothing:
 * then the next byte goes through flow_byte(), which knows every form.
 */
#pragma once

#include "bpf/http/http1.bpf.h"
#include "bpf/http/http2.bpf.h"

/* A limit that the verifier must see: the compiler knows it already, and would optimize it away. */
#ifdef __bpf__
#define WITHIN_WINDOW(at) asm volatile("%0 &= %1" : "+r"(at) : "i"(WINDOW_BYTES - 1))
#else
#define WITHIN_WINDOW(at) ((at) &= WINDOW_BYTES - 1)
#endif

#define UNALIGNED __attribute__((no_sanitize("alignment")))

/* Eight characters as a word. */
#define WORD(a, b, c, d, e, f, g, h)                                                               \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 |   \
	 (__u64)(f) << 40 | (__u64)(g) << 48 | (__u64)(h) << 56)
#define SEVEN_BYTES 0x00ffffffffffffffULL
/* Letters become small ones; the names that are compared have no other bytes that it changes. */
#define SMALL 0x2020202020202020ULL
#define WORD_HTTP WORD('H', 'T', 'T', 'P', '/', '1', '.', 0)
#define WORD_CONTENT WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-')
#define WORD_LENGTH WORD('l', 'e', 'n', 'g', 't', 'h', ':', 0)
#define WORD_TRANSFER WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r')
#define METHOD_MAX 7

static __always_inline __u8 byte_at(const struct window *w, __u64 at)
{
	WITHIN_WINDOW(at);
	return w->bytes[at];
}

/* The window has eight bytes behind its end. */
static UNALIGNED __always_inline __u64 word_at(const struct window *w, __u64 at)
{
	WITHIN_WINDOW(at);
	return *(const __u64 *)(w->bytes + at);
}

static __always_inline __u64 bytes_that_are(__u64 word, __u8 byte)
{
	word ^= byte * 0x0101010101010101ULL;
	return (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL;
}

static __always_inline void pass_take(struct pass *p, struct flow *f, __u64 n)
{
	p->address += n;
	p->room -= n;
	p->left -= n;
	p->position += (__u32)n;
	if (f->protocol != MESSAGE_HTTP2)
		f->bytes += (__u32)n;
}

/* Advances p->found to one of these bytes, by less than eight. */
ENTRY find_in_word(struct pass *p, struct window *w, __u32 others)
{
	__u8 second = (__u8)others, third = (__u8)(others >> 8);

	if (!p || !w)
		return 0;
	for (__u32 i = 0; i < 8; i++) {
		__u8 b = byte_at(w, p->found);

		if (p->found >= p->until || b == '\n' || (others && (b == second || b == third)))
			break;
		p->found++;
	}
	return 0;
}

/*
 * Sets p->found to the place of the first line end, or of one of two other bytes; p->until: there
 * is none. Kept in memory: the verifier would go through every value of a number that it knows.
 */
ENTRY find_byte(struct pass *p, struct window *w, __u32 from, __u32 others)
{
	__u8 second = (__u8)others, third = (__u8)(others >> 8);

	if (!p || !w)
		return 0;
	p->found = from;
	for (__u32 i = 0; i < WINDOW_BYTES / 8; i++) {
		__u64 word;

		if (p->found + 8 > p->until)
			break;
		word = word_at(w, p->found);
		if (bytes_that_are(word, '\n'))
			break;
		if (others && (bytes_that_are(word, second) | bytes_that_are(word, third)))
			break;
		p->found += 8;
	}
	return find_in_word(p, w, others);
}

/* Method and path, and nothing behind them. */
static UNALIGNED __always_inline void keep_text(struct flow *f, const struct window *w, __u64 from)
{
	for (__u32 i = 0; i < RECORD_FIELD_SIZE / 8; i++) {
		__u64 word = word_at(w, from + i * 8);

		if (i * 8 >= f->kept)
			break;
		if (f->kept < i * 8 + 8)
			word &= (1ULL << (8 * (f->kept - i * 8))) - 1;
		*(__u64 *)(f->text + i * 8) = word;
	}
}

/* "POST /path?query HTTP/1.1": p->found is then where its line end is. False: it is another, or not
 * whole. */
ENTRY find_request(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	__u32 end, method = 0;
	bool query;

	if (!p || !f || !w)
		return 0;
	for (__u32 i = 0; i <= METHOD_MAX; i++) {
		__u8 b = byte_at(w, from + i);

		if (b == ' ') {
			method = i;
			break;
		}
		if (b < 'A' || b > 'Z')
			return 0;
	}
	if (method < 3)
		return 0;
	find_byte(p, w, from + method + 1, ' ' | '?' << 8);
	end = p->found;
	query = end < p->until && byte_at(w, end) == '?';
	if (query)
		find_byte(p, w, end, ' ' | ' ' << 8);
	/* " HTTP/1.1", and the line's end. */
	if (p->found + 11 > p->until || byte_at(w, p->found) != ' ' ||
	    (word_at(w, p->found + 1) & SEVEN_BYTES) != WORD_HTTP)
		return 0;
	p->found += 9;
	if (byte_at(w, p->found) == '\r')
		p->found++;
	if (byte_at(w, p->found) != '\n')
		return 0;
	f->query = query;
	f->kept = (__u16)(end - from);
	f->status = 0;
	return 1;
}

/* "HTTP/1.1 200 OK"; likewise. */
ENTRY find_answer(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	__u32 status = 0;
	__u8 after;

	if (!p || !f || !w || byte_at(w, from + 8) != ' ')
		return 0;
	for (__u32 i = 9; i < 12; i++) {
		__u8 b = byte_at(w, from + i);

		if (b < '0' || b > '9')
			return 0;
		status = status * 10 + (b - '0');
	}
	after = byte_at(w, from + 12);
	find_byte(p, w, from + 12, 0);
	if (p->found >= p->until || (after != ' ' && after != '\r' && after != '\n'))
		return 0;
	f->status = (__u16)status;
	f->kept = 0;
	return 1;
}

/* The first line of a message. */
ENTRY first_line(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	bool answer;

	if (!p || !f || !w || from + 16 > p->until)
		return 0;
	answer = (word_at(w, from) & SEVEN_BYTES) == WORD_HTTP;
	if (!(answer ? find_answer(p, f, w, from) : find_request(p, f, w, from)))
		return 0;
	message_begin(f, !answer);
	f->bytes = 0;
	f->began = p->began;
	if (!answer)
		keep_text(f, w, from);
	pass_take(p, f, p->found + 1 - from);
	first_line_taken(p, f);
	return 1;
}

/* "content-length: 123": with the bytes in the form in which head_line() reads them. */
UNALIGNED ENTRY length_line(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	__u32 size;

	if (!p || !f || !w)
		return 0;
	find_byte(p, w, from, 0);
	size = p->found - from;
	if (p->found >= p->until || size > LINE_BYTES || size < 16)
		return 0;
	for (__u32 i = 0; i < LINE_BYTES / 8; i++)
		*(__u64 *)(f->bytes_of_line + i * 8) =
			word_at(w, from + i * 8) | (i == 0   ? SMALL
						    : i == 1 ? SMALL & SEVEN_BYTES
							     : 0);
	pass_take(p, f, size + 1);
	if (byte_at(w, from + size - 1) == '\r')
		size--;
	f->line = (__u16)size;
	head_line(p, f);
	return 1;
}

/* A line of a head, or the rest of one, as far as it is in the window. */
ENTRY line_pass(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	bool ends;

	if (!p || !f || !w)
		return 0;
	if (!f->line) {
		__u64 word = word_at(w, from);

		if ((__u16)word == ('\r' | '\n' << 8) && from + 2 <= p->until) {
			pass_take(p, f, 2);
			head_end(p, f);
			return 1;
		}
		if (from + 16 > p->until || (__u8)word == '\r' || (__u8)word == '\n')
			return 0;
		word |= SMALL;
		if (word == WORD_CONTENT &&
		    ((word_at(w, from + 8) | SMALL) & SEVEN_BYTES) == WORD_LENGTH)
			return length_line(p, f, w, from);
		if (word == WORD_TRANSFER)
			return 0;
		f->line = 1;
		f->passing = 1;
	}
	if (!f->passing)
		return 0;
	find_byte(p, w, from, 0);
	/* The line's end, too, if nothing of the line was wanted. */
	ends = p->found < p->until && f->line < LINE_BYTES;
	if (!ends && p->found == from)
		return 0;
	pass_take(p, f, p->found - from + ends);
	if (ends)
		line_begin(f);
	return 1;
}

/* The head of a frame. */
ENTRY frame_pass(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	if (!p || !f || !w || from + FRAME_BYTES > p->until)
		return 0;
	for (__u32 i = 0; i < FRAME_BYTES; i++)
		f->raw[i] = byte_at(w, from + i);
	f->raw_began = p->began;
	pass_take(p, f, FRAME_BYTES);
	frame_begin(p, f);
	return 1;
}

/* Whether more than a byte was taken. */
static __always_inline bool words_pass(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	if (f->state == STATE_LINE)
		return !f->first_line && line_pass(p, f, w, from);
	if (f->n)
		return false;
	return f->state == STATE_FRAME    ? frame_pass(p, f, w, from)
	       : f->state == STATE_DETECT ? first_line(p, f, w, from)
					  : false;
}
