/* SPDX-License-Identifier: Apache-2.0 */
/* Who had each CPU lately: what a thread that waited for one waited for. Pure; the last stints of
 * each CPU are kept. */
#pragma once

#include <stdint.h>

/* Of one CPU; a wait that is longer than they are is judged by its end. */
#define CPU_STINTS 32

struct cpu_stints;

/* Zeros: nothing is known. */
struct cpus {
	struct cpu_stints **stints; /* by CPU, NULL: none seen */
	uint32_t n;
};

/*
 * At that time (ns) the CPU went from one thread to another (ids, 0: idle). When the one that had
 * it before is not the one that it was given to, others came in between unseen, and half of that
 * time is counted for each of the two, or all of it for the one that left it when the wait began in
 * between. -ENOMEM.
 */
int cpus_switch(struct cpus *c, uint16_t cpu, uint64_t now, uint32_t from, uint32_t to);
/* Who had the CPU for the most of the time between the two (ns); 0: idle, or not known. Until the
 * CPU's last switch. */
uint32_t cpus_longest(const struct cpus *c, uint16_t cpu, uint64_t start, uint64_t end);
void cpus_done(struct cpus *c);
