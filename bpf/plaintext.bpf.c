/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes at the functions through which a library takes bytes to encrypt, and hands over those that
 * it decrypted. Their framing is followed like that of sockets, and nothing else leaves the kernel.
 */
#include "bpf/plaintext.bpf.h"
#include "bpf/argument.bpf.h"

static __always_inline int plain_begin(const struct pt_regs *regs, __u64 cookie, __u64 now,
				       __u8 direction)
{
	__u64 sp = regs->sp + COOKIE_STACK8(cookie) * 8;
	struct plain_call *call = bpf_task_storage_get(&plain_calls, bpf_get_current_task_btf(),
						       NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!call) {
		COUNT(bpf_get_smp_processor_id(), flows_full);
		return 0;
	}
	/* A call below another one passes the outer one's encrypted bytes. */
	if (call->key && sp < call->sp)
		return 0;
	call->key = plain_key(argument(regs, COOKIE_VALUE(cookie)), COOKIE_TARGET(cookie));
	call->sp = sp;
	call->buffer = argument(regs, COOKIE_TAG(cookie));
	call->count_at = argument(regs, COOKIE_VALUE2(cookie));
	call->began = now;
	call->number = call->established_ns = 0;
	call->inode = call->position = 0;
	call->local_port = call->peer_port = 0;
	call->direction = direction;
	call->server = call->held = 0;
	call->target = COOKIE_TARGET(cookie);
	return 0;
}

/* How many bytes a call has passed, by what it returned. */
static __always_inline __u64 bytes_passed(const struct plain_call *call, __u64 returned)
{
	__s32 value = (__s32)returned;
	__u64 count = 0;

	if (value <= 0 || !call->count_at)
		return value <= 0 ? 0 : (__u64)value;
	if (bpf_probe_read_user(&count, sizeof(count), (void *)call->count_at)) {
		COUNT(bpf_get_smp_processor_id(), read_failed);
		return 0;
	}
	return count >> 31 ? 0 : count;
}

/* Not inlined, so that its use of the stack is not added to that of its caller's other calls. */
static __noinline struct connection *connection_of_object(const struct plain_call *call)
{
	__u64 key = call->key;
	struct connection *c = bpf_map_lookup_elem(&plaintexts, &key), *zeros;
	__u32 zero = 0;

	/* The object has got another socket. */
	if (!c || (call->inode && c->inode && c->number != call->number)) {
		zeros = bpf_map_lookup_elem(&no_plaintext, &zero);
		if (!zeros || bpf_map_update_elem(&plaintexts, &key, zeros, BPF_ANY)) {
			COUNT(bpf_get_smp_processor_id(), flows_full);
			return NULL;
		}
		c = bpf_map_lookup_elem(&plaintexts, &key);
		if (!c)
			return NULL;
	}
	if (!c->number) {
		c->number = call->inode ? call->number : socket_number(key);
		c->inode = call->inode;
		c->local_port = call->local_port;
		c->peer_port = call->peer_port;
		c->established_ns = call->established_ns;
		c->target = call->target;
	}
	c->server |= call->server;
	return c;
}

static __always_inline int plain_end(const struct pt_regs *regs, __u64 now)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct plain_call *call = bpf_task_storage_get(&plain_calls, self, NULL, 0);
	struct steps s = {};
	struct pass *p = &s.pass;
	struct connection *c;
	struct flow *f;
	__u64 bytes;

	/* The return of a call below it, or of one whose entry was not seen. */
	if (!call || !call->key || regs->sp != call->sp + 8)
		return 0;
	bytes = bytes_passed(call, regs->ax);
	c = bytes ? connection_of_object(call) : NULL;
	call->key = 0;
	if (!c)
		return 0;
	f = call->direction == PLAIN_READ ? &c->flows[MESSAGE_READ] : &c->flows[MESSAGE_WRITTEN];
	p->now = now;
	p->began = call->began;
	p->tid = self->pid;
	p->cpu = bpf_get_smp_processor_id();
	p->target = call->target;
	p->direction = call->direction == PLAIN_READ ? MESSAGE_READ : MESSAGE_WRITTEN;
	p->decrypted = 1;
	/* If they have left since, that was reported before this call is. */
	p->held = call->held && bpf_map_lookup_elem(&holds, &call->address);
	p->address = call->buffer;
	p->room = bytes;
	/* The bytes are somewhere before this one; of one record all have the same place. */
	if (call->position)
		f->expected = call->position;
	p->position = f->expected - (__u32)bytes;
	follow_in(&call->window, &s, c, bytes, 0);
	return 0;
}

static __always_inline int plain_free(const struct pt_regs *regs, __u64 cookie, __u64 now)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct pass p = { .now = now, .began = now };
	__u64 key = plain_key(argument(regs, COOKIE_VALUE(cookie)), COOKIE_TARGET(cookie));

	p.tid = self->pid;
	p.cpu = bpf_get_smp_processor_id();
	p.target = COOKIE_TARGET(cookie);
	if (plain_ends(&p, key, 0) && COOKIE_OFFSET2(cookie) == PLAIN_FREE)
		bpf_map_delete_elem(&plaintexts, &key);
	return 0;
}

SEC("uprobe")
int on_plaintext(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie;

	if (!window_open(now))
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	if (current_target() != (int)COOKIE_TARGET(cookie))
		return 0;
	if (cookie & COOKIE_RETURN)
		return plain_end(regs, now);
	switch (COOKIE_OFFSET2(cookie)) {
	case PLAIN_READ:
		return plain_begin(regs, cookie, now, PLAIN_READ);
	case PLAIN_WRITE:
		return plain_begin(regs, cookie, now, PLAIN_WRITE);
	default:
		return plain_free(regs, cookie, now);
	}
}
