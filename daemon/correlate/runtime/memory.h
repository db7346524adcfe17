/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators give out and take back. */
#pragma once

#include "daemon/correlate/correlator.h"

/* memory.c: what allocators give out and take back. */
void memory_on_probe(struct correlator *c, uint32_t thread, const struct record_probe *record,
		     enum role role);
/* All of a process's blocks go with it. */
void memory_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* Operations have their names: the events that are theirs get them. */
void memory_name_ops(struct correlator *c);
