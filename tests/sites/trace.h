/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches a BPF program to places of one file in one process, all at once. */
#pragma once

#include <linux/types.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/sites/hit.h"

struct trace;

/*
 * Loads the programs. call_address: where the process to be probed has the number of its call.
 * Errors: what libbpf and mmap return.
 */
int trace_new(const uint64_t *call_address, struct trace **ret);
struct trace *trace_free(struct trace *trace);

/*
 * Attaches to count places, by their offsets in the file behind fd, in the process pid. With
 * cookies each hit is noted, without only counted. Where the kernel has no links of many it takes a
 * perf event for each. 0, or what bpf(2) or perf_event_open(2) return.
 */
int trace_attach(struct trace *trace, pid_t pid, int fd, const uint64_t *offsets,
		 const uint64_t *cookies, unsigned count);

/* Detaches all that was attached. */
void trace_detach(struct trace *trace);

/* How many hits were to be noted, of which HITS_MAX at most were, and forgets them; the notes stay
 * until the next come. */
uint64_t trace_take_hits(struct trace *trace, const struct hit **ret);
/* How many were counted. */
uint64_t trace_counted(const struct trace *trace);
