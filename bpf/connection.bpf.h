/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The connections of the targets: which socket, which side of it, and how far its bytes are
 * understood. */
#pragma once

#include "bpf/http/messages.bpf.h"

#include <bpf/bpf_endian.h>

#define LISTENERS_MAX 1024
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define MSG_OOB 1
#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11

/* x86-64 */
enum call {
	CALL_READ = 0,
	CALL_WRITE = 1,
	CALL_CLOSE = 3,
	CALL_READV = 19,
	CALL_WRITEV = 20,
	CALL_SENDFILE = 40,
	CALL_ACCEPT = 43,
	CALL_SENDTO = 44,
	CALL_RECVFROM = 45,
	CALL_SENDMSG = 46,
	CALL_RECVMSG = 47,
	CALL_SHUTDOWN = 48,
	CALL_SPLICE = 275,
	CALL_ACCEPT4 = 288,
	CALL_IO_URING_ENTER = 426,
};

struct serving_port {
	__u32 net;
	__u32 port;
};

struct serving_socket {
	__u32 target; /* its index */
	/* The owner of the socket: another user's process can serve at the same port of another
	 * address. */
	__u32 uid;
};

/* Ports on which targets listen. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LISTENERS_MAX);
	__type(key, struct serving_port);
	__type(value, struct serving_socket);
} listeners SEC(".maps") __weak;

/* When the thread's current call was entered; 0: it is in none. Freed with the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} calls SEC(".maps") __weak;

/* Targets whose io_uring was reported. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} io_uring_reported SEC(".maps") __weak;

/* target_index() of the current thread, which the verifier does not follow for each of its results.
 */
ENTRY current_target(void)
{
	return target_index(bpf_get_current_task_btf());
}

static __always_inline bool is_socket(struct file *file)
{
	return (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

static __always_inline struct sock *sock_of_file(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return socket ? BPF_CORE_READ(socket, sk) : NULL;
}

static __always_inline void listener_of(const struct sock *sk, struct serving_port *ret)
{
	ret->net = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	ret->port = BPF_CORE_READ(sk, __sk_common.skc_num);
}

static __always_inline void listener_add(const struct sock *sk, __u32 target)
{
	struct serving_socket l = { .target = target, .uid = BPF_CORE_READ(sk, sk_uid.val) };
	struct serving_port port;

	listener_of(sk, &port);
	bpf_map_update_elem(&listeners, &port, &l, BPF_NOEXIST);
}

/* Learns what does not change of a stream socket; false: it is another one. */
static __always_inline bool connection_learn(struct connection *c, struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	struct socket *socket = BPF_CORE_READ(sk, sk_socket);

	if (BPF_CORE_READ(sk, sk_type) != SOCK_STREAM ||
	    (family != AF_UNIX && family != AF_INET && family != AF_INET6))
		return false;
	c->inode = (__u32)BPF_CORE_READ((struct socket_alloc *)socket, vfs_inode.i_ino);
	if (family == AF_UNIX)
		return true;
	/* Of other protocols only the bytes are known, not their sequence numbers. */
	c->tcp = BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
	c->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	c->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	return true;
}

/* Whether the target accepted the connection. A listener can become known later than it. */
static __always_inline bool is_server(struct sock *sk)
{
	struct serving_port l;

	/* Of a Unix socket's two sides, the connecting one has no address of its own; the accepting
	 * one has the listener's. */
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX)
		return BPF_CORE_READ((struct unix_sock *)sk, addr) != NULL;
	listener_of(sk, &l);
	return bpf_map_lookup_elem(&listeners, &l) != NULL;
}

/* The sequence number after the last byte that was read of a TCP socket with these fields. */
static __always_inline __u32 read_position(__u8 state, __u32 copied, __u32 received)
{
	bool ended = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;

	/* The peer's FIN has a number, too. */
	return ended && copied == received ? copied - 1 : copied;
}

static __always_inline void call_begins(__u64 now)
{
	__u64 *began = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!began)
		COUNT(bpf_get_smp_processor_id(), flows_full);
	else if (!*began)
		*began = now;
}

/* When the thread's call was entered, as far as it is known. */
static __always_inline __u64 call_ends(__u64 now)
{
	__u64 *began = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
	__u64 ret = now;

	if (began && *began) {
		ret = *began;
		*began = 0;
	}
	return ret;
}

static __always_inline void send_accepted(__u64 now, __u32 target, __u64 number)
{
	struct record_accepted *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, now, 0, RECORD_ACCEPTED, sizeof(*r));
	r->head.target = (__u8)target;
	r->socket = number;
	record_submit(r);
}

