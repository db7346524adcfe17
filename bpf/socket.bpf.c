/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The messages that pass through the sockets of the targets: where HTTP/1 and HTTP/2 requests and
 * answers begin and end, which call of which thread passed them, and when their bytes arrived. At
 * the socket: calls that use none are not slowed down. (bpf/syscall.bpf.c: without these
 * tracepoints.)
 */
#include "bpf/plaintext.bpf.h"

#define TCP_ESTABLISHED 1
#define TCP_FIN_WAIT1 4
#define TCPHDR_FIN 1

const volatile __u64 socket_secret[2] = {};

/* Freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

#define TCP_NAGLE_OFF 1
#define TCP_NAGLE_CORK 2

/* How many: packets are looked at only if there are any. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} n_holds SEC(".maps");

/* Of the socket to which the word at that place points, such as a context's first: the verifier
 * allows no arithmetic on the pointer itself. */
static __always_inline __u64 address_at(const void *place)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), place);
	return address;
}

static __always_inline __u64 number_at(const void *place)
{
	return socket_number(address_at(place));
}

static __always_inline __u32 read_end(const struct tcp_sock *tp)
{
	return read_position(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state, tp->copied_seq,
			     tp->rcv_nxt);
}

/* The rest of a request's body that was not seen to pass must have been read before its answer. */
ENTRY settle_read(struct pass *p, struct connection *c, __u32 position)
{
	struct pass unseen = {};
	struct flow *f;

	if (!p || !c)
		return 0;
	f = &c->flows[MESSAGE_READ];
	if (f->expected == position || __sync_lock_test_and_set(&f->busy, 1))
		return 0;
	unseen.now = unseen.began = p->now;
	unseen.tid = p->tid;
	unseen.cpu = p->cpu;
	unseen.target = p->target;
	unseen.position = position;
	unseen.direction = MESSAGE_READ;
	pass_connection(&unseen, c);
	pass_unseen(&unseen, f);
	f->expected = position;
	__sync_lock_test_and_set(&f->busy, 0);
	return 0;
}

static __always_inline void count_holds(__u32 change)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&n_holds, &zero);

	if (n)
		__sync_fetch_and_add(n, change);
}

static __always_inline __u8 held_by(struct tcp_sock *tp)
{
	__u32 end = tp->write_seq, bytes = end - tp->snd_nxt;
	__u8 nagle = BPF_CORE_READ_BITFIELD(tp, nonagle);

	if ((__s32)(end - (tp->snd_una + tp->snd_wnd)) > 0)
		return HELD_WINDOW;
	if (tp->packets_out >= tp->snd_cwnd)
		return HELD_CONGESTION;
	if (bytes >= tp->mss_cache)
		return HELD_UNKNOWN;
	if (nagle & TCP_NAGLE_CORK)
		return HELD_CORK;
	return !(nagle & TCP_NAGLE_OFF) && tp->packets_out ? HELD_NAGLE : HELD_UNKNOWN;
}

/* Whether bytes of a call that has returned are still in its socket. Not inlined, so that its use
 * of the stack is not added to that of its caller's other calls. */
static __noinline bool is_held(const struct connection *c, struct tcp_sock *tp, __u64 address)
{
	struct hold h = {};
	long r;

	if (tp->snd_nxt == tp->write_seq)
		return false;
	h.number = c->number;
	h.inode = c->inode;
	h.target = c->target;
	h.until = tp->write_seq;
	h.bytes = h.until - tp->snd_nxt;
	h.reason = held_by(tp);
	r = bpf_map_update_elem(&holds, &address, &h, BPF_NOEXIST);
	if (!r) {
		count_holds(1);
	} else if (bpf_map_update_elem(&holds, &address, &h, BPF_EXIST)) {
		if (is_full(r))
			COUNT(bpf_get_smp_processor_id(), flows_full);
		return false;
	}
	/* They may have left before they could be seen to. */
	if (tp->snd_nxt != h.until)
		return true;
	if (bpf_map_delete_elem(&holds, &address) == 0)
		count_holds(-1);
	return false;
}

static __always_inline void send_departure(const struct hold *h, bool discarded, bool at_once)
{
	struct record_departure *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, bpf_ktime_get_ns(), 0, RECORD_DEPARTURE, sizeof(*r));
	r->head.target = h->target;
	r->socket = h->number;
	r->inode = h->inode;
	r->position = h->until;
	r->bytes = h->bytes;
	r->reason = h->reason;
	r->discarded = discarded;
	r->at_once = at_once;
	r->reserved = 0;
	record_submit(r);
}

