/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/uprobe_multi.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

/* BPF_F_UPROBE_MULTI_RETURN */
#define UPROBE_MULTI_RETURN 1

/* The part of bpf(2)'s attribute that creates such a link. */
struct uprobe_multi_attr {
	__u32 program_fd;
	__u32 target_fd;
	__u32 attach_type;
	__u32 flags;
	__u64 path;
	__u64 offsets;
	__u64 ref_ctr_offsets;
	__u64 cookies;
	__u32 count;
	__u32 multi_flags;
	__u32 pid;
	__u32 reserved;
};

int uprobe_multi_link(int program, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, const uint64_t *semaphores, unsigned count,
		      bool at_return, pid_t pid)
{
	struct uprobe_multi_attr attr = {
		.program_fd = (__u32)program,
		.attach_type = ATTACH_TYPE_UPROBE_MULTI,
		.path = (__u64)(uintptr_t)path,
		.offsets = (__u64)(uintptr_t)offsets,
		.cookies = (__u64)(uintptr_t)cookies,
		.ref_ctr_offsets = (__u64)(uintptr_t)semaphores,
		.count = count,
		.multi_flags = at_return ? UPROBE_MULTI_RETURN : 0,
		.pid = (__u32)pid,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}
