/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In place of bpf/common.bpf.h: the readers of bpf/http as code of a process. Memory of the target
 * is the fuzzer's buffer, records go to a function of the fuzzer, and there is one connection.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "include/record_types.h"

#define SEC(name)
#define ENTRY static __attribute__((unused, noinline)) int
#define __uint(name, number) int name
#define __type(name, type) type *name
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Of the fuzzer. */
void *native_reserve(size_t size);
void native_submit(void *record);
long native_read(void *to, size_t size, const void *from);

#define BPF_MAP_TYPE_PERCPU_ARRAY 0
#define __weak
#define bpf_probe_read_user(to, size, from) native_read(to, size, from)
#define bpf_get_smp_processor_id() 0

static inline void *record_reserve(__u32 cpu, __u64 size)
{
	return native_reserve(size);
}

static inline void record_submit(void *record)
{
	native_submit(record);
}

static inline void record_head(struct record *head, __u64 now, __u32 tid, __u8 kind, __u64 size)
{
	*head = (struct record){ .time = now, .tid = tid, .kind = kind, .size8 = (__u8)(size / 8) };
}
