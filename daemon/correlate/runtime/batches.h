/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs' work was processed together. A batch is an object; its key is target_key() of its
 * address. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

/* The thread adds its run's, or its handler's, work to a batch. */
void batches_enqueue(struct correlator *c, const struct entry *e);
void batches_open(struct correlator *c, const struct entry *e);
/* The batch has so many rows. */
void batches_point(struct correlator *c, const struct entry *e);
/* The object goes: it was processed, if this thread began that. */
void batches_close(struct correlator *c, const struct entry *e);
/* All spans have their ends: puts batches and tasks in order. -ENOMEM. */
int batches_finish(struct correlator *c);
void batches_done(struct batch_list *list);
