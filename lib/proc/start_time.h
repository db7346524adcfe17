/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * How long ago a process, or a thread of one (tid, or 0), was started: nanoseconds, those in which
 * the machine slept too, to a tick of the kernel's, which is 10 ms mostly. An exec does not change
 * it. -ESRCH: there is none; -EBADMSG.
 */
int started_ago(pid_t pid, pid_t tid, uint64_t *ret_ns);
