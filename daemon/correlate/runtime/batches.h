/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs' work was processed together. A batch is an object; its key is target_key() of its
 * address. */
#pragma once

#include <stdint.h>

#include "daemon/correlate/spans.h"
#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct batches {
	struct map
		at; /* by address and target: the current batch there, BATCH_NONE: it has ended */
	struct batch_state *states; /* beside the timeline's */
	struct map handed_at;       /* index into handed, by address and target of the task */
	struct handed_task *handed;
	uint64_t size, states_size, tasks_size, handed_size;
	uint32_t n_handed;
	struct shares handed_shares;
	uint64_t n_left_out; /* tasks for which there was no room */
};

/* The thread adds its run's, or its handler's, work to a batch. */
void batches_enqueue(struct correlator *c, const struct entry *e);
/* The thread takes up such work, for the batch that it will open. */
void batches_dequeue(struct correlator *c, const struct entry *e);
/* The task is destroyed: another one may have its address. */
void batches_free(struct correlator *c, const struct entry *e);
void batches_open(struct correlator *c, const struct entry *e);
/* The size of the batch, in rows, is known. */
void batches_point(struct correlator *c, const struct entry *e);
/* The object is destroyed: if this thread processed the batch, that has ended. */
void batches_close(struct correlator *c, const struct entry *e);
/* All spans have their ends: puts batches and tasks in order. -ENOMEM. */
int batches_finish(struct correlator *c);
void batches_done(struct batches *b);
