/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/marks.h"

#include "lib/base/macro.h"

bool marks_are_in(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
		  const struct target_file *file, const struct pack_set *set)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_close_ int fd = target_file_open(proxy, pid, file);
	const char *reason;

	return fd >= 0 && plan_cache_get(plans, fd, set, false, &plan, NULL, &reason) >= 0 &&
	       plan_has_marks(plan);
}
