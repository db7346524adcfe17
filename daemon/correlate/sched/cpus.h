/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads recently had each CPU: what a thread that waited for the CPU waited for. Pure; the
 * last stints of each CPU are kept. */
#pragma once

#include <stdint.h>

/* Of one CPU; a wait that is longer than these is judged by its end. */
#define CPU_STINTS 32

struct cpu_stints;

/* Zeros at first. */
struct cpus {
	struct cpu_stints **stints; /* by CPU, NULL: none seen */
	uint32_t n;
};

#define CPU_HAD_UNKNOWN UINT64_MAX

/*
 * At that time (ns) the CPU switched from one thread to another (ids, 0: idle). had: for how long
 * the one that leaves had the CPU (ns); more than the time since the last switch: unknown.
 *
 * If the thread that leaves is not the one that the CPU was last given to, or did not have it all
 * the time, unseen threads ran in between. The time before it had the CPU counts for the thread
 * that was given the CPU; if the wait began within that time, only if that thread recently had the
 * CPU for as long, otherwise for no thread. If had is unknown, half of the time counts for each of
 * the two; if the wait began within it, all of it for the thread that leaves, or if that was long
 * ago, for the one that had the CPU for longer recently. -ENOMEM.
 */
int cpus_switch(struct cpus *c, uint16_t cpu, uint64_t now, uint32_t from, uint32_t to,
		uint64_t had);
/* When the CPU last switched, 0: unknown. */
uint64_t cpus_switched_ns(const struct cpus *c, uint16_t cpu);
/* The thread that had the CPU for most of the time from start to end (ns); 0: idle, or unknown.
 * Only until the CPU's last switch. */
uint32_t cpus_longest(const struct cpus *c, uint16_t cpu, uint64_t start, uint64_t end);
void cpus_done(struct cpus *c);
