/* SPDX-License-Identifier: Apache-2.0 */
/* One uprobe by a perf event, for kernels without links of many sites (before 6.6). Needs
 * CAP_SYS_ADMIN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Attaches a program to the instruction at an offset of the file behind a descriptor, in the
 * process pid only. semaphore: offset of a counter that the kernel increments, 0: none; at_return:
 * as uprobe_multi_link(). Returns the link's descriptor, and the event's in *ret_event: both are to
 * be closed. Closing waits for grace periods of the kernel, for one event after the other. A
 * negative errno of perf_event_open(2) or bpf(2): -ESRCH if the process has ended.
 */
int perf_uprobe_link(int program, int file, uint64_t offset, uint64_t cookie, uint64_t semaphore,
		     bool at_return, pid_t pid, int *ret_event);
