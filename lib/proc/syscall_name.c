#include "lib/proc/syscall_name.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

const char *syscall_name(int number)
{
#define NAME(call) [SYS_##call] = #call
	static const char *const names[] = {
		NAME(read), NAME(write), NAME(poll), NAME(pread64), NAME(pwrite64), NAME(readv), NAME(writev), NAME(select),
		NAME(sched_yield), NAME(nanosleep), NAME(pause), NAME(connect), NAME(accept), NAME(accept4), NAME(sendto), NAME(recvfrom),
		NAME(sendmsg), NAME(recvmsg), NAME(sendmmsg), NAME(recvmmsg), NAME(wait4), NAME(waitid), NAME(fsync), NAME(fdatasync),
		NAME(flock), NAME(futex), NAME(epoll_wait), NAME(epoll_pwait), NAME(ppoll), NAME(pselect6), NAME(clock_nanosleep),
		NAME(madvise), NAME(mmap), NAME(munmap), NAME(mprotect), NAME(openat), NAME(close), NAME(rt_sigtimedwait),
		NAME(io_getevents), NAME(io_uring_enter), NAME(membarrier), NAME(ioctl), NAME(exit), NAME(exit_group),
		NAME(msync), NAME(brk), NAME(rt_sigsuspend), NAME(clone), NAME(clone3), NAME(execve),
	};

	return number >= 0 && (size_t)number < ARRAY_SIZE(names) ? names[number] : NULL;
}
