/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of. */
#pragma once

#include "daemon/correlate/correlator.h"

/* A thread entered an outermost run, the span with this index. */
void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* A thread left one that began before the window. */
void attribution_on_cut_run(struct correlator *c, uint32_t thread, uint64_t span);
void attribution_on_wake(struct correlator *c, uint32_t thread, uint32_t waker, uint64_t time);
/* A thread read the last byte of a request. */
void attribution_on_read(struct correlator *c, uint32_t thread, uint32_t request);
/* A thread wrote the first byte of its answer. */
void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request);
/* Nobody works for it any more. */
void attribution_on_end(struct correlator *c, uint32_t request);
/* The window has closed: takes back what can be meant otherwise. */
void attribution_close(struct correlator *c);
