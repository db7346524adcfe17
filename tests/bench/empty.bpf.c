/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a capture of tfprofd if its programs did nothing: the same kinds of program at the
 * same places. Alternatively they count, for a number of events that does not come from tfprofd.
 */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Set before loading: the verifier removes the code that they rule out, so that an empty program
 * contains no counting. */
const volatile bool counting = false;
const volatile __s32 target = 0;

__u64 n_probes, n_switches, n_wakes, n_threads, n_foreign;

/* Threads of other processes that were counted, as many as in bpf/sched.bpf.c. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} foreign SEC(".maps");

/* A tracepoint can interrupt a uprobe's program, so this has to be atomic. */
#define COUNT(counter, condition)                                                                  \
	do {                                                                                       \
		if (counting && (condition))                                                       \
			__sync_fetch_and_add(&(counter), 1);                                       \
	} while (0)

SEC("uprobe")
int on_probe(struct pt_regs *regs)
{
	COUNT(n_probes, true);
	return 0;
}

/* A thread that had a CPU before or after one of the process: tfprofd sends its name, once. */
static void count_foreign(const struct task_struct *task)
{
	__u32 tid = task->pid;
	__u8 seen = 1;

	COUNT(n_foreign, tid && task->tgid != target &&
				 !bpf_map_update_elem(&foreign, &tid, &seen, BPF_NOEXIST));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!counting || (prev->tgid != target && next->tgid != target))
		return 0;
	__sync_fetch_and_add(&n_switches, 1);
	count_foreign(prev);
	count_foreign(next);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	COUNT(n_wakes, task->tgid == target);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	COUNT(n_wakes, task->tgid == target);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	COUNT(n_threads, task->tgid == target);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	COUNT(n_threads, task->tgid == target);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	COUNT(n_threads, child->tgid == target);
	return 0;
}