static __always_inline void hold_ends(__u64 address, bool discarded, bool at_once)
{
	struct hold *found = bpf_map_lookup_elem(&holds, &address), h;

	if (!found)
		return;
	h = *found;
	if (bpf_map_delete_elem(&holds, &address))
		return;
	count_holds(-1);
	send_departure(&h, discarded, at_once);
}

/* A packet is given to its device. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_departure, struct sk_buff *skb)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&n_holds, &zero), offset, begin = 0, end;
	const struct hold *h;
	__u8 words = 0;
	__u64 address;

	if (!n || !*n || !window_open(bpf_ktime_get_ns()))
		return 0;
	address = (__u64)BPF_CORE_READ(skb, sk);
	h = bpf_map_lookup_elem(&holds, &address);
	if (!h)
		return 0;
	offset = skb->transport_header;
	bpf_probe_read_kernel(&begin, sizeof(begin), skb->head + offset + 4);
	bpf_probe_read_kernel(&words, sizeof(words), skb->head + offset + 12);
	begin = bpf_ntohl(begin);
	end = begin + skb->len - (words >> 4) * 4 -
	      (offset - (__u32)((__u64)BPF_CORE_READ(skb, data) - (__u64)BPF_CORE_READ(skb, head)));
	/* What is before a packet has left. If that packet was not seen, it left while the hold was
	 * made: the kernel updates snd_nxt after it has given a packet to the device. */
	if ((__s32)(end - h->until) >= 0)
		hold_ends(address, false, (__s32)(begin - h->until) >= 0);
	return 0;
}

/* What is known of the socket's connection. Not inlined: as is_held(). */
static __noinline struct connection *connection_of_socket(const void *place, struct sock *sk,
							  int target)
{
	struct connection *c =
		bpf_sk_storage_get(&connections, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!c) {
		COUNT(bpf_get_smp_processor_id(), flows_full);
		return NULL;
	}
	if (!c->number) {
		if (!connection_learn(c, sk))
			return NULL;
		c->number = number_at(place);
	}
	c->target = (__u8)target;
	if (!c->server)
		c->server = is_server(sk);
	return c;
}

/* A call of the current thread has passed bytes. place: where the socket's address is. */
static __always_inline int on_passed(const void *place, struct sock *sk, int bytes, int flags,
				     __u8 direction)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct steps s = {};
	struct pass *p = &s.pass;
	struct connection *c;
	bool passed = bytes > 0 && !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE));
	struct tcp_sock *tp;
	__u32 end = 0;
	int target;

	/* Of a call that writes, the begin must be forgotten all the same. */
	if (!passed && direction == MESSAGE_READ)
		return 0;
	target = current_target();
	if (target < 0)
		return 0;
	p->now = bpf_ktime_get_ns();
	if (!window_open(p->now))
		return 0;
	p->began = direction == MESSAGE_WRITTEN ? call_ends(p->now) : p->now;
	if (!passed)
		return 0;
	c = connection_of_socket(place, sk, target);
	if (!c)
		return 0;
	p->tid = self->pid;
	p->cpu = bpf_get_smp_processor_id();
	p->target = target;
	p->direction = direction;
	if (c->tcp) {
		tp = bpf_skc_to_tcp_sock(sk);
		if (!tp)
			return 0;
		end = direction == MESSAGE_READ ? read_end(tp) : tp->write_seq;
		if (direction == MESSAGE_WRITTEN)
			p->held = is_held(c, tp, address_at(place));
		if (direction == MESSAGE_WRITTEN && c->flows[MESSAGE_READ].skip)
			settle_read(p, c, read_end(tp));
	}
	if (plain_passes(p, c, (struct pt_regs *)bpf_task_pt_regs(self), end, address_at(place)))
		return 0;
	find_bytes(p, (struct pt_regs *)bpf_task_pt_regs(self), flags & MSG_TRUNC, bytes);
	follow(&s, c, bytes, end);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_sent, struct sock *sk, int bytes, int flags)
{
	return on_passed(ctx, sk, bytes, 0, MESSAGE_WRITTEN);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_received, struct sock *sk, int bytes, int flags)
{
	return on_passed(ctx, sk, bytes, flags, MESSAGE_READ);
}

/*
 * The same on a kernel without these tracepoints (before 6.3), at the returns of its functions. A
 * call that waits in one of them when the capture begins is not seen.
 */
SEC("fexit/tcp_sendmsg")
int BPF_PROG(on_tcp_sent, struct sock *sk, struct msghdr *message, size_t size, int bytes)
{
	return on_passed(ctx, sk, bytes, 0, MESSAGE_WRITTEN);
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_tcp_received, struct sock *sk, struct msghdr *message, size_t size, int flags,
	     int *length, int bytes)
{
	return on_passed(ctx, sk, bytes, flags, MESSAGE_READ);
}

