/* SPDX-License-Identifier: Apache-2.0 */
/* Finds spans by thread and time, and by the run that they are part of. Made once from a timeline
 * whose spans are sorted. */
#pragma once

#include "daemon/timeline/timeline.h"

#define INDEX_NONE UINT32_MAX

struct span_index;

/* Keeps pointing to the timeline, whose spans, batches and tasks must stay as they are. -ENOMEM,
 * -E2BIG: too many spans. */
int span_index_new(const struct timeline *t, struct span_index **ret);
struct span_index *span_index_free(struct span_index *x);
const struct timeline *span_index_timeline(const struct span_index *x);

/* Until when (ns) it is known whether threads ran. 0: it was not captured; UINT64_MAX: for the
 * whole window. */
uint64_t span_index_known_until(const struct span_index *x);

/* The last off-CPU span of a thread that begins before that time, NULL: none. */
const struct span *span_index_off_before(const struct span_index *x, uint32_t thread, uint64_t at);
/* The first off-CPU span of a thread that begins at that time or later, NULL: none. */
const struct span *span_index_off_after(const struct span_index *x, uint32_t thread, uint64_t at);

/* The last span of work of a thread that begins before that time, as a number for the next two;
 * INDEX_NONE: none. */
uint32_t span_index_work_before(const struct span_index *x, uint32_t thread, uint64_t at);
const struct span *span_index_work(const struct span_index *x, uint32_t work);
/* The one that encloses it, INDEX_NONE: none. */
uint32_t span_index_work_above(const struct span_index *x, uint32_t work);

/* The root of a context: the outermost run, or batch, that all of its work is for, as a number;
 * INDEX_NONE: unknown. */
uint32_t span_index_root(const struct span_index *x, uint64_t context);
/* The root's batch, INDEX_NONE: it is a run. */
uint32_t span_index_batch_of_root(const struct span_index *x, uint32_t root);
uint32_t span_index_root_of_batch(const struct span_index *x, uint32_t batch);
/* The piece of the root that ends last, of those that begin before that time, NULL: none. */
const struct span *span_index_latest_piece(const struct span_index *x, uint32_t root, uint64_t at);
/* The batch with a task of the root that ends last, of those that begin before that time,
 * INDEX_NONE: none. */
uint32_t span_index_latest_batch(const struct span_index *x, uint32_t root, uint64_t at);
/* The root's last task in the batch, NULL: none. */
const struct batch_task *span_index_task(const struct span_index *x, uint32_t root, uint32_t batch);
