/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the system calls in which threads of servers wait. */
#pragma once

#include <stdbool.h>

/* "futex", "epoll_wait" …; NULL: not one of them, or -1. x86-64 numbers, from Linux's
 * syscall_64.tbl. */
const char *syscall_name(int number);

/*
 * Whether a thread in one system call can have woken a thread in another: a futex by a futex, an
 * input by an output. A thread that was merely interrupted when a timer or a device caused the
 * wake-up is in none, or in one that does not match.
 */
bool syscall_wakes(int waker, int sleeper);
