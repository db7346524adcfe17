/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The messages that pass through the sockets of the targets: where HTTP/1 and HTTP/2 requests and
 * answers begin and end, which call of which thread passed them, and when their bytes arrived.
 */
#include "bpf/endpoint.bpf.h"
#include "bpf/http/messages.bpf.h"

#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11
#define TCPHDR_FIN 1
#define MSG_OOB 1
#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000

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
#define BIT(n) (1ULL << (n))
#define LOW_CALLS                                                                                  \
	(BIT(CALL_READ) | BIT(CALL_WRITE) | BIT(CALL_CLOSE) | BIT(CALL_READV) | BIT(CALL_WRITEV) | \
	 BIT(CALL_SENDFILE) | BIT(CALL_ACCEPT) | BIT(CALL_SENDTO) | BIT(CALL_RECVFROM) |           \
	 BIT(CALL_SENDMSG) | BIT(CALL_RECVMSG) | BIT(CALL_SHUTDOWN))

/* When the thread's current call was entered; 0: it is in none. Freed with the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} calls SEC(".maps");

/* Targets whose io_uring was reported. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} io_uring_reported SEC(".maps");

static __always_inline bool is_followed(long id)
{
	return (id >= 0 && id < 64 && (LOW_CALLS & BIT(id))) || id == CALL_SPLICE ||
	       id == CALL_ACCEPT4 || id == CALL_IO_URING_ENTER;
}

/* The state of one direction, created on first use. */
static __always_inline struct flow *flow_get(const struct flow_key *key, const struct window *w)
{
	struct flow *f = bpf_map_lookup_elem(&flows, key);

	if (f)
		return f;
	bpf_map_update_elem(&flows, key, &w->fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

static __always_inline void pass_endpoint(struct pass *p, const struct endpoint *endpoint)
{
	p->sock = endpoint->key.sock;
	p->inode = endpoint->key.inode;
	p->local_port = endpoint->local_port;
	p->peer_port = endpoint->peer_port;
	p->server = endpoint->server;
}

/* The sequence number after the last byte that was read. */
static __always_inline __u32 read_position(struct tcp_sock *tp)
{
	__u8 state = BPF_CORE_READ((struct sock *)tp, __sk_common.skc_state);
	__u32 end = BPF_CORE_READ(tp, copied_seq);
	bool ended = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;

	/* The peer's FIN has a number, too. */
	return ended && end == BPF_CORE_READ(tp, rcv_nxt) ? end - 1 : end;
}

/* The verifier of 6.1 has no room on the stack for a second key: the direction is set in that of
 * the endpoint. */
static __always_inline void follow(struct steps *s, struct endpoint *endpoint, __u64 bytes)
{
	struct pass *p = &s->pass;
	__u32 zero = 0, end = 0;
	struct flow *f;

	endpoint->key.direction = p->direction;
	s->window = bpf_map_lookup_elem(&windows, &zero);
	if (!s->window)
		return;
	f = s->flow = flow_get(&endpoint->key, s->window);
	if (!f) {
		COUNT(p->cpu, flows_full);
		return;
	}
	/* If two threads use one direction of a connection, the second is left out; the sequence
	 * number shows that its bytes are missing. */
	if (__sync_lock_test_and_set(&f->busy, 1))
		return;
	p->left = bytes;
	pass_endpoint(p, endpoint);
	if (endpoint->tcp) {
		struct tcp_sock *tp = (struct tcp_sock *)endpoint->key.sock;

		end = p->direction == MESSAGE_READ ? read_position(tp)
						   : BPF_CORE_READ(tp, write_seq);
		p->position = end - (__u32)bytes;
		if (f->followed && f->expected != p->position) {
			flow_lost(p, f);
			p->dead = 0;
		}
		f->expected = end;
		f->followed = 1;
	}
	bpf_loop(STEPS_MAX, pass_step, s, 0);
	pass_end(p, f);
	f->last_ns = p->now;
	__sync_lock_test_and_set(&f->busy, 0);
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

/* Both directions end with the descriptor, unless it is one of several. */
static __always_inline void on_close(struct pass *p, __u32 fd, bool forget)
{
	struct endpoint endpoint;
	struct flow *f;

	if (!find_endpoint(fd, &endpoint) || (forget && is_shared(file_of(fd))))
		return;
	/* If nothing was written on a connection, by what was read. */
	endpoint.key.direction = p->direction = MESSAGE_WRITTEN;
	f = bpf_map_lookup_elem(&flows, &endpoint.key);
	if (!f) {
		endpoint.key.direction = p->direction = MESSAGE_READ;
		f = bpf_map_lookup_elem(&flows, &endpoint.key);
	}
	if (f) {
		bool ends = p->direction == MESSAGE_WRITTEN && f->state == STATE_UNTIL_CLOSE;

		pass_endpoint(p, &endpoint);
		p->began = f->last_ns;
		send_message(p, f, MESSAGE_CLOSED | (ends ? MESSAGE_LAST : 0));
		if (ends)
			flow_restart(f);
	}
	if (!forget)
		return;
	endpoint.key.direction = MESSAGE_WRITTEN;
	bpf_map_delete_elem(&flows, &endpoint.key);
	endpoint.key.direction = MESSAGE_READ;
	bpf_map_delete_elem(&flows, &endpoint.key);
}

static __always_inline void report_io_uring(__u64 now, __u32 tid, __u32 target)
{
	__u32 *reported = bpf_map_lookup_elem(&io_uring_reported, &target);

	if (reported && !__sync_lock_test_and_set(reported, 1))
		send_unseen(now, tid, target, 0, 0, UNSEEN_IO_URING);
}

static __always_inline void call_begins(__u64 now)
{
	__u64 *began = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (began)
		*began = now;
	else
		COUNT(bpf_get_smp_processor_id(), flows_full);
}

/* When the thread's call was entered; a call that was entered before the window counts from its
 * beginning. */
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

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *self;
	int target;
	__u64 now;

	if (!is_followed(id))
		return 0;
	self = bpf_get_current_task_btf();
	target = target_index(self);
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

static __always_inline void listener_add(const struct serving_port *port, struct sock *sk,
					 __u32 target)
{
	struct serving_socket l = { .target = target, .uid = BPF_CORE_READ(sk, sk_uid.val) };

	bpf_map_update_elem(&listeners, port, &l, BPF_NOEXIST);
}

/* Not inlined, so that its use of the stack is not added to its caller's other calls. */
ENTRY on_accept(__u32 fd, __u32 target)
{
	const struct window *w;
	struct serving_port l;
	struct endpoint endpoint;
	struct flow *f;
	__u32 zero = 0;

	if (!find_endpoint(fd, &endpoint))
		return 0;
	endpoint.key.direction = MESSAGE_READ;
	w = bpf_map_lookup_elem(&windows, &zero);
	f = w ? flow_get(&endpoint.key, w) : NULL;
	if (f)
		f->accepted = 1;
	if (!endpoint.net)
		return 0;
	l = (struct serving_port){ .net = endpoint.net, .port = endpoint.local_port };
	listener_add(&l, (struct sock *)endpoint.key.sock, target);
	return 0;
}

/* Where a call's bytes are in user memory, and their direction; false: it passed none that are
 * followed. */
static __always_inline bool find_bytes(struct pass *p, const struct pt_regs *regs, long id)
{
	__u32 flags = 0;

	p->direction = MESSAGE_WRITTEN;
	switch (id) {
	case CALL_READ:
		p->direction = MESSAGE_READ;
		/* fall through */
	case CALL_WRITE:
		p->address = regs->si;
		break;
	case CALL_RECVFROM:
		p->direction = MESSAGE_READ;
		flags = (__u32)regs->r10;
		/* fall through */
	case CALL_SENDTO:
		p->address = regs->si;
		break;
	case CALL_READV:
		p->direction = MESSAGE_READ;
		/* fall through */
	case CALL_WRITEV:
		p->vector = regs->si;
		break;
	case CALL_RECVMSG:
		p->direction = MESSAGE_READ;
		flags = (__u32)regs->dx;
		/* fall through */
	case CALL_SENDMSG:
		if (bpf_probe_read_user(&p->vector, sizeof(p->vector),
					(void *)(regs->si + 16 /* msg_iov */)))
			return false;
		break;
	case CALL_SPLICE:
	case CALL_SENDFILE:
		break;
	default:
		return false;
	}
	/* They were discarded, not copied. */
	if (flags & MSG_TRUNC) {
		p->address = 0;
		p->vector = 0;
	}
	return !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE));
}

/* The socket through which a call passed bytes. */
static __always_inline bool find_socket(struct pass *p, const struct pt_regs *regs, long id,
					struct endpoint *ret)
{
	bool first = find_endpoint((__u32)regs->di, ret);

	if (id != CALL_SPLICE)
		return first;
	/* From the socket, or into it: no bytes are in user memory either way. */
	if (first)
		p->direction = MESSAGE_READ;
	return first || find_endpoint((__u32)regs->dx, ret);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct steps s = {};
	struct pass *p = &s.pass;
	struct endpoint endpoint;
	long id = (long)regs->orig_ax;
	struct task_struct *self;
	int target;

	if (!is_followed(id) || id == CALL_CLOSE || id == CALL_SHUTDOWN ||
	    id == CALL_IO_URING_ENTER)
		return 0;
	self = bpf_get_current_task_btf();
	target = target_index(self);
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
	if (!result || !find_bytes(p, regs, id) || !find_socket(p, regs, id, &endpoint))
		return 0;
	/* A piece of which only the length is known can be skipped, not read. */
	if (!p->vector)
		p->room = (__u64)result;
	follow(&s, &endpoint, (__u64)result);
	return 0;
}

/* The listener if a target serves by TCP on this socket; NULL: it is none of theirs, or the window
 * is not open. In the sender's, or the network's, context. */
static __always_inline const struct serving_socket *served_by(struct sock *sk, __u64 now)
{
	const struct serving_socket *listener;
	struct serving_port l;
	__u16 family;

	if (!window_open(now))
		return NULL;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if ((family != AF_INET && family != AF_INET6) ||
	    BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return NULL;
	listener_of(sk, &l);
	listener = bpf_map_lookup_elem(&listeners, &l);
	/* A connection that is not accepted yet is reported at its listener. */
	if (!listener || BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN ||
	    BPF_CORE_READ(sk, sk_uid.val) != listener->uid)
		return NULL;
	return listener;
}

/* Bytes up to that sequence number can be read. The context's first word is the socket: the
 * verifier allows no arithmetic on the pointer itself. */
static __always_inline int send_ready(void *context, const struct serving_socket *listener,
				      __u64 now, __u32 position, bool more)
{
	struct record_ready *r;
	__u64 address;

	if (bpf_probe_read_kernel(&address, sizeof(address), context))
		return 0;
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, now, 0, RECORD_READY, sizeof(*r));
	r->head.target = (__u8)listener->target;
	r->socket = socket_number(address);
	r->position = position;
	r->more = more;
	record_submit(r);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns();
	const struct serving_socket *listener = served_by(sk, now);

	return listener ? send_ready(ctx, listener, now,
				     BPF_CORE_READ((struct tcp_sock *)sk, rcv_nxt), false)
			: 0;
}

/*
 * The same on a kernel without that tracepoint (before 6.3): a segment of an established
 * connection, before it is processed. One that arrives out of order cannot be read yet.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *segment = (struct tcp_skb_cb *)skb->cb;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 now = bpf_ktime_get_ns();
	const struct serving_socket *listener = served_by(sk, now);
	__u32 next, begin, end;

	if (!listener)
		return 0;
	next = BPF_CORE_READ(tp, rcv_nxt);
	begin = BPF_CORE_READ(segment, seq);
	end = BPF_CORE_READ(segment, end_seq);
	/* The end of the stream has a number, too, but is not a byte. */
	if ((__s32)(begin - next) > 0 ||
	    (__s32)(end - (BPF_CORE_READ(segment, tcp_flags) & TCPHDR_FIN) - next) <= 0)
		return 0;
	return send_ready(ctx, listener, now, end,
			  BPF_CORE_READ(tp, out_of_order_queue.rb_node) != NULL);
}

static __always_inline bool is_io_uring(struct file *file)
{
	const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	char text[sizeof("[io_uring]")] = {};

	return bpf_probe_read_kernel_str(text, sizeof(text), name) == sizeof(text) &&
	       IS(text, "[io_uring]");
}

/* Run by user space before the window opens: finds where the targets serve. */
SEC("iter/task_file")
int find_listeners(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct serving_port l;
	struct sock *sk;
	int index;

	if (!task || !file)
		return 0;
	index = target_index(task);
	if (index < 0)
		return 0;
	if (!is_socket(file)) {
		if (is_io_uring(file))
			send_unseen(bpf_ktime_get_ns(), task->pid, index, 0, 0, UNSEEN_IO_URING);
		return 0;
	}
	sk = sock_of_file(file);
	if (!sk || BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_LISTEN)
		return 0;
	listener_of(sk, &l);
	listener_add(&l, sk, (__u32)index);
	return 0;
}
