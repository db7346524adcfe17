/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the trace viewer draws as curves: a line for each counter, whose events are samples at the
 * times where it changes. One that changes more often than COUNTER_SAMPLES times is shown by the
 * highest value within each of as many equal parts of the window. A counter that was never above 0
 * is left out. Where probes were shed, the curves stop.
 */
#pragma once

#include "daemon/export/xspace/writer.h"

#define COUNTER_SAMPLES 8192

/* Adds the lines to the open plane. Errors are those of the xspace. */
int counters_write(struct writer *w);
