/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs' work was processed together. A batch is an object; its key is target_key() of its
 * address. */
#pragma once

#include "daemon/correlate/correlator.h"

/* A task of the run, or handler, with that context (0: not known) goes into the batch. */
void batches_add(struct correlator *c, uint64_t key, uint64_t time, uint64_t run);
/* Its processing is that span from now on; a number for what follows. BATCH_NONE: no room. */
uint32_t batches_begin(struct correlator *c, uint64_t key, uint64_t span);
/* batches.c: which runs' work was processed together. A batch is an object; its key is target_key()
 * of its address. */
void batches_size(struct correlator *c, uint32_t batch, uint64_t rows);
void batches_padded(struct correlator *c, uint64_t key, uint64_t rows);
/* The object goes. The number of a batch that was processed, but not seen to begin, to be given its
 * span; else BATCH_NONE. */
uint32_t batches_end(struct correlator *c, uint64_t key);
void batches_set_span(struct correlator *c, uint32_t batch, uint64_t span);
/* All spans have their ends: puts batches and tasks in order. -ENOMEM. */
int batches_finish(struct correlator *c);
void batches_done(struct batch_list *list);
