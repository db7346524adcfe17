/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/prover/cage.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/macro.h"

static const unsigned short calls[] = {
	SYS_read,         SYS_pread64,        SYS_write,      SYS_pwrite64,    SYS_lseek,
	SYS_fstat,        SYS_newfstatat,     SYS_fcntl,      SYS_dup,         SYS_close,
	SYS_fadvise64,    SYS_sendmsg,        SYS_recvmsg,    SYS_mmap,        SYS_munmap,
	SYS_mremap,       SYS_mprotect,       SYS_madvise,    SYS_brk,         SYS_futex,
	SYS_getrandom,    SYS_getpid,         SYS_gettid,     SYS_sched_yield, SYS_clock_gettime,
	SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_exit_group, SYS_exit,
};

int cage_drop_privileges(uid_t user)
{
	cap_t none;
	int r = 0;

	if (geteuid() == 0) {
		for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
			if (cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0)
				return -errno;
		if (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 ||
		    setresuid(user, user, user) < 0)
			return -errno;
	}
	none = cap_init();
	if (!none)
		return -ENOMEM;
	if (cap_set_proc(none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	cap_free(none);
	return r;
}

int cage_enter(void)
{
	/* The architecture, the number, one comparison for each call, and the two ends. */
	struct sock_filter filter[ARRAY_SIZE(calls) + 6] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };
	const unsigned first = 4, n = ARRAY_SIZE(calls);

	for (unsigned i = 0; i < n; i++)
		filter[first + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								 calls[i], (uint8_t)(n - i), 0);
	filter[first + n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	filter[first + n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}
