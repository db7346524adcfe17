/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the system calls that threads of servers wait in. */
#pragma once

#include <stdbool.h>

/* "futex", "epoll_wait" …; NULL: not one of them, or -1. x86-64 numbers, from Linux's
 * syscall_64.tbl. */
const char *syscall_name(int number);

/*
 * Whether a thread in one system call can be what wakes a thread out of another: a futex by a
 * futex, an input by an output. A thread that was only interrupted when a timer or a device woke
 * somebody is in none, or in one that does not fit.
 */
bool syscall_wakes(int waker, int sleeper);
