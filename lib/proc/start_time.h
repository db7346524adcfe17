/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * How long ago a process, or a thread of one (tid, or 0), was started: nanoseconds, including time
 * that the machine slept, with the resolution of a kernel tick, usually 10 ms. An exec does not
 * change it. -ESRCH: there is none; -EBADMSG.
 */
int started_ago(pid_t pid, pid_t tid, uint64_t *ret_ns);
