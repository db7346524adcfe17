/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/macro.h"

/* clone(2): new namespaces, and whether what is created is a thread. */
#define CLONE_NAMESPACES                                                                           \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)
/* open(2): everything that can change a file. */
#define OPEN_WRITES (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

/* Memory, threads, time, and the C library's own. */
static const uint16_t common[] = {
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_futex,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_membarrier,
	SYS_exit,
	SYS_exit_group,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_getcpu,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_restart_syscall,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_nanosleep,
	SYS_gettimeofday,
	SYS_time,
	SYS_getrandom,
	SYS_getpid,
	SYS_getppid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getrusage,
	SYS_sysinfo,
	SYS_uname,
};

/* Files that are open or in sight, and sockets that are open. */
static const uint16_t files[] = {
	SYS_read,       SYS_readv,       SYS_pread64,     SYS_write,       SYS_writev,
	SYS_pwrite64,   SYS_lseek,       SYS_close,       SYS_close_range, SYS_fstat,
	SYS_newfstatat, SYS_statx,       SYS_stat,        SYS_lstat,       SYS_access,
	SYS_faccessat,  SYS_faccessat2,  SYS_readlink,    SYS_readlinkat,  SYS_getdents64,
	SYS_fcntl,      SYS_dup,         SYS_dup2,        SYS_dup3,        SYS_ftruncate,
	SYS_fadvise64,  SYS_fstatfs,     SYS_statfs,      SYS_getcwd,      SYS_ioctl,
	SYS_poll,       SYS_ppoll,       SYS_select,      SYS_pselect6,    SYS_epoll_create1,
	SYS_epoll_ctl,  SYS_epoll_wait,  SYS_epoll_pwait, SYS_eventfd2,    SYS_pipe2,
	SYS_sendmsg,    SYS_recvmsg,     SYS_sendto,      SYS_recvfrom,    SYS_shutdown,
	SYS_accept4,    SYS_getsockname, SYS_getpeername, SYS_getsockopt,  SYS_setsockopt,
	SYS_pidfd_open,
};

static const uint16_t of_front[] = { SYS_memfd_create };

static const uint16_t of_broker[] = {
	SYS_bpf,
	SYS_perf_event_open,
	SYS_capget,
	SYS_listen,
	SYS_socketpair,
	SYS_memfd_create,
	/* Its flags are in memory. It opens directories that targets' settings name. */
	SYS_openat2,
	SYS_signalfd4,
	SYS_sched_setaffinity,
	SYS_wait4,
	SYS_unlink,
	SYS_kill,
	/* Who may read a snapshot. */
	SYS_fsetxattr,
	/* The kernel's own, at probes in the process in which their cost is measured. */
	335,
	336,
};

#ifdef __SANITIZE_ADDRESS__
/* What AddressSanitizer does at a thread's begin, at the end, and to report an error. No release is
 * built with it. */
static const uint16_t of_sanitizers[] = {
	SYS_sigaltstack, SYS_ptrace, SYS_wait4,     SYS_kill,        SYS_tgkill,
	SYS_clone,       SYS_prctl,  SYS_prlimit64, SYS_open,        SYS_arch_prctl,
	SYS_mprotect,    SYS_mmap,   SYS_getdents,  SYS_personality, SYS_sched_setaffinity,
};
#endif

static const uint16_t of_prover[] = {
	SYS_setpriority,
	SYS_alarm,
	SYS_seccomp,
	SYS_prlimit64,
};

static const uint16_t of_reader[] = {
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_pwrite64,
	SYS_lseek,
	SYS_fstat,
	SYS_newfstatat,
	SYS_fcntl,
	SYS_dup,
	SYS_close,
	SYS_fadvise64,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_getrandom,
	SYS_getpid,
	SYS_gettid,
	SYS_sched_yield,
	SYS_sysinfo,
	SYS_clock_gettime,
	SYS_exit_group,
	SYS_exit,
	/* For the symbols that a stripped file has in compressed form. */
	SYS_memfd_create,
};

