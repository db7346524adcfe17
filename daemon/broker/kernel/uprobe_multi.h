/* SPDX-License-Identifier: Apache-2.0 */
/* Links of many uprobes: BPF_TRACE_UPROBE_MULTI of Linux 6.6, which Debian 12's headers and libbpf
 * do not have. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The expected attach type of a program, set before it is loaded. */
#define ATTACH_TYPE_UPROBE_MULTI 48

/*
 * Attaches a program to count instructions of the file at path, in the process pid only (0: in
 * every one). offsets and semaphores (counters that the kernel increments; NULL: none) are offsets
 * in the file; at_return: the program runs when the function that begins with the instruction
 * returns, before its stack pointer moves; cookies may be NULL. Returns the link's descriptor, or a
 * negative errno of bpf(2): -EBADF if the path is not a regular file, -ESRCH if the process has
 * ended.
 */
int uprobe_multi_link(int program, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, const uint64_t *semaphores, unsigned count,
		      bool at_return, pid_t pid);
