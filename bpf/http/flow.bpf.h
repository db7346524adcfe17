/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How far the bytes of one direction of a connection are understood, the position in the bytes of
 * one call, and the records about them. Framing is parsed in the kernel, so that nothing else
 * leaves it: of a message only its method and path, its status, and lengths.
 */
#pragma once

#include "bpf/common.bpf.h"

#define WINDOW_BYTES 512 /* a power of two */
#define LINE_BYTES 40
#define FRAME_BYTES 9
/* Calls without any known bytes, until this is reported. */
#define TRIES_MAX 8

/* Turns the kernel's addresses into opaque numbers; a new one for each capture, set before
 * loading. */
extern const volatile __u64 socket_secret[2];

enum flow_state {
	STATE_DETECT,      /* collects the bytes that identify the protocol */
	STATE_LINE,        /* in an HTTP/1 head */
	STATE_BODY,        /* skips a body of a known length */
	STATE_CHUNK,       /* reads the size of a chunk, or skips one */
	STATE_TRAILER,     /* in the lines after the last chunk */
	STATE_UNTIL_CLOSE, /* skips everything that follows */
	/* Collects the head of an HTTP/2 frame, or skips one. */
	STATE_FRAME,
	STATE_PADDING, /* reads how much padding a frame has */
	STATE_BLOCK,   /* in a block of header fields */
};

enum field_state {
	FIELD_BEGIN,
	FIELD_INDEX, /* continues */
	FIELD_NAME_LENGTH,
	FIELD_NAME_LENGTH_ON,
	FIELD_NAME_BYTES,
	FIELD_VALUE_LENGTH,
	FIELD_VALUE_LENGTH_ON,
	FIELD_VALUE_BYTES,
};

enum field_kind {
	KIND_INDEXED,
	KIND_INSERTED,
	KIND_LITERAL,
	KIND_RESIZE,
};

/* One direction of a connection: how far its bytes are understood. */
struct flow {
	__u64 skip;    /* bytes to skip */
	__u64 length;  /* of a body */
	__u64 last_ns; /* when bytes last passed */
	/* When the call was entered that passed the first byte of the message, or frame. */
	__u64 began;
	__u64 raw_began; /* likewise for the bytes in .raw */
	__u32 expected;  /* the next sequence number */
	__u32 bytes;     /* of the message */
	__u32 ordinal, stream, inserted, number, left, block, value, shift;
	/* The last bits of a Huffman-coded text, this many. */
	__u32 code;
	__u8 code_bits;
	__u16 status, line, name_bytes, kept;
	__u8 protocol, state, n, tries;
	__u8 is_request, first_line, target, query, chunked, has_length, is_head, pending;
	__u8 type, frame_flags, ends_stream, padding;
	__u8 field, kind, name, huffman;
	__u8 fields_lost, seen_status, seen_method, seen_path, n_references, told, spaces;
	__u8 followed; /* .expected is valid */
	__u8 passing;  /* the rest of the line is not needed */
	__u8 has_grpc_status;
	__u32 grpc_status; /* number of a field of that name in the table */
	__u32 busy;        /* a thread is processing it */
	__u8 raw[FRAME_BYTES + 3];
	__u16 references[RECORD_REFERENCES];
	char bytes_of_line[LINE_BYTES];
	char text[RECORD_FIELD_SIZE];
};

/* A stream socket of a target. */
struct connection {
	struct flow flows[2]; /* by enum message_direction */
	__u64 number;         /* in place of its address; 0: the rest is not known yet */
	__u64 established_ns; /* 0: before the window, or it is not TCP */
	__u32 inode;
	__u16 local_port, peer_port;
	__u8 tcp, server, closed, target;
	/* Of an encrypted one: key of what is known of its decrypted bytes; 0: nothing. */
	__u64 plain;
};

