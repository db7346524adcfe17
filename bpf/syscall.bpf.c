/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The same as bpf/socket.bpf.c on a kernel without its tracepoints (before 6.3) that lets no
 * program run at its functions, by the tracepoints of system calls: every call of every process
 * becomes slower.
 */
#include "bpf/connection.bpf.h"

#define CONNECTIONS_MAX 16384
#define BIT(n) (1ULL << (n))
#define LOW_CALLS                                                                                  \
	(BIT(CALL_READ) | BIT(CALL_WRITE) | BIT(CALL_CLOSE) | BIT(CALL_READV) | BIT(CALL_WRITEV) | \
	 BIT(CALL_SENDFILE) | BIT(CALL_ACCEPT) | BIT(CALL_SENDTO) | BIT(CALL_RECVFROM) |           \
	 BIT(CALL_SENDMSG) | BIT(CALL_RECVMSG) | BIT(CALL_SHUTDOWN))

struct socket_key {
	__u64 sock;
	__u64 inode;
};

/* A socket that is reached by its descriptor has no storage of its own. Memory is allocated when
 * they are needed: clearing all of it would take longer than everything else. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, struct socket_key);
	__type(value, struct connection);
} described SEC(".maps");

/* A connection of zeros. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct connection);
} fresh SEC(".maps");

static __always_inline bool is_followed(long id)
{
	return (id >= 0 && id < 64 && (LOW_CALLS & BIT(id))) || id == CALL_SPLICE ||
	       id == CALL_ACCEPT4 || id == CALL_IO_URING_ENTER;
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

/* The socket behind a descriptor; 0: it has none. */
static __always_inline bool find_key(__u32 fd, struct socket_key *ret)
{
	struct file *file = file_of(fd);
	struct sock *sk;

	if (!file || !is_socket(file))
		return false;
	sk = sock_of_file(file);
	ret->sock = (__u64)sk;
	ret->inode = BPF_CORE_READ(file, f_inode, i_ino);
	return sk != NULL;
}

/* Not inlined, so that its use of the stack is not added to that of its caller's other calls. */
static __noinline struct connection *connection_of(const struct socket_key *key, bool create)
{
	struct connection *c = bpf_map_lookup_elem(&described, key);
	__u32 zero = 0;

	if (!c && create) {
		c = bpf_map_lookup_elem(&fresh, &zero);
		if (!c || bpf_map_update_elem(&described, key, c, BPF_NOEXIST))
			COUNT(bpf_get_smp_processor_id(), flows_full);
		c = bpf_map_lookup_elem(&described, key);
	}
	if (c && !c->number) {
		if (!connection_learn(c, (struct sock *)key->sock))
			return NULL;
		c->number = socket_number(key->sock);
	}
	if (c && !c->server)
		c->server = is_server((struct sock *)key->sock);
	return c;
}

struct file___counted {
	atomic_long_t f_count;
} __attribute__((preserve_access_index));

/* Whether the file stays open when a descriptor of it is closed; also while another thread is in a
 * call with it. */
static __always_inline bool is_shared(struct file *file)
{
	if (bpf_core_field_exists(((struct file___counted *)file)->f_count))
		return BPF_CORE_READ((struct file___counted *)file, f_count.counter) > 1;
	/* The count is one less than the number of references. */
	return BPF_CORE_READ(file, f_ref.refcnt.counter) > 0;
}

