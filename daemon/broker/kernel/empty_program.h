/* SPDX-License-Identifier: Apache-2.0 */
/* A BPF program that does nothing. */
#pragma once

#include <linux/bpf.h>

#include "daemon/broker/message.h"

/* For uprobes: its descriptor, or -errno. */
int empty_program_load(enum attach_mode mode);
/* The same for a function of the kernel, by its BTF id. */
int empty_program_load_at_function(unsigned function, enum bpf_attach_type where);
