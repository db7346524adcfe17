/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libbpf and the kernel's verifier say while programs are loaded. libbpf has one function for
 * all its messages, and no argument for the caller: who collects is known by the thread.
 */
#pragma once

#include <stddef.h>

/* Once, before libbpf is used: nothing is printed that nobody collects. */
void libbpf_log_setup(void);
/* Collects what libbpf says on this thread, until libbpf_log_take(). -ENOMEM. */
int libbpf_log_begin(void);
/* What was said, to be freed; NULL: no memory, or it was not begun. */
char *libbpf_log_take(void);

/* The sentence in it that says why: the verifier's last one, or libbpf's. "": none. */
void libbpf_log_reason(const char *log, char *ret, size_t size);
