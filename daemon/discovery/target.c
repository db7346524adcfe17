/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/target.h"

#include "lib/base/macro.h"

int target_file_open(struct proxy *proxy, pid_t pid, const struct target_file *file)
{
	struct broker_message m = {
		.type = BROKER_OPEN, .pid = (uint32_t)pid, .start = file->start, .end = file->end
	};
	unsigned n_fds;
	int fd = -1, r;

	r = proxy_call(proxy, &m, &fd, &n_fds);
	if (r < 0)
		return r;
	/* The broker's copy is needed for attaching only. */
	proxy_call_id(proxy, BROKER_CLOSE, m.id);
	return fd;
}
