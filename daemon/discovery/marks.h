/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of a server (include/tfprof.h). */
#pragma once

#include "daemon/discovery/target.h"
#include "daemon/plan/plan_cache.h"

/* Whether a file of a process has static probes for tfprofd. */
bool marks_are_in(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
		  const struct target_file *file, const struct pack_set *set);
