/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests wait for a run, and which run is of which request. */
#pragma once

#include "daemon/correlate/correlator.h"

/* attribution.c */
struct thread_requests *claims_thread(struct correlator *c, uint32_t thread);
/* The run is of that request, or taken to be. */
void claims_add(struct correlator *c, uint64_t span, uint32_t request, bool inferred);
/* Whether it can be: that was read before the run began, and the run has begun before its answer
 * did. */
bool claims_can_be_of(struct correlator *c, uint64_t span, uint32_t request);
/* The run is nobody's again. */
void claims_remove(struct correlator *c, uint64_t span);
/* The request was read, and waits for a run. */
void claims_wait(struct requests *r, uint32_t request);
void claims_stop_waiting(struct requests *r, uint32_t request);
