/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that do not run because their cgroup has used up its quota of CPU time, and that cgroup.
 */
#pragma once

#include "bpf/common.bpf.h"

#define QUOTAS_MAX 1024
/* Cgroups within cgroups that are searched for the one with the quota. */
#define GROUPS_MAX 16
/* linux/sched/prio.h: a thread with a lower number has no quota. */
#define MAX_RT_PRIO 100

struct quota {
	__u64 quota_ns, period_ns;
};

/* What was sent of a cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, QUOTAS_MAX);
	__type(key, __u32);
	__type(value, struct quota);
} quotas SEC(".maps");

/* Before 6.15 the field had another name. */
struct kernfs_node___old {
	struct kernfs_node *parent;
} __attribute__((preserve_access_index));

/* The compiler cannot describe this field where it is in the kernel's own struct. */
struct cfs_rq___throttled {
	unsigned int throttled : 1;
} __attribute__((preserve_access_index));

static __always_inline struct kernfs_node *node_parent(struct kernfs_node *node)
{
	if (bpf_core_field_exists(node->__parent))
		return BPF_CORE_READ(node, __parent);
	return BPF_CORE_READ((struct kernfs_node___old *)node, parent);
}

/* Before 6.18 a cgroup without quota leaves the CPU as a whole, with all of its threads. */
static __always_inline bool group_is_throttled(const struct task_struct *task)
{
	if (!bpf_core_field_exists(struct cfs_rq, throttle_count) || task->prio < MAX_RT_PRIO)
		return false;
	return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

/* Whether a thread that leaves its CPU without having to wait for anything else is throttled. */
static __always_inline bool leaves_throttled(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	return group_is_throttled(task);
}

/*
 * Whether a thread that is woken will be throttled at once. Since 6.18 it runs before: until it
 * returns to user space. Here its CPU is not chosen yet; this is about the one that it had.
 */
static __always_inline bool wakes_throttled(const struct task_struct *task)
{
	return !bpf_core_field_exists(task->throttled) && group_is_throttled(task);
}

/* The cgroup, the innermost one, that has no quota left on the thread's CPU; NULL: none has. */
static __always_inline struct task_group *find_throttled(struct task_struct *task)
{
	struct sched_entity *entity = &task->se;

	for (int i = 0; i < GROUPS_MAX; i++) {
		struct cfs_rq *queue = BPF_CORE_READ(entity, cfs_rq);

		if (!queue)
			return NULL;
		if (BPF_CORE_READ_BITFIELD_PROBED((struct cfs_rq___throttled *)queue, throttled))
			return BPF_CORE_READ(queue, tg);
		entity = BPF_CORE_READ(entity, parent);
		if (!entity)
			return NULL;
	}
	return NULL;
}

static __always_inline bool send_quota(__u64 now, __u32 cgroup, const struct quota *quota,
				       struct kernfs_node *node)
{
	struct record_quota *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return false;
	record_head(&r->head, now, 0, RECORD_QUOTA, sizeof(*r));
	r->cgroup = cgroup;
	r->quota_ns = quota->quota_ns;
	r->period_ns = quota->period_ns;
	__builtin_memset(r->names, 0, sizeof(r->names));
	for (int i = 0; i < RECORD_CGROUP_NAMES && node; i++) {
		bpf_probe_read_kernel_str(r->names[i], sizeof(r->names[i]),
					  BPF_CORE_READ(node, name));
		node = node_parent(node);
	}
	r->is_deeper = node != NULL;
	record_submit(r);
	return true;
}

/* The number of the cgroup whose quota the current thread waits for, 0: unknown. Its name and its
 * quota are sent once, and again if the quota has changed. */
__weak ENTRY awaited_cgroup(__u64 now)
{
	struct task_group *group;
	struct kernfs_node *node;
	struct quota quota, *sent;
	__u32 cgroup;

	if (!bpf_core_field_exists(struct cfs_rq, throttle_count))
		return 0;
	group = find_throttled(bpf_get_current_task_btf());
	node = group ? BPF_CORE_READ(group, css.cgroup, kn) : NULL;
	if (!node)
		return 0;
	cgroup = (__u32)BPF_CORE_READ(node, id);
	quota.quota_ns = BPF_CORE_READ(group, cfs_bandwidth.quota);
	quota.period_ns = BPF_CORE_READ(group, cfs_bandwidth.period);
	sent = bpf_map_lookup_elem(&quotas, &cgroup);
	if (sent && sent->quota_ns == quota.quota_ns && sent->period_ns == quota.period_ns)
		return (int)cgroup;
	if (send_quota(now, cgroup, &quota, node))
		bpf_map_update_elem(&quotas, &cgroup, &quota, BPF_ANY);
	return (int)cgroup;
}
