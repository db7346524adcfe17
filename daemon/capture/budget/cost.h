/* SPDX-License-Identifier: Apache-2.0 */
/* What the probes of a session cost its targets, and what is done about it when that is too much.
 */
#pragma once

#include "daemon/capture/budget/budget.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"

/*
 * Adds the kinds that the kernel refuses and that are not in the list of n yet, with that time
 * since the window began; the budget has nothing to save there. How many there are then.
 */
unsigned cost_add_refused(const struct session *s, struct budget *budget, uint64_t at_ns,
			  struct capture_shed list[KIND_COUNT], unsigned n);
/* Percent of the targets' CPU time since it was cpu_before. */
double cost_of_probes(struct session *s, uint64_t cpu_before);
/*
 * Takes away what costs more than the budget allows, the dearest first: how many kinds, at most
 * max, which are set in ret with the time since start and what all probes cost until then.
 */
unsigned cost_keep_budget(struct session *s, struct budget *budget, uint64_t start, uint64_t now,
			  struct capture_shed *ret, unsigned max);
