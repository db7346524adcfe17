/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of the scheduler: when threads had a CPU, what woke them, when they began and ended.
 * Included by record.h, of whose words these are a part.
 */
#pragma once

enum record_switch_flag {
	/* .head.tid belongs to a target and left the CPU. */
	SWITCH_OUT = 1 << 0,
	/* .next_tid belongs to a target and got the CPU. */
	SWITCH_IN = 1 << 1,
	/* It is a target's, and was preempted. */
	SWITCH_PREEMPTED = 1 << 2,
	/* It is a target's, and is throttled: its cgroup has used up its quota. With
	 * SWITCH_PREEMPTED only. */
	SWITCH_THROTTLED = 1 << 3,
};

struct record_switch {
	struct record head; /* .tid: the thread that left */
	__u32 next_tid;
	__u16 cpu;
	__u16 flags;
	union {
		/* SWITCH_OUT: of the thread that left. */
		struct {
			union {
				/* TASK_* bits, 0 if runnable. */
				__u32 state;
				/* SWITCH_THROTTLED: .cgroup of a struct record_quota, 0: unknown.
				 */
				__u32 cgroup;
			};
			/* The system call that it was in, -1: none. */
			__s32 syscall;
		};
		/* Otherwise: for how long the thread that left had the CPU (ns). A value above the
		 * time since the CPU's last switch states nothing: so it is for another user's
		 * thread, and in older recordings. */
		__u64 had_ns;
	};
};

enum record_wake_flag {
	/* The cgroup of the thread that was woken had used up its quota. */
	WAKE_THROTTLED = 1 << 0,
};

struct record_wake {
	struct record head; /* .tid: the thread that was woken */
	/* The thread that ran there; 0: the idle task, or a thread that the client may not see. */
	__u32 waker_tid;
	/* The system call that it was in, -1: none. The waker can also be an interrupt that arrived
	 * while it ran. */
	__s32 waker_syscall;
};

/* Of a thread that ends: whether it is the last one of its process. */
enum record_exit {
	EXIT_UNKNOWN, /* in recordings of earlier versions */
	EXIT_OTHERS_LIVE,
	EXIT_LAST,
};

struct record_thread {
	struct record head;
	__u32 pid;
	__u32 exit; /* RECORD_EXIT: enum record_exit */
	char comm[RECORD_COMM_SIZE];
};

#define RECORD_CGROUP_NAMES 8
#define RECORD_CGROUP_NAME_SIZE 96

/* A cgroup, and how much CPU time its threads may use in each period. Sent before the first thread
 * waits for it, and again if it has changed. */
struct record_quota {
	struct record head; /* .tid: 0 */
	__u64 quota_ns, period_ns;
	/* A number for the cgroup; it can be reused after this one was removed. */
	__u32 cgroup;
	__u32 is_deeper; /* 1: there are more cgroups above those of .names */
	/* Its own name, that of its parent, and so on; each ends with a NUL and may be truncated;
	 * that of the root is empty. */
	char names[RECORD_CGROUP_NAMES][RECORD_CGROUP_NAME_SIZE];
};
