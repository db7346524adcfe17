/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* When the targets' threads run, why they leave the CPU, what wakes them, and when they start and
 * end. */
#include "bpf/common.bpf.h"

#define FOREIGN_MAX 4096

/* Threads of other processes whose names were sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FOREIGN_MAX);
	__type(key, __u32);
	__type(value, __u8);
} foreign SEC(".maps");

/* Before 5.14 the field had another name. */
struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

/* Not a system call number. */
#define NO_SYSCALL -1

static __always_inline __u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((struct task_struct___old *)task, state);
}

/* The system call that a thread is in. */
static __always_inline __s32 syscall_of(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return (__s32)BPF_CORE_READ(regs, orig_ax);
}

static __always_inline void send_thread(struct task_struct *task, __u8 kind, __u64 now)
{
	struct record_thread *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, now, task->pid, kind, sizeof(*r));
	r->pid = task->tgid;
	r->reserved = 0;
	bpf_probe_read_kernel_str(r->comm, sizeof(r->comm), task->comm);
	record_submit(r);
}

/* Sends the name of the thread that has the CPU which a target's thread wants or left; those beyond
 * the table stay nameless. */
static __always_inline void introduce(struct task_struct *task, __u64 now)
{
	__u32 tid = task->pid;
	__u8 seen = 1;

	if (!tid || bpf_map_lookup_elem(&foreign, &tid) ||
	    bpf_map_update_elem(&foreign, &tid, &seen, BPF_NOEXIST))
		return;
	send_thread(task, RECORD_FOREIGN, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id(), flags = 0;
	struct record_switch *r;

	if (!window_open(now))
		return 0;
	if (is_target(prev->tgid))
		flags |= SWITCH_OUT;
	if (is_target(next->tgid))
		flags |= SWITCH_IN;
	if (!flags)
		return 0;
	if (!(flags & SWITCH_OUT))
		introduce(prev, now);
	if (!(flags & SWITCH_IN))
		introduce(next, now);
	r = record_reserve(cpu, sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, now, prev->pid, RECORD_SWITCH, sizeof(*r));
	r->next_tid = next->pid;
	r->cpu = cpu;
	r->state = task_state(prev);
	r->syscall = NO_SYSCALL;
	if (preempt || !r->state)
		flags |= SWITCH_PREEMPTED;
	if (flags & SWITCH_OUT)
		r->syscall = syscall_of(prev);
	r->flags = flags;
	record_submit(r);
	return 0;
}

static __always_inline int on_wake(struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns(), self;
	struct record_wake *r;

	if (!window_open(now) || !is_target(task->tgid))
		return 0;
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	/* The waker may be an interrupt that arrived while this thread ran: its system call lets
	 * user space distinguish. */
	self = bpf_get_current_pid_tgid();
	record_head(&r->head, now, task->pid, RECORD_WAKE, sizeof(*r));
	r->waker_tid = (__u32)self;
	r->waker_syscall = self ? syscall_of(bpf_get_current_task_btf()) : NO_SYSCALL;
	record_submit(r);
	return 0;
}

/* In the waker's context, before the woken thread is put on a run queue. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	return on_wake(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return on_wake(task);
}

static __always_inline int on_task(struct task_struct *task, __u8 kind)
{
	__u64 now = bpf_ktime_get_ns();

	if (window_open(now) && is_target(task->tgid))
		send_thread(task, kind, now);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	return on_task(task, RECORD_EXIT);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	return on_task(task, RECORD_EXEC);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	return on_task(child, RECORD_FORK);
}

/* Run by user space when the window has closed: names of the threads that are alive. */
SEC("iter/task")
int name_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && is_target(task->tgid))
		send_thread(task, RECORD_THREAD, bpf_ktime_get_ns());
	return 0;
}
