/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The top of a thread's stack, for callers that frame pointers do not show. Included by
 * stacks.bpf.c, whose record_output() it uses. */
#pragma once

/* A ring that holds more than this takes no copies: they would displace other records. */
#define COPY_RING_BYTES (4u << 20)
#define COPY_PAGE 4096u
#define USER_CODE_64 0x33
#define NO_SYSTEM_CALL (~0ull)
#define BREAKPOINT 0xcc

struct stack_copy {
	struct record_stack_copy record;
	/* The verifier does not see that the parts of at most a page each end before. */
	__u8 bytes[RECORD_COPY_BYTES + COPY_PAGE];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_copy);
} copies SEC(".maps");

#define HELD(n)                                                                                    \
	case n:                                                                                    \
		return bpf_ringbuf_query(&ring_##n, BPF_RB_AVAIL_DATA);

static __always_inline __u64 ring_held(__u64 group)
{
	if (group >= n_rings)
		return COPY_RING_BYTES;
	asm volatile("" : "+r"(group));
	switch (group) {
		EACH_RING(HELD)
	default:
		return COPY_RING_BYTES;
	}
}

static __always_inline struct stack_copy *copy_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&copies, &zero);
}

/* Page by page: a stack can end before that many bytes. Returns how many there were. */
ENTRY copy_bytes(__u64 from)
{
	__u32 n = COPY_PAGE - (from & (COPY_PAGE - 1)), rest = COPY_PAGE - n;
	struct stack_copy *c = copy_get();

	if (!c || n > COPY_PAGE || bpf_probe_read_user(c->bytes, n, (void *)from))
		return 0;
	for (int i = 1; i < RECORD_COPY_BYTES / COPY_PAGE; i++) {
		if (n > RECORD_COPY_BYTES ||
		    bpf_probe_read_user(c->bytes + n, COPY_PAGE, (void *)(from + n)))
			return n;
		n += COPY_PAGE;
	}
	if (n > RECORD_COPY_BYTES || rest > COPY_PAGE || !rest ||
	    bpf_probe_read_user(c->bytes + n, rest, (void *)(from + n)))
		return n;
	return RECORD_COPY_BYTES;
}

ENTRY copy_output(__u32 cpu, __u32 n)
{
	struct stack_copy *c = copy_get();

	if (c && n <= RECORD_COPY_BYTES)
		record_output(cpu, c, sizeof(c->record) + n);
	return 0;
}

/* At a breakpoint, as those of our own probes are, the thread has not executed the instruction, of
 * which it seems to have executed the first byte, until the kernel sets it back. */
static __always_inline __u64 before_breakpoint(__u64 ip, __u64 trap)
{
	__u8 bytes[2] = {};

	if (trap == NO_SYSTEM_CALL &&
	    !bpf_probe_read_user(bytes, sizeof(bytes), (void *)(ip - 1)) &&
	    bytes[0] == BREAKPOINT && bytes[1] != BREAKPOINT)
		return ip - 1;
	return ip;
}

/* Of the current thread, just before the stack itself. */
ENTRY send_stack_copy(__u32 cpu, bool in_kernel, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct stack_copy *c = copy_get();
	__u32 n;

	if (!c || ring_held(cpu / (cpus_per_ring ?: 1)) >= COPY_RING_BYTES ||
	    BPF_CORE_READ(regs, cs) != USER_CODE_64)
		return 0;
	c->record.ip = BPF_CORE_READ(regs, ip);
	if (in_kernel)
		c->record.ip = before_breakpoint(c->record.ip, BPF_CORE_READ(regs, orig_ax));
	c->record.sp = BPF_CORE_READ(regs, sp);
	c->record.bp = BPF_CORE_READ(regs, bp);
	if (c->record.sp % 8)
		return 0;
	c->record.n_below = RECORD_COPY_BELOW;
	n = (__u32)copy_bytes(c->record.sp - RECORD_COPY_BELOW);
	/* The page below can be one that the stack has not reached yet. */
	if (n <= RECORD_COPY_BELOW) {
		c->record.n_below = 0;
		n = (__u32)copy_bytes(c->record.sp);
	}
	if (!n)
		return 0;
	record_head(&c->record.head, now, task->pid, RECORD_STACK_COPY, 0);
	c->record.n_bytes = n;
	return copy_output(cpu, n);
}
