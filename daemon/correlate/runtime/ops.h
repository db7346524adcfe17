/* SPDX-License-Identifier: Apache-2.0 */
/* Executions of operations. */
#pragma once

#include <stdint.h>

struct correlator;
struct entry;

/* Zeros at first. */
struct ops {
	/* Where the spans are whose names had not come yet. */
	uint64_t unnamed_first, unnamed_end;
};

void ops_open(struct correlator *c, const struct entry *e);
void ops_close(struct correlator *c, const struct entry *e);
void ops_enqueue(struct correlator *c, const struct entry *e);
/* The object of an operation is destroyed. */
void ops_free(struct correlator *c, const struct entry *e);
/* All records are read: executions get the names that came after them. */
void ops_name(struct correlator *c);
