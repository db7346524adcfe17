/* SPDX-License-Identifier: Apache-2.0 */
/* The packs that there are, and the sets of them that targets have. */
#pragma once

#include "daemon/plan/model.h"

/* All packs, NULL-terminated; at most 64. */
extern const struct pack *const packs[];

/* The packs, as bits, whose library or program has this base name. */
uint64_t packs_of_file(const char *base_name);
/* Those that make a process a target. */
uint64_t packs_of_runtimes(uint64_t bits);

/* The rows of the packs of one target, as its records number them. Sets are few, and are never
 * freed: equal ones are one. */
#define ROWS_MAX 256
struct pack_set {
	char name[64]; /* of the runtimes, for people */
	const struct probe_row *rows[ROWS_MAX];
	const struct pack *owners[ROWS_MAX]; /* whose row it is */
	unsigned n_rows;
	const struct pack *named[RECORD_LAYOUTS]; /* those whose operations have names */
	unsigned n_named;
	uint64_t bits; /* by place in packs[] */
};

/* The set of these packs, and of those that are everywhere. bits: by place in packs. NULL: no
 * memory, or too many rows. For any thread. */
const struct pack_set *pack_set_get(uint64_t bits);
/* Adds a pack to a set of zeros, or of others. -E2BIG: too many rows. */
int pack_set_add(struct pack_set *set, const struct pack *pack);
/* The row with this number; NULL: none. */
const struct probe_row *pack_set_row(const struct pack_set *set, unsigned number);
/* Whose operations' names the row's objects hold: an index into named; -1: nobody's. */
int pack_set_named(const struct pack_set *set, unsigned number);
