/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are looked at, and how much of them: options that commands share. */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

#define SELECTION_PIDS_MAX 256
#define SELECTION_DEFAULT_LEVEL 2
/* Enough for the pids in a packed request. */
#define SELECTION_PACKED_MAX (SELECTION_PIDS_MAX * 5 + 16)

struct selection {
	uint32_t pids[SELECTION_PIDS_MAX]; /* none: all that the user may profile */
	size_t n_pids;
	uint32_t level;
	bool no_sockets;
	Tfprofd__Memory memory;
	bool ops_at_entry;
};

/* --pid, --level and the like; to be made a child of a command's parser, with a struct selection as
 * its input. */
extern const struct argp selection_argp;
