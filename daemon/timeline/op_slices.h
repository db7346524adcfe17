/* SPDX-License-Identifier: Apache-2.0 */
/* The slices of the window in which operations were recorded: one, the whole window, if these were
 * never shed. */
#pragma once

#include "daemon/timeline/timeline.h"

#define OP_SLICE_NONE UINT32_MAX

struct op_slice {
	uint64_t start_ns, end_ns;
};

struct op_slices {
	struct op_slice *list; /* by time; they do not overlap */
	uint32_t n;
	uint64_t seen_ns;    /* all of them together */
	uint64_t longest_ns; /* of one */
	bool is_part;        /* they are not the whole window */
};

/* To be freed with op_slices_done(). -ENOMEM. */
int op_slices_find(const struct timeline *t, struct op_slices *ret);
/* The slice that contains all of that time; OP_SLICE_NONE: there is none. */
uint32_t op_slices_within(const struct op_slices *s, uint64_t from_ns, uint64_t to_ns);
void op_slices_done(struct op_slices *s);
