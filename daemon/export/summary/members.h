/* SPDX-License-Identifier: Apache-2.0 */
/* Which items, such as runs, each request has. */
#pragma once

#include "daemon/timeline/timeline.h"

/* Entries first[i] … first[i + 1] of items are those of request i. */
struct members {
	uint64_t *first;
	uint64_t *items;
};

/* The request, as index + 1, that an item belongs to; 0: none. */
typedef uint32_t (*owner_fn)(const struct timeline *t, uint64_t item);

/* Of the items from 0 on. -ENOMEM; call members_done() also then. */
int members_make(const struct timeline *t, uint64_t n_items, owner_fn owner, struct members *ret);
void members_done(struct members *m);
