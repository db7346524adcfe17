/* SPDX-License-Identifier: Apache-2.0 */
/* What the site numbers of a recording mean to this version, which may number rows otherwise, or
 * not have some. */
#pragma once

#include "daemon/plan/packs.h"
#include "proto/recording.pb-c.h"

struct recorded_rows {
	const struct pack_set *set;     /* of the rows that this version has */
	int16_t numbers[ROWS_MAX];      /* by site number: of the row in the set; -1: it has none */
	Tfprofd__RecordingProbe **rows; /* borrowed */
	size_t n;
};

/* Rows of release 0.1 have a role instead of verb and work. -ENOENT: this version has none of them,
 * -ENOMEM. */
int recorded_rows_find(Tfprofd__RecordingProbe **rows, size_t n, struct recorded_rows *ret);
