/* SPDX-License-Identifier: Apache-2.0 */
/* All packs, and the sets of them that targets have. */
#pragma once

#include "daemon/plan/model.h"

/* All packs, NULL-terminated; at most 64. */
extern const struct pack *const packs[];

/* The packs, as bits, whose library or program has this base name. */
uint64_t packs_of_file(const char *base_name);
/* Whether a process that maps a file with this base name may have become a target, or another
 * one. */
bool packs_are_news(const char *base_name);
/* The packs that make a process a target. */
uint64_t packs_of_runtimes(uint64_t bits);

/* Whether the pack's slots are those of this release. */
bool pack_has_slots(const struct pack *pack, const char *release);
/* Whether the row is for this release. */
bool row_is_of_release(const struct probe_row *row, const char *release);
/* The release of a build that the pack knows; NULL: it does not. */
const char *pack_release_of_build(const struct pack *pack, const char *build_id);

/* The rows of the packs of one target, as its records number them. Sets are few, and are never
 * freed: equal ones are shared. */
#define ROWS_MAX 256
struct pack_set {
	char name[64]; /* of the runtimes, for display; "": there are none */
	const struct probe_row *rows[ROWS_MAX];
	const struct pack *owners[ROWS_MAX]; /* the pack of each row */
	unsigned n_rows;
	const struct pack *named[RECORD_LAYOUTS]; /* the packs whose operations have names */
	unsigned n_named;
	uint64_t bits; /* by index in packs[] */
};

/*
 * Stands for the object of an operation that is a number (names_have_numbers()), of the pack with
 * this index among its target's named ones: an address where no object lies, and different from
 * those of other packs.
 */
static inline uint64_t op_number_object(unsigned named, uint64_t number)
{
	return UINT64_C(0xff) << 48 | (uint64_t)named << 32 | (uint32_t)number;
}

/* The set of these packs, and of those that are in every set. bits: by index in packs; bits
 * of none are ignored. NULL: no memory, or too many rows. May be called from any thread. */
const struct pack_set *pack_set_get(uint64_t bits);
/* Adds a pack to an empty set, or to one with others. -E2BIG: too many rows. */
int pack_set_add(struct pack_set *set, const struct pack *pack);
/* How a process without one is described. */
#define PACKS_NO_RUNTIME "no known runtime: no operations are shown"
/* Whether it has the pack of a runtime. */
bool pack_set_has_runtime(const struct pack_set *set);
/* Whether its process works for its parent. */
bool pack_set_works_for_parent(const struct pack_set *set);
/* The row with this number; NULL: none. */
const struct probe_row *pack_set_row(const struct pack_set *set, unsigned number);
/* The pack of the operations that the row's objects name: an index into named; -1: none. */
int pack_set_named(const struct pack_set *set, unsigned number);
