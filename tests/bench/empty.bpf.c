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

__u64 n_probes, n_switches, n_wakes, n_threads;

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

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	COUNT(n_switches, prev->tgid == target || next->tgid == target);
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
