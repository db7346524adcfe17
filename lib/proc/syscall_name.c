/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/syscall_name.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

const char *syscall_name(int number)
{
#define NAME(call) [SYS_##call] = #call
	static const char *const names[] = {
		NAME(read),
		NAME(write),
		NAME(poll),
		NAME(pread64),
		NAME(pwrite64),
		NAME(readv),
		NAME(writev),
		NAME(select),
		NAME(sched_yield),
		NAME(nanosleep),
		NAME(pause),
		NAME(connect),
		NAME(accept),
		NAME(accept4),
		NAME(sendto),
		NAME(recvfrom),
		NAME(sendmsg),
		NAME(recvmsg),
		NAME(sendmmsg),
		NAME(recvmmsg),
		NAME(wait4),
		NAME(waitid),
		NAME(fsync),
		NAME(fdatasync),
		NAME(flock),
		NAME(futex),
		NAME(epoll_wait),
		NAME(epoll_pwait),
		NAME(ppoll),
		NAME(pselect6),
		NAME(clock_nanosleep),
		NAME(madvise),
		NAME(mmap),
		NAME(munmap),
		NAME(mprotect),
		NAME(openat),
		NAME(close),
		NAME(rt_sigtimedwait),
		NAME(io_getevents),
		NAME(io_uring_enter),
		NAME(membarrier),
		NAME(ioctl),
		NAME(exit),
		NAME(exit_group),
		NAME(msync),
		NAME(brk),
		NAME(rt_sigsuspend),
		NAME(clone),
		NAME(clone3),
		NAME(execve),
	};

	return number >= 0 && (size_t)number < ARRAY_SIZE(names) ? names[number] : NULL;
}

bool syscall_wakes(int waker, int sleeper)
{
	switch (waker) {
	case SYS_futex:
		return sleeper == SYS_futex;
	case SYS_exit:
	case SYS_exit_group:
	case SYS_kill:
	case SYS_tgkill:
		return true;
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_splice:
	case SYS_connect:
	case SYS_shutdown:
	case SYS_close:
	case SYS_io_uring_enter:
		switch (sleeper) {
		case SYS_read:
		case SYS_readv:
		case SYS_recvfrom:
		case SYS_recvmsg:
		case SYS_recvmmsg:
		case SYS_accept:
		case SYS_accept4:
		case SYS_poll:
		case SYS_ppoll:
		case SYS_select:
		case SYS_pselect6:
		case SYS_epoll_wait:
		case SYS_epoll_pwait:
		case SYS_io_uring_enter:
			return true;
		default:
			return false;
		}
	default:
		return false;
	}
}