SEC("fexit/unix_stream_sendmsg")
int BPF_PROG(on_unix_sent, struct socket *socket, struct msghdr *message, size_t size, int bytes)
{
	return on_passed(&socket->sk, socket->sk, bytes, 0, MESSAGE_WRITTEN);
}

SEC("fexit/unix_stream_recvmsg")
int BPF_PROG(on_unix_received, struct socket *socket, struct msghdr *message, size_t size,
	     int flags, int bytes)
{
	return on_passed(&socket->sk, socket->sk, bytes, flags, MESSAGE_READ);
}

static __always_inline int begin_call(void)
{
	__u64 now;

	if (current_target() < 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (window_open(now))
		call_begins(now);
	return 0;
}

/* Bytes are about to be copied into the socket. Without this tracepoint (before 6.16), and
 * the function, and for Unix sockets, a call counts from its end. */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(on_sending)
{
	return begin_call();
}

SEC("fentry/tcp_sendmsg")
int BPF_PROG(on_tcp_sending)
{
	return begin_call();
}

/* The current thread has a new connection. */
SEC("fexit/inet_csk_accept")
int BPF_PROG(on_accepted)
{
	__u64 now, address = 0;
	int target = current_target();

	if (target < 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (!window_open(now) || bpf_get_func_ret(ctx, &address) || !address)
		return 0;
	send_accepted(now, (__u32)target, socket_number(address));
	return 0;
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(on_io_uring)
{
	struct task_struct *self = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	int target = current_target();

	if (target >= 0 && window_open(now))
		report_io_uring(now, self->pid, target);
	return 0;
}

static __always_inline void close_connection(struct connection *c)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct pass p = { .now = bpf_ktime_get_ns() };

	if (c->closed || !window_open(p.now))
		return;
	c->closed = 1;
	p.began = p.now;
	/* It can also be an interrupt, by which the peer's end of the connection came. */
	p.tid = current_target() == c->target ? self->pid : 0;
	p.cpu = bpf_get_smp_processor_id();
	p.target = c->target;
	if (!plain_closes(&p, c))
		connection_closes(&p, c);
}

/* The socket is closed; also after the peer has ended the connection, or if it has no more use. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_destroyed, struct sock *sk)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, NULL, 0);

	if (c) {
		close_connection(c);
		hold_ends(address_at(ctx), true, false);
	}
	return 0;
}

/* The listener if a target serves by TCP on this socket; NULL: it is none of theirs, or the window
 * is not open. In the sender's, or the network's, context. */
static __always_inline const struct serving_socket *served_by(const struct sock *sk, __u64 now)
{
	const struct serving_socket *listener;
	struct serving_port l;
	__u16 family;

	if (!window_open(now))
		return NULL;
	family = sk->__sk_common.skc_family;
	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_TCP)
		return NULL;
	l.net = sk->__sk_common.skc_net.net->ns.inum;
	l.port = sk->__sk_common.skc_num;
	listener = bpf_map_lookup_elem(&listeners, &l);
	/* A connection that is not accepted yet is reported at its listener. */
	if (!listener || sk->__sk_common.skc_state == TCP_LISTEN || sk->sk_uid.val != listener->uid)
		return NULL;
	return listener;
}

/* The states of TCP sockets: who listens, which connections are new, and where this side ends one.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int state)
{
	const struct serving_socket *listener;
	struct connection *c;
	int target;
	__u64 now;

	if (state == TCP_LISTEN) {
		target = current_target();
		if (target >= 0)
			listener_add(sk, target);
	} else if (state == TCP_ESTABLISHED) {
		now = bpf_ktime_get_ns();
		listener = served_by(sk, now);
		c = listener ? bpf_sk_storage_get(&connections, sk, NULL,
						  BPF_LOCAL_STORAGE_GET_F_CREATE)
			     : NULL;
		if (c)
			c->established_ns = now;
	} else if (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK) {
		c = bpf_sk_storage_get(&connections, sk, NULL, 0);
		if (c)
			close_connection(c);
	}
	return 0;
}

/* Bytes up to that sequence number can be read. */
static __always_inline int send_ready(void *context, const struct sock *sk,
				      const struct serving_socket *listener, __u64 now,
				      __u32 position, bool more)
{
	struct record_ready *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return 0;
	record_head(&r->head, now, 0, RECORD_READY, sizeof(*r));
	r->head.target = (__u8)listener->target;
	r->socket = number_at(context);
	r->position = position;
	r->more = more;
	r->unaccepted = !sk->sk_socket;
	record_submit(r);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns();
	const struct serving_socket *listener = served_by(sk, now);

	return listener ? send_ready(ctx, sk, listener, now,
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
	return send_ready(ctx, sk, listener, now, end,
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
	listener_add(sk, (__u32)index);
	return 0;
}
