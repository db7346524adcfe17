/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a process does for its parent. */
#pragma once

#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct children {
	struct child *list; /* that were handed work */
	uint64_t size;
	uint32_t n;
	struct map at; /* an index into list, by child */
	uint64_t n_taken, n_unknown;
};

void children_enqueue(struct correlator *c, const struct entry *e);
void children_open(struct correlator *c, const struct entry *e);
void children_close(struct correlator *c, const struct entry *e);
/* The window has closed. */
void children_finish(struct correlator *c);
void children_done(struct children *s);
