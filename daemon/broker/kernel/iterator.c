/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/iterator.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "lib/base/macro.h"

int iterator_run(int program, pid_t pid)
{
	union bpf_iter_link_info info = { .task.pid = (__u32)pid };
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info,
		    .iter_info_len = sizeof(info));
	_cleanup_close_ int link = -1, iterator = -1;
	char nothing[64];
	ssize_t n;

	link = bpf_link_create(program, 0, BPF_TRACE_ITER, pid ? &options : NULL);
	/* Before 6.1 an iterator sees every process. */
	if (link < 0 && pid && errno == EINVAL)
		link = bpf_link_create(program, 0, BPF_TRACE_ITER, NULL);
	if (link < 0)
		return -errno;
	iterator = bpf_iter_create(link);
	if (iterator < 0)
		return -errno;
	do
		n = read(iterator, nothing, sizeof(nothing));
	while (n > 0 || (n < 0 && errno == EAGAIN));
	return n < 0 ? -errno : 0;
}
