/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which targets have executed another program since the capture knows them: it can have another
 * user's rights, of which the broker has not heard yet. */
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u32); /* its process id */
} executed SEC(".maps") __weak;

static __always_inline void executed_note(__u32 target, __u32 pid)
{
	__u32 *known = bpf_map_lookup_elem(&executed, &target);

	if (known)
		*known = pid;
}

static __always_inline bool has_executed(__u32 target, __u32 pid)
{
	__u32 *known = bpf_map_lookup_elem(&executed, &target);

	return !known || *known == pid;
}
