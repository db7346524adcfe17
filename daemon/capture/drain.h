/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the records of a capture's BPF programs from the rings, puts them in order of time, passes
 * them to sinks, and counts lost ones. Belongs to the capture's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/unwind/unwinder.h"
#include "daemon/record/sink.h"
#include "include/record_types.h"

struct drain;

/* Called for each record as it is read, before it is put in order. */
typedef int (*drain_seen_fn)(const struct record *record, void *data);

/* counters and rings are descriptors of maps, which may be closed afterwards; the last ring is the
 * spare one. The proxy, which is borrowed, gives the unwind rows of code in stacks. -EBADMSG: too
 * many rings; -ENOMEM, and others of mmap(2). */
int drain_new(int counters, const int *rings, unsigned n_rings, const struct record_sinks *sinks,
	      drain_seen_fn seen, void *data, struct proxy *proxy, struct drain **ret);
struct drain *drain_free(struct drain *d);
/* Stacks of that target are those of a process. */
void drain_set_target(struct drain *d, unsigned target, pid_t pid);
/* The window is open: from now on a loss belongs to the capture. */
void drain_begin(struct drain *d);
/* Reads the rings, and passes on records that no earlier one can follow any more. Returns the first
 * error of the sinks. */
int drain_read(struct drain *d);
/* Whether the rings are empty, and no stack waits for unwind rows; or only one does. */
bool drain_is_empty(const struct drain *d);
bool drain_is_waiting(const struct drain *d);
/* Until now, or until drain_finish(). */
void drain_count_stacks(const struct drain *d, struct unwinder_counts *ret);
/* Passes on everything that is left, and frees what is not needed for counting. As drain_read(). */
int drain_finish(struct drain *d);
/* Every record before that time was passed on, unless it was late. */
uint64_t drain_settled_ns(const struct drain *d);

struct drain_counts {
	uint64_t records; /* read */
	uint64_t dropped; /* not read or not kept, for any cause */
	uint64_t ring_full, refused, malformed, unread;
	/* Records that a program would have made that the kernel skipped, at most: it may have been
	 * skipped for a process that is no target. Of the session, 0 before its end. */
	uint64_t skipped;
	uint64_t late; /* not lost, but not in order of time */
	uint64_t table_full, read_failed, flows_full;
};
void drain_count(const struct drain *d, struct drain_counts *ret);