/* The bytes of user memory that are copied at once. */
struct window {
	__u8 bytes[WINDOW_BYTES + 8]; /* words are read at any place */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps") __weak;

/* The position in the bytes of one call. No pointers, so that the functions below can be verified
 * one by one. */
struct pass {
	__u64 now, began;
	__u64 sock;          /* number of the connection */
	__u64 vector;        /* address of the remaining pieces */
	__u64 address, room; /* of the current piece */
	__u64 left;          /* of all pieces */
	__u64 window_at;
	__u32 window_bytes, pieces, position, inode, tid, cpu, target;
	/* Places in the window: the end of what may be looked at, and what was searched for. */
	__u32 until, found;
	__u16 local_port, peer_port;
	__u8 direction, server, accepted, unread, dead;
	__u8 held;         /* bytes stayed in the socket */
	__u8 decrypted;    /* by a library, not at the socket */
	__u8 answers_head; /* the other direction's last request asked for a head only */
};

static __always_inline __u64 socket_number(__u64 sock)
{
	sock ^= socket_secret[0];
	sock = (sock ^ sock >> 29) * 0xbf58476d1ce4e5b9ULL;
	sock ^= socket_secret[1];
	sock = (sock ^ sock >> 32) * 0x94d049bb133111ebULL;
	return sock ^ sock >> 31;
}

/* Compares with a literal, which compiles to constants: data of its own would need a section. */
#define IS(bytes, literal)                                                                         \
	({                                                                                         \
		bool is_ = true;                                                                   \
		_Pragma("unroll") for (unsigned i_ = 0; i_ < sizeof(literal) - 1; i_++) is_ &=     \
			(__u8)(bytes)[i_] == (__u8)literal[i_];                                    \
		is_;                                                                               \
	})

static __always_inline void fill_message(struct record_message *r, const struct pass *p,
					 const struct flow *f, __u16 part, __u64 size)
{
	record_head(&r->head, p->now, p->tid, RECORD_MESSAGE, size);
	r->head.target = p->target;
	r->began = part & MESSAGE_FIRST ? f->began : p->began;
	r->socket = p->sock;
	r->inode = p->inode;
	r->position = p->position;
	r->stream = f->stream;
	r->bytes = f->bytes;
	r->local_port = p->local_port;
	r->peer_port = p->peer_port;
	r->part = part | (p->server ? MESSAGE_SERVER : 0) |
		  (f->is_request ? MESSAGE_IS_REQUEST : 0) | (p->accepted ? MESSAGE_ACCEPTED : 0) |
		  (p->held ? MESSAGE_HELD : 0) | (p->decrypted ? MESSAGE_DECRYPTED : 0);
	r->status = f->status;
	r->direction = p->direction;
	r->protocol = f->protocol;
	r->type = f->type;
	r->flags = f->frame_flags;
	r->ordinal = f->ordinal;
}

ENTRY send_message(struct pass *p, struct flow *f, __u32 part)
{
	struct record_message *r;

	if (!p || !f)
		return 0;
	r = record_reserve(p->cpu, sizeof(*r));
	if (!r)
		return 0;
	fill_message(r, p, f, (__u16)part, sizeof(*r));
	record_submit(r);
	return 0;
}

static __always_inline void send_headers(struct pass *p, struct flow *f, __u16 part)
{
	struct record_headers *r = record_reserve(p->cpu, sizeof(*r));

	if (!r)
		return;
	fill_message(&r->message, p, f, part, sizeof(*r));
	r->inserted = f->inserted;
	r->status = f->seen_status;
	r->method = f->seen_method;
	r->path = f->seen_path;
	r->n_references = f->n_references;
	r->reserved = 0;
	__builtin_memcpy(r->references, f->references, sizeof(r->references));
	record_submit(r);
}

ENTRY send_field(struct pass *p, struct flow *f, __u32 name)
{
	struct record_field *r;

	if (!p || !f)
		return 0;
	r = record_reserve(p->cpu, sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, p->now, p->tid, RECORD_FIELD, sizeof(*r));
	r->head.target = p->target;
	r->socket = p->sock;
	r->inode = p->inode;
	r->stream = f->stream;
	r->number = f->number;
	r->size = f->kept;
	r->direction = p->direction;
	r->name = (__u8)name;
	r->inserted = f->kind == KIND_INSERTED;
	r->huffman = f->huffman;
	__builtin_memset(r->reserved, 0, sizeof(r->reserved));
	__builtin_memcpy(r->text, f->text, sizeof(r->text));
	record_submit(r);
	return 0;
}

static __always_inline void send_unseen(__u64 now, __u32 tid, __u32 target, __u64 sock, __u32 inode,
					__u8 what)
{
	struct record_unseen *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, now, tid, RECORD_UNSEEN, sizeof(*r));
	r->head.target = target;
	r->head.site = what;
	r->socket = sock;
	r->inode = inode;
	r->reserved = 0;
	record_submit(r);
}

/* Starts again: with the next bytes, or with the next call's. */
static __always_inline void flow_restart(struct flow *f)
{
	f->protocol = MESSAGE_NEW;
	f->state = STATE_DETECT;
	f->n = 0;
	f->skip = 0;
	f->bytes = 0;
	f->status = 0;
	f->stream = 0;
	f->pending = 0;
	f->ends_stream = 0;
	f->is_request = 0;
	f->first_line = 0;
}

/* No known message begins here. Calls that the process makes to others are not searched for. */
static __always_inline void flow_unknown(struct pass *p, struct flow *f)
{
	if (p->server && p->direction == MESSAGE_READ && !f->tries)
		send_message(p, f, MESSAGE_PASSED);
	if (p->server && f->tries < 255 && ++f->tries == TRIES_MAX && !f->told) {
		send_unseen(p->now, p->tid, p->target, p->sock, p->inode, UNSEEN_OTHER);
		f->told = 1;
	}
	p->dead = 1;
}

/* The bytes that pass here can no longer be followed. */
static __always_inline void flow_lost(struct pass *p, struct flow *f)
{
	/* It was a message until now. */
	if (f->pending && !f->first_line)
		send_message(p, f, f->pending);
	send_message(p, f, MESSAGE_LOST);
	f->fields_lost = 1;
	flow_restart(f);
	p->dead = 1;
}

/* The message's last byte has passed. */
static __always_inline void message_end(struct pass *p, struct flow *f)
{
	__u8 part = f->pending | MESSAGE_LAST;

	send_message(p, f, part);
	flow_restart(f);
}

static __always_inline void line_begin(struct flow *f)
{
	f->line = 0;
	f->passing = 0;
}
