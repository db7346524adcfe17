/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the targets' threads execute: a clock of each CPU interrupts whatever runs there, and if
 * that is a thread of a target, its stack is sent. Other processes pay for the interrupt and the
 * look at the targets.
 */
#include "bpf/common.bpf.h"
#include "bpf/executed.bpf.h"
#include "bpf/interpreter.bpf.h"

/* A target can be made to enter any function of the kernel, but from few places of it. */
#define KERNEL_NAMES_MAX 8192

struct stack_sample {
	struct record_stack record;
	__u64 frames[RECORD_USER_FRAMES + RECORD_KERNEL_FRAMES + SCRIPT_FOUND];
	/* As the kernel has them. */
	__u64 kernel[RECORD_KERNEL_FRAMES];
};

/* Where a record is made: its size is known only then. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_sample);
} samples SEC(".maps");

/* The numbers of the kernel's addresses whose names were sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KERNEL_NAMES_MAX);
	__type(key, __u64);
	__type(value, __u32);
} kernel_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} kernel_count SEC(".maps");

static const char symbol_format[] = "%ps";

#define OUTPUT(n)                                                                                  \
	case n:                                                                                    \
		return bpf_ringbuf_output(&ring_##n, data, size, BPF_RB_NO_WAKEUP);

/* As ring_reserve(), for a size that is not constant. */
static __always_inline long ring_output(__u64 group, void *data, __u64 size)
{
	if (group >= n_rings)
		return -1;
	asm volatile("" : "+r"(group));
	switch (group) {
		EACH_RING(OUTPUT)
	default:
		return -1;
	}
}

/* As record_reserve() and record_submit(). */
static __always_inline void record_output(__u32 cpu, void *data, __u64 size)
{
	long r = ring_output(cpu / (cpus_per_ring ?: 1), data, size);

	if (r < 0 && spare_is_open())
		r = bpf_ringbuf_output(&spare_ring, data, size, BPF_RB_NO_WAKEUP);
	if (r < 0)
		COUNT(cpu, ring_full);
	else
		COUNT(cpu, records);
}

#include "bpf/stack_copy.bpf.h"

/* The number of the function of the kernel at an address, whose name is sent the first time. 0:
 * there is no room for it. */
__weak ENTRY number_of(__u64 address, __u64 now)
{
	__u32 zero = 0, number, *known = bpf_map_lookup_elem(&kernel_names, &address), *count;
	struct record_kernel_name *r;

	if (known)
		return *known;
	count = bpf_map_lookup_elem(&kernel_count, &zero);
	if (!count || *count >= KERNEL_NAMES_MAX)
		return 0;
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	number = __sync_fetch_and_add(count, 1) + 1;
	record_head(&r->head, now, bpf_get_current_pid_tgid(), RECORD_KERNEL_NAME, sizeof(*r));
	r->number = number;
	r->reserved = 0;
	__builtin_memset(r->name, 0, sizeof(r->name));
	bpf_snprintf(r->name, sizeof(r->name), symbol_format, &address, sizeof(address));
	record_submit(r);
	/* Another CPU may have sent it, too: it then has two numbers. */
	bpf_map_update_elem(&kernel_names, &address, &number, BPF_ANY);
	return number;
}

static __always_inline struct stack_sample *sample_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&samples, &zero);
}

/* Puts the numbers of the sample's frames in the kernel behind those of the user. */
ENTRY sample_kernel_frames(__u32 n_user, __u32 n_kernel, __u64 now)
{
	struct stack_sample *s = sample_get();

	for (__u32 i = 0; s && i < RECORD_KERNEL_FRAMES; i++) {
		__u32 at = n_user + i;

		/* The limit must apply to the value that is used. */
		asm volatile("" : "+r"(at));
		if (i >= n_kernel || at >= RECORD_USER_FRAMES + RECORD_KERNEL_FRAMES)
			break;
		s->frames[at] = (__u32)number_of(s->kernel[i], now);
	}
	return 0;
}

/* With so many frames. */
ENTRY sample_output(__u32 cpu, __u32 n)
{
	struct stack_sample *s = sample_get();

	if (s && n <= sizeof(s->frames) / sizeof(s->frames[0]))
		record_output(cpu, s, sizeof(s->record) + n * sizeof(s->frames[0]));
	return 0;
}

static __always_inline __u32 frames_of(long bytes, __u32 max)
{
	__u32 n = bytes > 0 ? (__u32)bytes / sizeof(__u64) : 0;

	return n < max ? n : max;
}

static __always_inline int sample(struct bpf_perf_event_data *ctx, bool with_scripts)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task;
	__u32 cpu, n_user, n_kernel, n_script = 0;
	struct stack_sample *s;
	int target;

	if (!window_open(now))
		return 0;
	task = bpf_get_current_task_btf();
	target = target_index(task);
	if (target < 0)
		return 0;
	s = sample_get();
	if (!s)
		return 0;
	cpu = bpf_get_smp_processor_id();
	n_user = frames_of(
		bpf_get_stack(ctx, s->frames, RECORD_USER_FRAMES * sizeof(__u64), BPF_F_USER_STACK),
		RECORD_USER_FRAMES);
	n_kernel = frames_of(bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0),
			     RECORD_KERNEL_FRAMES);
	sample_kernel_frames(n_user, n_kernel, now);
	if (!has_executed(target, task->tgid))
		send_stack_copy(cpu, n_kernel > 0, now);
	s->record.script = 0;
	if (with_scripts)
		n_script = scripts_append((__u32)target, now, &s->frames[n_user + n_kernel],
					  &s->record.script);
	record_head(&s->record.head, now, task->pid, RECORD_STACK,
		    sizeof(s->record) + (__u64)(n_user + n_kernel + n_script) * sizeof(__u64));
	s->record.head.target = target;
	s->record.n_user = n_user;
	s->record.n_kernel = n_kernel;
	s->record.cpu = cpu;
	return sample_output(cpu, n_user + n_kernel + n_script);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	return sample(ctx, false);
}

/* The same, with the frames of interpreters. */
SEC("?perf_event")
int on_sample_scripts(struct bpf_perf_event_data *ctx)
{
	return sample(ctx, true);
}
