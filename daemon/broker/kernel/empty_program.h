/* SPDX-License-Identifier: Apache-2.0 */
/* A BPF program that does nothing. */
#pragma once

#include "daemon/broker/message.h"

/* For uprobes: its descriptor, or -errno. */
int empty_program_load(enum attach_mode mode);
/* The same for the return of a function of the kernel, by its BTF id. */
int empty_program_load_at_return(unsigned function);