/* A descriptor is closed, unless it is one of several, or one side of its connection. */
static __always_inline void on_close(struct pass *p, __u32 fd, bool forget)
{
	struct socket_key key = {};
	struct connection *c;

	if (!find_key(fd, &key) || (forget && is_shared(file_of(fd))))
		return;
	c = connection_of(&key, false);
	if (!c)
		return;
	connection_closes(p, c);
	if (forget)
		bpf_map_delete_elem(&described, &key);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *self;
	int target;
	__u64 now;

	if (!is_followed(id))
		return 0;
	self = bpf_get_current_task_btf();
	target = current_target();
	if (target < 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (!window_open(now))
		return 0;
	if (id == CALL_CLOSE || id == CALL_SHUTDOWN) {
		struct pass p = { .now = now,
				  .began = now,
				  .tid = self->pid,
				  .cpu = bpf_get_smp_processor_id(),
				  .target = target };

		/* SHUT_WR and SHUT_RDWR */
		if (id == CALL_CLOSE || regs->si)
			on_close(&p, (__u32)regs->di, id == CALL_CLOSE);
		return 0;
	}
	if (id == CALL_IO_URING_ENTER)
		report_io_uring(now, self->pid, target);
	else
		call_begins(now);
	return 0;
}

/* Not inlined, so that its use of the stack is not added to its caller's other calls. */
ENTRY on_accept(__u32 fd, __u32 target)
{
	struct socket_key key = {};
	struct connection *c;

	if (!find_key(fd, &key))
		return 0;
	c = connection_of(&key, true);
	if (!c)
		return 0;
	c->established_ns = bpf_ktime_get_ns();
	if (!c->local_port)
		return 0;
	send_accepted(c->established_ns, target, c->number);
	listener_add((struct sock *)key.sock, target);
	return 0;
}

/* The direction in which a call passes bytes of its socket, and whether they are followed. */
static __always_inline bool find_direction(struct pass *p, const struct pt_regs *regs, long id,
					   bool *discarded)
{
	__u32 flags = 0;

	p->direction = MESSAGE_WRITTEN;
	switch (id) {
	case CALL_RECVFROM:
		flags = (__u32)regs->r10;
		p->direction = MESSAGE_READ;
		break;
	case CALL_RECVMSG:
		flags = (__u32)regs->dx;
		/* fall through */
	case CALL_READ:
	case CALL_READV:
		p->direction = MESSAGE_READ;
		break;
	}
	*discarded = flags & MSG_TRUNC;
	return !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE));
}

/* The socket through which a call passed bytes. */
static __always_inline bool find_socket(struct pass *p, const struct pt_regs *regs, long id,
					struct socket_key *ret)
{
	bool first = find_key((__u32)regs->di, ret);

	if (id != CALL_SPLICE)
		return first;
	/* From the socket, or into it: no bytes are in user memory either way. */
	if (first)
		p->direction = MESSAGE_READ;
	return first || find_key((__u32)regs->dx, ret);
}

static __always_inline __u32 end_of(const struct pass *p, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return p->direction == MESSAGE_READ
		       ? read_position(BPF_CORE_READ(sk, __sk_common.skc_state),
				       BPF_CORE_READ(tp, copied_seq), BPF_CORE_READ(tp, rcv_nxt))
		       : BPF_CORE_READ(tp, write_seq);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct steps s = {};
	struct pass *p = &s.pass;
	struct socket_key key = {};
	long id = (long)regs->orig_ax;
	struct task_struct *self;
	struct connection *c;
	bool discarded;
	int target;

	if (!is_followed(id) || id == CALL_CLOSE || id == CALL_SHUTDOWN ||
	    id == CALL_IO_URING_ENTER)
		return 0;
	self = bpf_get_current_task_btf();
	target = current_target();
	if (target < 0)
		return 0;
	p->now = bpf_ktime_get_ns();
	if (!window_open(p->now))
		return 0;
	p->tid = self->pid;
	p->cpu = bpf_get_smp_processor_id();
	p->target = target;
	p->began = call_ends(p->now);
	if (result < 0)
		return 0;
	if (id == CALL_ACCEPT || id == CALL_ACCEPT4) {
		on_accept((__u32)result, target);
		return 0;
	}
	if (!result || !find_direction(p, regs, id, &discarded) || !find_socket(p, regs, id, &key))
		return 0;
	c = connection_of(&key, true);
	if (!c)
		return 0;
	find_bytes(p, regs, discarded, (__u64)result);
	follow(&s, c, (__u64)result, c->tcp ? end_of(p, (struct sock *)key.sock) : 0);
	return 0;
}
