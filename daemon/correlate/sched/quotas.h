/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of CPU time that threads waited for, the cgroups that have them, and when these could go
 * on. */
#pragma once

#include <stdint.h>

#include "daemon/timeline/timeline.h"
#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

/* Zeros at first. */
struct quotas {
	uint32_t cgroups[TIMELINE_QUOTAS_MAX]; /* their numbers, beside the timeline's quotas */
	struct map of_cpu;                     /* index into renewals, by quota and CPU */
	struct renewals *renewals;
	uint64_t n, size;
};

/* The index of a cgroup's quota in the timeline, by the number of the cgroup; its record may come
 * later. -1: it is unknown, or there is no room. */
int64_t quotas_get(struct correlator *c, uint32_t cgroup);
void quotas_on_record(struct correlator *c, const struct record_quota *record);
void quotas_done(struct quotas *q);

/*
 * The kernel throttles, and lets go on, all threads of a cgroup on one CPU. Each time that one of
 * them runs again the quota was renewed for all of them. The number of renewals so far:
 */
uint64_t quotas_renewals(const struct correlator *c, int64_t quota, uint16_t cpu);
void quotas_renew(struct correlator *c, int64_t quota, uint16_t cpu, uint64_t now);
/* When the quota was renewed after that many renewals (if it is too long ago: later), 0: not yet.
 */
uint64_t quotas_renewed_ns(const struct correlator *c, int64_t quota, uint16_t cpu,
			   uint64_t renewals);
