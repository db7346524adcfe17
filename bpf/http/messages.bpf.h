/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Detects the protocol of a call's bytes, and goes through the call's pieces. */
#pragma once

#include "bpf/http/words.bpf.h"

/* No connection begins with a larger frame of header fields: peers have to negotiate that first. */
#define FIRST_BLOCK_MAX 16384
/* Pieces of one call that are skipped. */
#define PIECES_MAX 1024
/* Bytes of framing that are examined one by one in one call. */
#define STEPS_MAX 16384

static __always_inline bool is_method(const __u8 *raw)
{
	for (int i = 0; i < FRAME_BYTES; i++) {
		if (raw[i] == ' ')
			return i >= 3;
		if (raw[i] < 'A' || raw[i] > 'Z')
			return false;
	}
	return false;
}

/* In the middle of a connection nine bytes alone prove nothing: the frame must end with the call,
 * or be followed by another one. */
static __always_inline bool frame_is_followed(struct pass *p, const struct flow *f)
{
	__u32 length = (__u32)f->raw[0] << 16 | (__u32)f->raw[1] << 8 | f->raw[2];
	__u8 next[FRAME_BYTES + 3] = {};

	if (f->raw[3] == 1 && length > FIRST_BLOCK_MAX)
		return false;
	if (length == p->left)
		return true;
	if (length + FRAME_BYTES > p->room || !p->address)
		return false;
	return !bpf_probe_read_user(next, FRAME_BYTES, (void *)(p->address + length)) &&
	       is_frame(next);
}

/* The first nine bytes of a message are available. */
ENTRY detect(struct pass *p, struct flow *f)
{
	bool request;

	if (!p || !f)
		return 0;
	request = is_method(f->raw);
	f->n = 0;
	if (IS(f->raw, "PRI * HTT")) {
		f->protocol = MESSAGE_HTTP2;
		f->state = STATE_FRAME;
		f->skip = 24 - FRAME_BYTES;
		f->fields_lost = 0;
		f->inserted = 0;
		f->stream = 0;
		send_message(p, f, MESSAGE_PREFACE);
		return 0;
	}
	if (request || IS(f->raw, "HTTP/1.")) {
		f->spaces = f->query = 0;
		f->status = f->kept = 0;
		message_begin(f, request);
		f->began = f->raw_began;
		for (int i = 0; i < FRAME_BYTES; i++)
			head_byte(p, f, f->raw[i]);
		return 0;
	}
	if (f->raw[0] >= 0x14 && f->raw[0] <= 0x17 && f->raw[1] == 3 && f->raw[2] <= 4) {
		if (p->server && !f->told)
			send_unseen(p->now, p->tid, p->target, p->sock, p->inode, UNSEEN_TLS);
		f->told = 1;
		p->dead = 1;
		return 0;
	}
	if (is_frame(f->raw) && f->raw[3] != 9 && frame_is_followed(p, f)) {
		/* Earlier entries of the tables are unknown. */
		frame_begin(p, f);
		return 0;
	}
	flow_unknown(p, f);
	return 0;
}

ENTRY flow_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	switch (f->state) {
	case STATE_DETECT:
		/* Empty lines may precede a request. */
		if (!f->n && (b == '\r' || b == '\n'))
			break;
		/* fall through */
	case STATE_FRAME:
		if (!f->n) {
			f->raw_began = p->began;
			if (f->state == STATE_DETECT)
				f->bytes = 1;
		}
		at = f->n;
		if (at < FRAME_BYTES)
			f->raw[at] = b;
		if (++f->n < FRAME_BYTES)
			break;
		if (f->state == STATE_DETECT)
			detect(p, f);
		else
			frame_begin(p, f);
		break;
	case STATE_LINE:
		head_byte(p, f, b);
		break;
	case STATE_CHUNK:
		chunk_byte(p, f, b);
		break;
	case STATE_TRAILER:
		trailer_byte(p, f, b);
		break;
	case STATE_PADDING:
		padding_byte(p, f, b);
		break;
	case STATE_BLOCK:
		field_byte(p, f, b);
		break;
	}
	return 0;
}

/* Everything that was to be skipped has passed. */
ENTRY flow_skipped(struct pass *p, struct flow *f)
{
	if (!p || !f)
		return 0;
	switch (f->state) {
	case STATE_BODY:
		message_end(p, f);
		break;
	case STATE_FRAME:
		frame_end(p, f);
		break;
	case STATE_BLOCK:
		/* A text was skipped, or what precedes the block. */
		if (!f->left && f->field == FIELD_NAME_BYTES)
			name_end(f);
		else if (!f->left && f->field == FIELD_VALUE_BYTES)
			field_end(p, f);
		if (!f->block)
			block_end(p, f);
		break;
	}
	return 0;
}

/* What a step works on. */
struct steps {
	struct flow *flow;
	struct window *window;
	struct pass pass;
};

/* The next byte, or everything that can be skipped at once, or the next piece. */
static long pass_step(__u32 i, struct steps *s)
{
	struct flow *f = s->flow;
	struct window *w = s->window;
	struct pass *p = &s->pass;
	__u64 at;

	if (!p->left || p->dead || !f || !w)
		return 1;
	if (!p->room) {
		struct iovec v = {};

		if (!p->vector || ++p->pieces > PIECES_MAX ||
		    bpf_probe_read_user(&v, sizeof(v), (void *)p->vector)) {
			p->unread = 1;
			return 1;
		}
		p->vector += sizeof(v);
		p->address = (__u64)v.iov_base;
		p->room = v.iov_len < p->left ? v.iov_len : p->left;
		return 0;
	}
	if (f->skip) {
		__u64 n = f->skip < p->room ? f->skip : p->room;

		f->skip -= n;
		pass_take(p, f, n);
		if (!f->skip)
			flow_skipped(p, f);
		return 0;
	}
	at = p->address - p->window_at;
	if (at >= p->window_bytes) {
		__u32 n = p->room < WINDOW_BYTES ? (__u32)p->room : WINDOW_BYTES;

		if (!p->address || bpf_probe_read_user(w->bytes, n, (void *)p->address)) {
			p->unread = 1;
			return 1;
		}
		p->window_at = p->address;
		p->window_bytes = n;
		at = 0;
	}
	p->until = (__u32)at +
		   (p->room < p->window_bytes - at ? (__u32)p->room : p->window_bytes - (__u32)at);
	if (words_pass(p, f, w, (__u32)at))
		return 0;
	pass_take(p, f, 1);
	if (at < WINDOW_BYTES)
		flow_byte(p, f, w->bytes[at]);
	return 0;
}

/* The bytes of the call have been gone through, or as many as could be. */
static __always_inline void pass_end(struct pass *p, struct flow *f)
{
	if (p->unread || (p->left && !p->dead))
		flow_lost(p, f);
	/* Until the end of its first line it is not known to be a message. */
	if (f->pending && !f->first_line) {
		if (!p->dead)
			send_message(p, f, f->pending);
		f->pending = 0;
	}
}
