/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a timeline, by their ids, and what the parts know of each while records are read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/runtime/frames.h"
#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/switches.h"
#include "daemon/correlate/sched/threads.h"
#include "lib/base/map.h"

struct correlator;

/* Each with the files that use it. */
struct thread_state {
	struct frames frames;         /* runtime/nesting.c and the kinds of work */
	bool maybe_idle;              /* runtime/nesting.c: since its last record */
	uint64_t run_closed;          /* runtime/runs.c: when a run last ended here; 0: none */
	struct run_switch run_switch; /* runtime/switches.c */
	bool handled;                 /* runtime/handlers.c: a handler began or ended here */
	struct thread_labels labels;  /* runtime/labels.c */
	struct allocation allocation; /* runtime/memory.c */
	struct thread_cpu cpu;        /* sched/threads.c */
	uint64_t passed_ns;           /* http/connections.c: a call of it at a socket ended */
};

struct thread_table {
	struct map of_tid;
	struct thread_state *states; /* beside the timeline's threads */
	uint32_t n, size;
	uint32_t frames_room; /* runtime/frames.c */
};

void thread_table_init(struct thread_table *table);
/* Whether a record can be shown: its threads are known, or there is room for them. A target can
 * make any number of threads. */
bool thread_table_takes(const struct correlator *c, const struct record *record);
/* Whether the thread with this id is known, or has room. */
bool thread_table_has_room(const struct correlator *c, uint32_t tid);
/* For how many more frames of all threads memory may be allocated. */
uint32_t *thread_table_frames_room(struct correlator *c);
/* The thread has ended: what is kept of it takes less memory. */
void thread_table_ended(struct correlator *c, uint32_t thread);

/* The index of the thread with this id, which is made when it is new. Without memory the correlator
 * fails. */
uint32_t thread_table_get(struct correlator *c, uint32_t tid);
/* The index of the thread with this id; THREAD_NONE: it was not seen yet. */
uint32_t thread_table_find(const struct correlator *c, uint32_t tid);
void thread_table_done(struct thread_table *table);
