/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The connection endpoint behind a descriptor, and the ports on which targets listen. */
#pragma once

#include "bpf/http/flow.bpf.h"

#include <bpf/bpf_endian.h>

#define LISTENERS_MAX 1024
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define S_IFMT 00170000
#define S_IFSOCK 0140000

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
} listeners SEC(".maps");

/* A stream socket of a target. */
struct endpoint {
	struct flow_key key;
	__u32 net;
	__u16 local_port, peer_port;
	bool tcp, server;
};

static __always_inline bool is_socket(struct file *file)
{
	return (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

static __always_inline struct sock *sock_of_file(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return socket ? BPF_CORE_READ(socket, sk) : NULL;
}

static __always_inline struct file *file_of(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **all = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), all + fd))
		return NULL;
	return file;
}

static __always_inline void listener_of(struct sock *sk, struct serving_port *ret)
{
	ret->net = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	ret->port = BPF_CORE_READ(sk, __sk_common.skc_num);
}

/* Finds the stream socket behind a descriptor; false: it has none. */
ENTRY find_endpoint(__u32 fd, struct endpoint *ret)
{
	struct file *file = file_of(fd);
	struct serving_port l;
	struct sock *sk;
	__u16 family;

	if (!ret || !file || !is_socket(file))
		return false;
	sk = sock_of_file(file);
	if (!sk || BPF_CORE_READ(sk, sk_type) != SOCK_STREAM)
		return false;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__builtin_memset(ret, 0, sizeof(*ret));
	ret->key.sock = (__u64)sk;
	ret->key.inode = (__u32)BPF_CORE_READ(file, f_inode, i_ino);
	if (family == AF_UNIX) {
		/* The connecting side has no address of its own; the accepting side has the
		 * listener's. */
		ret->server = BPF_CORE_READ((struct unix_sock *)sk, addr) != NULL;
		return true;
	}
	if (family != AF_INET && family != AF_INET6)
		return false;
	/* Of other protocols only the bytes are known, not their sequence numbers. */
	ret->tcp = BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
	listener_of(sk, &l);
	ret->net = l.net;
	ret->local_port = (__u16)l.port;
	ret->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	ret->server = bpf_map_lookup_elem(&listeners, &l) != NULL;
	return true;
}
