/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Encrypted connections, by the objects that a library has for them. The socket of an object is the
 * one that the library uses while it is in a call for the object, on the same thread; if it uses
 * none there (memory BIO), the object alone is known.
 */
#pragma once

#include "bpf/connection.bpf.h"

#define PLAINTEXTS_MAX 8192
#define HOLDS_MAX 8192

/* Sockets, by address, whose last write left bytes in them. */
struct hold {
	__u64 number; /* of the connection */
	__u32 inode, until, bytes;
	__u8 reason, target;
	__u16 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOLDS_MAX);
	__type(key, __u64);
	__type(value, struct hold);
} holds SEC(".maps") __weak;

/* The call of a thread in the library. */
struct plain_call {
	__u64 key; /* of the object; 0: it is in none */
	__u64 sp;  /* at its entry */
	__u64 buffer, count_at, began;
	/* Of the socket: 0: none was used. */
	__u64 number, address, established_ns;
	__u32 inode, position;
	__u16 local_port, peer_port;
	__u8 direction, server, held, target;
	/* Of its own: another thread's can be interrupted by this one's program. */
	struct window window;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct plain_call);
} plain_calls SEC(".maps") __weak;

/* The decrypted bytes of objects, by address and target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PLAINTEXTS_MAX);
	__type(key, __u64);
	__type(value, struct connection);
} plaintexts SEC(".maps") __weak;

/* Zeros. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct connection);
} no_plaintext SEC(".maps") __weak;

static __always_inline __u64 plain_key(__u64 object, __u64 target)
{
	return (object & 0x00ffffffffffffffULL) | target << 56;
}

/* Whether the bytes that a socket passes are those of a call in the library, which has not
 * returned; then what is known of the socket is noted for that. */
static __always_inline bool plain_passes(struct pass *p, struct connection *c,
					 const struct pt_regs *user, __u32 end, __u64 address)
{
	struct plain_call *call =
		bpf_task_storage_get(&plain_calls, bpf_get_current_task_btf(), NULL, 0);

	if (!call || !call->key)
		return false;
	/* It was left otherwise than by a return that was seen. */
	if (user->sp >= call->sp) {
		call->key = 0;
		return false;
	}
	c->plain = call->key;
	c->flows[MESSAGE_READ].last_ns = p->now;
	/* Nor are those of other calls that the library makes, such as its last one. */
	c->flows[MESSAGE_READ].told = c->flows[MESSAGE_WRITTEN].told = 1;
	call->number = c->number;
	call->inode = c->inode;
	call->local_port = c->local_port;
	call->peer_port = c->peer_port;
	call->established_ns = c->established_ns;
	call->server = c->server;
	/* A handshake also writes while it reads. */
	if (p->direction != call->direction)
		return true;
	call->position = end;
	call->held = p->held;
	call->address = address;
	if (p->direction == MESSAGE_READ)
		call->began = p->now;
	return true;
}

static __always_inline bool plain_ends(struct pass *p, __u64 key, __u64 number)
{
	struct connection *c = bpf_map_lookup_elem(&plaintexts, &key);

	if (!c || (number && c->number != number))
		return false;
	if (!c->closed) {
		c->closed = 1;
		p->decrypted = 1;
		connection_closes(p, c);
	}
	return true;
}

/* A socket is closed, and with it the connection that was encrypted. */
static __always_inline bool plain_closes(struct pass *p, const struct connection *c)
{
	return c->plain && plain_ends(p, c->plain, c->number);
}
