/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by every program: the control words, the rings, the counters, and the making of
 * records. */
#pragma once

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "include/record.h"

/* A function that is verified on its own, once. It does not assume that its pointers are valid.
 * Weak: where program files share one, the linker takes one of them. */
#define ENTRY __weak __attribute__((noinline)) int

/*
 * Read-only for the programs; user space maps it and writes the window and the layouts. Weak, like
 * the other shared maps: each program file declares them and the linker makes one of each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_control);
} control SEC(".maps") __weak;

/* Not mapped by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_targets);
} targets SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RECORD_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct record_counters);
} counters SEC(".maps") __weak;

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/*
 * A ring per CPU group. Not a map of maps, whose every update waits for an RCU grace period; rings
 * that are not needed are not created, and the verifier drops the code for them.
 */
struct ring ring_0 SEC(".maps") __weak;
struct ring ring_1 SEC(".maps") __weak;
struct ring ring_2 SEC(".maps") __weak;
struct ring ring_3 SEC(".maps") __weak;
struct ring ring_4 SEC(".maps") __weak;
struct ring ring_5 SEC(".maps") __weak;
struct ring ring_6 SEC(".maps") __weak;
struct ring ring_7 SEC(".maps") __weak;
/* For targets that did not fill those. */
struct ring spare_ring SEC(".maps") __weak;

/* Records that found no room in their ring, by target. */
struct refusals {
	__u64 all;
	__u64 of[RECORD_MAX_TARGETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct refusals);
} refusals SEC(".maps") __weak;

/* cpu / cpus_per_ring is the CPU's group; set before load. */
extern const volatile __u32 cpus_per_ring, n_rings;

/* A case for each group of CPUs. */
#define EACH_RING(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define RESERVE(n)                                                                                 \
	case n:                                                                                    \
		return bpf_ringbuf_reserve(&ring_##n, size, 0);

static __noinline void *ring_reserve(__u64 group, __u64 size)
{
	if (group >= n_rings)
		return NULL;
	/* The limit above must apply to the value that is switched on. */
	asm volatile("" : "+r"(group));
	switch (group) {
		EACH_RING(RESERVE)
	default:
		return NULL;
	}
}

_Static_assert(RECORD_CPU_RINGS == 8, "rings");

static __always_inline struct record_control *control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* The control words if the window is open at that time, else NULL. */
static __always_inline struct record_control *window_open(__u64 now)
{
	struct record_control *c = control_get();

	if (!c || now < c->window_start || now >= c->window_stop)
		return NULL;
	return c;
}

static __always_inline const struct record_targets *targets_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&targets, &zero);
}

/*
 * Whether the thread's process had started by then. A thread that is ending may have outlived its
 * process's first thread, whose memory is then gone: its own start is looked at before. Pointers in
 * a task are followed by reads: the verifier takes milliseconds for each one that it follows
 * itself.
 */
static __always_inline bool had_started(const struct task_struct *task, __u64 time)
{
	return task->start_time <= time || BPF_CORE_READ(task, group_leader, start_time) <= time;
}

/* The index of the thread's process among the targets, -1: it is none. */
static __always_inline int target_index(const struct task_struct *task)
{
	const struct record_targets *t = targets_get();
	__u32 pid = task->tgid;

	if (!t)
		return -1;
	for (int i = 0; i < RECORD_MAX_TARGETS; i++) {
		if (i >= t->n)
			return -1;
		if (t->pids[i] == pid)
			return had_started(task, t->alive_ns[i]) ? i : -1;
	}
	return -1;
}

static __always_inline bool is_target(const struct task_struct *task)
{
	return target_index(task) >= 0;
}

static __always_inline struct record_counters *counters_get(__u32 cpu)
{
	return bpf_map_lookup_elem(&counters, &cpu);
}

/* So many records of a target may find no room before its share of all of those counts. */
#define REFUSALS_FEW 256

/*
 * Whether a record of the current thread that found no room in its ring may be put into the spare
 * one: not if most of these are of its process, so that one target cannot take the records of the
 * others.
 */
ENTRY spare_is_open(void)
{
	int target = target_index(bpf_get_current_task_btf());
	struct refusals *r;
	__u32 zero = 0;
	__u64 all, own;

	r = bpf_map_lookup_elem(&refusals, &zero);
	if (!r || target < 0)
		return 0;
	all = __sync_fetch_and_add(&r->all, 1);
	own = __sync_fetch_and_add(&r->of[target % RECORD_MAX_TARGETS], 1);
	return own <= REFUSALS_FEW || own <= all / 4;
}

/* Whether a map had no room for an entry. */
static __always_inline bool is_full(long error)
{
	return error == -7 /* E2BIG */ || error == -12 /* ENOMEM */;
}

/* Atomic: a program on a tracepoint can interrupt one on a probe. */
#define COUNT(cpu, field)                                                                          \
	do {                                                                                       \
		struct record_counters *count_ = counters_get(cpu);                                \
		if (count_)                                                                        \
			__sync_fetch_and_add(&count_->field, 1);                                   \
	} while (0)

/*
 * Room for one record in the ring of this CPU's group; if there is none, NULL, and it is counted.
 * It is compared with NULL once, here: at a second comparison, verifiers before 6.2 assume again
 * that it may be NULL, and then consider it unreleased.
 */
static __always_inline void *record_reserve(__u32 cpu, __u64 size)
{
	void *r = ring_reserve(cpu / (cpus_per_ring ?: 1), size);
	struct record_counters *n = counters_get(cpu);

	if (!r && spare_is_open())
		r = bpf_ringbuf_reserve(&spare_ring, size, 0);
	if (!r) {
		if (n)
			__sync_fetch_and_add(&n->ring_full, 1);
		/* Keeps the compiler from merging the two branches. */
		asm volatile("");
		return NULL;
	}
	if (n)
		__sync_fetch_and_add(&n->records, 1);
	return r;
}

/* User space drains on a timer: waking it for each record would cost 15 times as much as the
 * record. */
static __always_inline void record_submit(void *r)
{
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void record_head(struct record *head, __u64 now, __u32 tid, __u8 kind,
					__u64 size)
{
	head->time = now;
	head->tid = tid;
	head->kind = kind;
	head->site = 0;
	head->size8 = size <= 255 * 8 ? size / 8 : 0;
	head->target = 0;
}
