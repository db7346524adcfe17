/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libbpf and the kernel's verifier print while programs are loaded. libbpf has one callback
 * for all its messages, without an argument for the caller: the thread identifies the collector.
 */
#pragma once

#include <stddef.h>

/* Call once, before libbpf is used: messages that no thread collects are dropped. */
void libbpf_log_setup(void);
/* Collects what libbpf prints on this thread, until libbpf_log_take(). -ENOMEM. */
int libbpf_log_begin(void);
/* The collected text, to be freed; NULL: no memory, or not begun. */
char *libbpf_log_take(void);

/* The line in it that gives the reason: the verifier's last one, or libbpf's. "": none. */
void libbpf_log_reason(const char *log, char *ret, size_t size);
