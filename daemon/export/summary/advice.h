/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers of a capture suggest: a sentence for each of the things that requests wait for
 * most, where the data supports it. Pure. */
#pragma once

#include "daemon/timeline/timeline.h"

#define ADVICE_MAX 4
#define ADVICE_TEXT 360

struct advice {
	char texts[ADVICE_MAX][ADVICE_TEXT]; /* the largest share of time first */
	unsigned n;
};

/* Advice on whole requests; none if there are too few of them. */
void advice_make(const struct timeline *t, struct advice *ret);