static __always_inline void report_io_uring(__u64 now, __u32 tid, __u32 target)
{
	__u32 *reported = bpf_map_lookup_elem(&io_uring_reported, &target);

	if (reported && !__sync_lock_test_and_set(reported, 1))
		send_unseen(now, tid, target, 0, 0, UNSEEN_IO_URING);
}

/* Where a call's bytes are in user memory. Of a piece of which only the length is known no bytes
 * can be read, but it can be skipped. */
static __always_inline void find_bytes(struct pass *p, const struct pt_regs *regs, bool discarded,
				       __u64 bytes)
{
	switch (regs->orig_ax) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_RECVFROM:
	case CALL_SENDTO:
		p->address = regs->si;
		break;
	case CALL_READV:
	case CALL_WRITEV:
		p->vector = regs->si;
		break;
	case CALL_RECVMSG:
	case CALL_SENDMSG:
		bpf_probe_read_user(&p->vector, sizeof(p->vector),
				    (void *)(regs->si + 16 /* msg_iov */));
		break;
	}
	if (discarded)
		p->address = p->vector = 0;
	if (!p->vector)
		p->room = bytes;
}

static __always_inline void pass_connection(struct pass *p, const struct connection *c)
{
	p->sock = c->number;
	p->inode = c->inode;
	p->local_port = c->local_port;
	p->peer_port = c->peer_port;
	p->server = c->server;
	p->accepted = c->established_ns != 0;
	p->answers_head =
		c->flows[p->direction == MESSAGE_READ ? MESSAGE_WRITTEN : MESSAGE_READ].is_head;
}

static __always_inline void flow_pass(struct pass *p, struct flow *f, __u32 bytes)
{
	f->skip -= bytes;
	if (f->protocol != MESSAGE_HTTP2)
		f->bytes += bytes;
	if (!f->skip)
		flow_skipped(p, f);
}

/* Bytes up to that position passed unseen, such as by splice(2): they may be part of a body. */
static __always_inline void pass_unseen(struct pass *p, struct flow *f)
{
	__u32 unseen = p->position - f->expected;

	if (!f->followed || !unseen)
		return;
	if (unseen <= f->skip && unseen < 1u << 31) {
		flow_pass(p, f, unseen);
		return;
	}
	flow_lost(p, f);
	p->dead = 0;
}

/* Goes through the bytes of one call; end is the sequence number behind them. */
static __always_inline void follow_in(struct window *window, struct steps *s, struct connection *c,
				      __u64 bytes, __u32 end)
{
	struct pass *p = &s->pass;
	struct flow *f =
		p->direction == MESSAGE_READ ? &c->flows[MESSAGE_READ] : &c->flows[MESSAGE_WRITTEN];

	s->flow = f;
	s->window = window;
	/* If two threads use one direction of a connection, the second is left out; the sequence
	 * number shows that its bytes are missing. */
	if (!s->window || __sync_lock_test_and_set(&f->busy, 1))
		return;
	pass_connection(p, c);
	if (c->tcp) {
		p->position = end - (__u32)bytes;
		pass_unseen(p, f);
		f->expected = end;
		f->followed = 1;
	}
	p->left = bytes;
	if (f->skip > bytes) {
		p->position += (__u32)bytes;
		flow_pass(p, f, (__u32)bytes);
	} else {
		bpf_loop(STEPS_MAX, pass_step, s, 0);
		pass_end(p, f);
	}
	f->last_ns = p->now;
	__sync_lock_test_and_set(&f->busy, 0);
}

static __always_inline void follow(struct steps *s, struct connection *c, __u64 bytes, __u32 end)
{
	__u32 zero = 0;

	follow_in(bpf_map_lookup_elem(&windows, &zero), s, c, bytes, end);
}

/* Both directions end with the connection, or this side's. */
static __always_inline void connection_closes(struct pass *p, struct connection *c)
{
	struct flow *f = &c->flows[MESSAGE_WRITTEN];
	bool ends = f->state == STATE_UNTIL_CLOSE;

	p->direction = MESSAGE_WRITTEN;
	/* If nothing was written on a connection, by what was read. */
	if (!f->last_ns) {
		f = &c->flows[MESSAGE_READ];
		p->direction = MESSAGE_READ;
		ends = false;
	}
	if (!f->last_ns)
		return;
	pass_connection(p, c);
	p->began = f->last_ns;
	send_message(p, f, MESSAGE_CLOSED | (ends ? MESSAGE_LAST : 0));
	if (ends)
		flow_restart(f);
}
