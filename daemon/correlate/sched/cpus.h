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

/*
 * At that time (ns) the CPU switched from one thread to another (ids, 0: idle). If the thread that
 * leaves is not the one that the CPU was last given to, unseen threads ran in between: half of that
 * time is counted for each of the two; if the wait began in between, all of it for the thread
 * that leaves, or if that was long ago, for the one that had the CPU for longer recently. -ENOMEM.
 */
int cpus_switch(struct cpus *c, uint16_t cpu, uint64_t now, uint32_t from, uint32_t to);
/* The thread that had the CPU for most of the time from start to end (ns); 0: idle, or unknown.
 * Only until the CPU's last switch. */
uint32_t cpus_longest(const struct cpus *c, uint16_t cpu, uint64_t start, uint64_t end);
void cpus_done(struct cpus *c);
