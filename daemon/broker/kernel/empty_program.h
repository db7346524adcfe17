/* SPDX-License-Identifier: Apache-2.0 */
/* A BPF program for uprobes that does nothing. */
#pragma once

#include "daemon/broker/message.h"

/* Its descriptor, or -errno. */
int empty_program_load(enum attach_mode mode);
