/* SPDX-License-Identifier: Apache-2.0 */
/* How long the kernel lets a thread run at a time. */
#pragma once

/*
 * The calling thread runs for 0.1 ms at a time, the shortest that the kernel has (from Linux 6.12
 * on), and so gets a CPU sooner after it was woken; its share of the CPUs stays the same. Threads
 * and processes that it starts do not inherit that. Older kernels ignore it. -errno of
 * sched_setattr(2).
 */
int slice_shorten(void);
