/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* When the targets' threads run, why they leave the CPU, what wakes them, and when they start and
 * end. */
#include "bpf/common.bpf.h"
#include "bpf/executed.bpf.h"
#include "bpf/quota.bpf.h"

#define FOREIGN_MAX 4096

/* linux/sched.h */
#define PF_KTHREAD 0x00200000

/* linux/sched/prio.h: real-time threads have lower ones. */
#define MAX_RT_PRIO 100

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
	/* It has been counted out by then. */
	bool others = kind == RECORD_EXIT && BPF_CORE_READ(task, signal, live.counter) > 0;
	struct record_thread *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, now, task->pid, kind, sizeof(*r));
	r->pid = task->tgid;
	r->exit = kind != RECORD_EXIT ? EXIT_UNKNOWN : others ? EXIT_OTHERS_LIVE : EXIT_LAST;
	bpf_probe_read_kernel_str(r->comm, sizeof(r->comm), task->comm);
	record_submit(r);
}

/*
 * Whether a thread is shown to the client, to whom that thread of a target is shown: it is of the
 * same user. A program that a user runs with the rights of another one is not the user's; what
 * counts of the target is who runs it.
 */
static __always_inline bool is_shown(const struct task_struct *task,
				     const struct task_struct *target)
{
	const struct record_targets *t = targets_get();
	const struct cred *owner;
	__u32 user;

	if ((t && t->shows_all_users) || task->flags & PF_KTHREAD || task->tgid == target->tgid)
		return true;
	user = BPF_CORE_READ(target, real_cred, uid.val);
	owner = BPF_CORE_READ(task, real_cred);
	return BPF_CORE_READ(owner, uid.val) == user && BPF_CORE_READ(owner, euid.val) == user &&
	       BPF_CORE_READ(owner, suid.val) == user;
}

/* For how long the thread that leaves its CPU had it; UINT64_MAX: unknown. Only the fair scheduler
 * notes when a thread got its CPU. */
static __always_inline __u64 had_cpu_for(const struct task_struct *task)
{
	if (task->prio < MAX_RT_PRIO)
		return ~0ULL;
	return task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

/* The id of the thread that has the CPU which a target's thread wants or left. Its name is sent
 * once; threads beyond the table stay nameless. */
static __always_inline __u32 introduce(struct task_struct *task, const struct task_struct *target,
				       __u64 now)
{
	__u32 tid = task->pid;
	__u8 seen = 1;

	if (!tid)
		return 0;
	if (!is_shown(task, target))
		return RECORD_TID_OTHER_USER;
	if (!bpf_map_lookup_elem(&foreign, &tid) &&
	    !bpf_map_update_elem(&foreign, &tid, &seen, BPF_NOEXIST))
		send_thread(task, RECORD_FOREIGN, now);
	return tid;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id(), flags = 0, from = prev->pid, to = next->pid;
	__u32 state = 0;
	struct record_switch *r;

	if (!window_open(now))
		return 0;
	if (is_target(prev))
		flags |= SWITCH_OUT;
	if (is_target(next))
		flags |= SWITCH_IN;
	if (!flags)
		return 0;
	if (!(flags & SWITCH_OUT))
		from = introduce(prev, next, now);
	if (!(flags & SWITCH_IN))
		to = introduce(next, prev, now);
	if (flags & SWITCH_OUT) {
		state = task_state(prev);
		if (preempt || !state)
			flags |= SWITCH_PREEMPTED;
		if (flags & SWITCH_PREEMPTED && leaves_throttled(prev)) {
			flags |= SWITCH_THROTTLED;
			state = awaited_cgroup(now);
		}
	}
	r = record_reserve(cpu, sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, now, from, RECORD_SWITCH, sizeof(*r));
	r->next_tid = to;
	r->cpu = cpu;
	r->flags = flags;
	if (flags & SWITCH_OUT) {
		r->state = state;
		r->syscall = syscall_of(prev);
	} else {
		r->had_ns = from == RECORD_TID_OTHER_USER ? ~0ULL : had_cpu_for(prev);
	}
	record_submit(r);
	return 0;
}

static __always_inline int on_wake(struct task_struct *task)
{
	struct task_struct *self = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	struct record_wake *r;
	bool shown;

	if (!window_open(now) || !is_target(task))
		return 0;
	shown = is_shown(self, task) || is_target(self);
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	/* The waker may be an interrupt that arrived while this thread ran: its system call lets
	 * user space distinguish. */
	record_head(&r->head, now, task->pid, RECORD_WAKE, sizeof(*r));
	if (wakes_throttled(task))
		r->head.site = WAKE_THROTTLED;
	r->waker_tid = shown ? self->pid : 0;
	r->waker_syscall = shown && self->pid ? syscall_of(self) : NO_SYSCALL;
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

	if (window_open(now) && is_target(task))
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
	int target = target_index(task);

	if (target >= 0)
		executed_note(target, task->tgid);
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

	if (task && is_target(task))
		send_thread(task, RECORD_THREAD, bpf_ktime_get_ns());
	return 0;
}
