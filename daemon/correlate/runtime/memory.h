/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators give out and take back. What else is shown is the same without these entries:
 * they end, and lengthen, no frame. */
#pragma once

#include "daemon/correlate/runtime/nesting.h"

void memory_open(struct correlator *c, const struct entry *e);
void memory_close(struct correlator *c, const struct entry *e);
void memory_free(struct correlator *c, const struct entry *e);
/* A piece of memory that the allocator has from another one. */
void memory_point(struct correlator *c, const struct entry *e);
/* All of a process's blocks go with it. */
void memory_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* Operations have their names: the events that are theirs get them. */
void memory_name_ops(struct correlator *c);
