/* SPDX-License-Identifier: Apache-2.0 */
/* The target processes, by their number in records. */
#pragma once

#include "daemon/correlate/correlate.h"

/* Zeros at first. */
struct targets {
	struct correlate_target list[RECORD_MAX_TARGETS];
	bool replaced[RECORD_MAX_TARGETS];
	unsigned n;
};

/* -E2BIG beyond RECORD_MAX_TARGETS. */
int targets_add(struct targets *t, const struct correlate_target *target);
/* NULL: there is none of this number. */
const struct correlate_target *targets_get(const struct targets *t, unsigned number);
/* NULL also after targets_replace(). */
const struct correlate_target *targets_current(const struct targets *t, unsigned number);
/* The process has become another program: its later records are not the target's. */
void targets_replace(struct targets *t, unsigned number);
