/* SPDX-License-Identifier: Apache-2.0 */
/* What the probes of a session cost its targets, and what is shed when that is too much. */
#pragma once

#include "daemon/capture/budget/budget.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"

/* Kinds that can be sampled, a bit each. */
#define SAMPLED_KINDS (1u << KIND_OPS | 1u << KIND_EXECUTORS)

/* Those that are sampled if they exceed the budget in percent (0: there is none). */
unsigned cost_sampled_kinds(double max_percent, const struct forecast *forecast);
/*
 * Adds the kinds that the kernel refuses and that are not in the list of n yet, with that time
 * since the window began; the budget cannot shed them. Returns the new length of the list.
 */
unsigned cost_add_refused(const struct session *s, struct budget *budget, uint64_t at_ns,
			  struct capture_shed list[KIND_COUNT], unsigned n);
/* The probes' share of the targets' CPU time since it was cpu_before, in percent. */
double cost_of_probes(struct session *s, uint64_t cpu_before);
/*
 * Sheds what exceeds the budget, the most expensive kind first. Returns the number of kinds, at
 * most max, which are set in ret with the time since start and the cost of all probes until then.
 */
unsigned cost_keep_budget(struct session *s, struct budget *budget, uint64_t start, uint64_t now,
			  struct capture_shed *ret, unsigned max);
