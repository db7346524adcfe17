/* SPDX-License-Identifier: Apache-2.0 */
/* Notes what a probe sees, or only that it fires. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tests/sites/hit.h"

char LICENSE[] SEC("license") = "GPL";

/* Where the probed process has the number of the call that it makes. */
const volatile __u64 call_address = 0;

/* Of on_hit; its process has one thread. */
__u64 n_hits;
/* Of on_count. */
__u64 n_counted;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HITS_MAX);
	__type(key, __u32);
	__type(value, struct hit);
} hits SEC(".maps");

SEC("uprobe")
int on_hit(struct pt_regs *regs)
{
	__u64 cookie = bpf_get_attach_cookie(regs);
	__u32 i = n_hits++;
	struct hit *hit = bpf_map_lookup_elem(&hits, &i);

	if (!hit)
		return 0;
	hit->function = (__u32)cookie;
	hit->registers[0] = regs->ax;
	hit->registers[1] = regs->cx;
	hit->registers[2] = regs->dx;
	hit->registers[3] = regs->bx;
	hit->registers[4] = regs->sp;
	hit->registers[5] = regs->bp;
	hit->registers[6] = regs->si;
	hit->registers[7] = regs->di;
	hit->registers[8] = regs->r8;
	hit->registers[9] = regs->r9;
	hit->registers[10] = regs->r10;
	hit->registers[11] = regs->r11;
	hit->registers[12] = regs->r12;
	hit->registers[13] = regs->r13;
	hit->registers[14] = regs->r14;
	hit->registers[15] = regs->r15;
	bpf_probe_read_user(&hit->call, sizeof(hit->call), (void *)call_address);
	bpf_probe_read_user(&hit->return_address, sizeof(hit->return_address),
			    (void *)(regs->sp + (cookie >> 32)));
	return 0;
}

SEC("uprobe")
int on_count(struct pt_regs *regs)
{
	__sync_fetch_and_add(&n_counted, 1);
	return 0;
}
