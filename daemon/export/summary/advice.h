/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers of a capture suggest: a sentence for each thing that requests wait for most,
 * where the data says so. Pure. */
#pragma once

#include "daemon/timeline/timeline.h"

#define ADVICE_MAX 4
#define ADVICE_TEXT 360

struct advice {
	char texts[ADVICE_MAX][ADVICE_TEXT]; /* what takes the most time first */
	unsigned n;
};

/* Of whole requests; of too few of them nothing is said. */
void advice_make(const struct timeline *t, struct advice *ret);
