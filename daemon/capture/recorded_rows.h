/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the site numbers of a recording to the rows of this version, which may number rows
 * differently, or lack some. */
#pragma once

#include "daemon/plan/packs.h"
#include "lib/elf/table.h"
#include "proto/recording.pb-c.h"

/* The text by which a recording identifies a row: where its function is found; slot: of a class,
 * entry of a table, or word of an object, from 1, else 0. */
static inline const char *recorded_row_place(const struct probe_row *row, uint32_t *ret_slot)
{
	*ret_slot = row->usdt || row->symbol || row->jump
			    ? 0
			    : (row->table || row->word_of ? row->entry : row->slot) + 1u;
	return row->usdt
		       ?: row->symbol
		       ?: row->jump
		       ?: row->word_of
		       ?: row->table ? row->table->function : row->class_name;
}

struct recorded_rows {
	const struct pack_set *set; /* of the rows that this version has */
	/* By site number: of the row in the set; -1: it has none. */
	int16_t numbers[ROWS_MAX];
	Tfprofd__RecordingProbe **rows; /* borrowed */
	size_t n;
};

/* Rows of release 0.1 have a role instead of verb and work. any: also those of a process without a
 * runtime. -ENOENT: this version has none of a runtime's, -ENOMEM. */
int recorded_rows_find(Tfprofd__RecordingProbe **rows, size_t n, bool any,
		       struct recorded_rows *ret);
