/* Names of the system calls that threads of servers wait in. */
#pragma once

/* "futex", "epoll_wait" …; NULL: not one of them, or -1. x86-64 numbers, from Linux's syscall_64.tbl. */
const char *syscall_name(int number);