static void allow_memory(struct filter *f)
{
	/* No new code. */
	filter_allow_if(f, SYS_mmap, 2, PROT_EXEC, 0);
	filter_allow_if(f, SYS_mprotect, 2, PROT_EXEC, 0);
}

static void allow_common(struct filter *f)
{
#ifdef __SANITIZE_ADDRESS__
	filter_allow(f, of_sanitizers, ARRAY_SIZE(of_sanitizers));
#endif
	filter_allow(f, common, ARRAY_SIZE(common));
	filter_allow(f, files, ARRAY_SIZE(files));
	filter_allow_if(f, SYS_openat, 2, OPEN_WRITES, O_RDONLY);
	allow_memory(f);
	/* Its flags are in memory, where they cannot be looked at: the C library then uses clone.
	 */
	filter_refuse(f, SYS_clone3, ENOSYS);
	filter_allow_if(f, SYS_prctl, 0, UINT32_MAX, PR_SET_NAME);
	filter_allow_if(f, SYS_prctl, 0, UINT32_MAX, PR_GET_NAME);
	filter_allow_if(f, SYS_prctl, 0, UINT32_MAX, PR_CAPBSET_READ);
	/* Limits are only read. */
	filter_allow_if(f, SYS_prlimit64, 2, UINT32_MAX, 0);
	/* Signals to its own threads: abort(3). */
	filter_allow_if(f, SYS_tgkill, 0, UINT32_MAX, (uint32_t)getpid());
}

/* Files are opened to write them only relative to the directory. */
static void allow_writing(struct filter *f, int directory)
{
	filter_allow_if(f, SYS_openat, 0, UINT32_MAX, (uint32_t)directory);
	filter_allow_if(f, SYS_unlinkat, 0, UINT32_MAX, (uint32_t)directory);
	filter_allow_if(f, SYS_renameat, 0, UINT32_MAX, (uint32_t)directory);
	filter_allow_if(f, SYS_linkat, 2, UINT32_MAX, (uint32_t)directory);
}

void calls_of_front(struct filter *f, int directory)
{
	allow_common(f);
	filter_allow(f, of_front, ARRAY_SIZE(of_front));
	if (directory >= 0)
		allow_writing(f, directory);
	filter_allow_if(f, SYS_clone, 0, CLONE_THREAD | CLONE_NAMESPACES, CLONE_THREAD);
	/* Whether a process exists. */
	filter_allow_if(f, SYS_kill, 1, UINT32_MAX, 0);
	/* A look-up of a user asks services of the host, which cannot be reached. */
	filter_refuse(f, SYS_socket, EACCES);
}

void calls_of_broker(struct filter *f, const int *writable, size_t n)
{
	allow_common(f);
	filter_allow(f, of_broker, ARRAY_SIZE(of_broker));
	for (size_t i = 0; i < n; i++)
		if (writable[i] >= 0)
			allow_writing(f, writable[i]);
	filter_allow_if(f, SYS_clone, 0, CLONE_NAMESPACES, 0);
	/* Of the process in which the cost of probes is measured. */
	filter_allow_if(f, SYS_prctl, 0, UINT32_MAX, PR_SET_PDEATHSIG);
}

void calls_of_prover(struct filter *f)
{
	allow_common(f);
	filter_allow(f, of_prover, ARRAY_SIZE(of_prover));
	filter_allow_if(f, SYS_prctl, 0, UINT32_MAX, PR_SET_PDEATHSIG);
	filter_allow_if(f, SYS_clone, 0, CLONE_NAMESPACES, 0);
}

void calls_of_reader(struct filter *f)
{
#ifdef __SANITIZE_ADDRESS__
	filter_allow(f, of_sanitizers, ARRAY_SIZE(of_sanitizers));
#endif
	filter_allow(f, of_reader, ARRAY_SIZE(of_reader));
	allow_memory(f);
}
