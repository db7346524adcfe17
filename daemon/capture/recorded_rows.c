/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/recorded_rows.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

/* The roles of release 0.1, by their numbers. */
static const struct {
	enum verb verb;
	enum work work;
} roles[] = {
	{ VERB_NONE, WORK_NONE },     { VERB_OPEN, WORK_RUN },      { VERB_CLOSE, WORK_RUN },
	{ VERB_ENQUEUE, WORK_PIECE }, { VERB_OPEN, WORK_PIECE },    { VERB_CLOSE, WORK_PIECE },
	{ VERB_OPEN, WORK_PIECE },    { VERB_ENQUEUE, WORK_OP },    { VERB_OPEN, WORK_OP },
	{ VERB_OPEN, WORK_OP },       { VERB_CLOSE, WORK_OP },      { VERB_FREE, WORK_OP },
	{ VERB_ENQUEUE, WORK_BATCH }, { VERB_OPEN, WORK_BATCH },    { VERB_POINT, WORK_BATCH },
	{ VERB_POINT, WORK_BATCH },   { VERB_CLOSE, WORK_BATCH },   { VERB_OPEN, WORK_REQUEST },
	{ VERB_CLOSE, WORK_REQUEST }, { VERB_OPEN, WORK_STREAM },   { VERB_POINT, WORK_STREAM },
	{ VERB_OPEN, WORK_ALLOC },    { VERB_CLOSE, WORK_ALLOC },   { VERB_FREE, WORK_ALLOC },
	{ VERB_POINT, WORK_ALLOC },   { VERB_OPEN, WORK_LABEL },    { VERB_CLOSE, WORK_LABEL },
	{ VERB_OPEN, WORK_STAGE },    { VERB_CLOSE, WORK_STAGE },   { VERB_OPEN, WORK_RUNTIME },
	{ VERB_OPEN, WORK_LOAD },     { VERB_POINT, WORK_LOAD },    { VERB_CLOSE, WORK_LOAD },
	{ VERB_OPEN, WORK_WEIGHTS },  { VERB_CLOSE, WORK_WEIGHTS },
};

static bool is_row(const struct probe_row *row, const Tfprofd__RecordingProbe *r)
{
	uint32_t slot;
	const char *place = recorded_row_place(row, &slot);

	if (strcmp(place, r->symbol) || !row->usdt != !r->usdt || slot != r->class_slot)
		return false;
	if (!r->role)
		return row->verb == r->verb && row->work == r->work;
	return r->role < ARRAY_SIZE(roles) && row_is(row, roles[r->role].verb, roles[r->role].work);
}

/* The row in any pack, and the pack's bit; NULL: none. */
static const struct probe_row *find(const Tfprofd__RecordingProbe *r, uint64_t *ret_bit)
{
	for (unsigned i = 0; packs[i]; i++)
		for (unsigned k = 0; k < packs[i]->n_rows; k++)
			if (is_row(&packs[i]->rows[k], r)) {
				*ret_bit = UINT64_C(1) << i;
				return &packs[i]->rows[k];
			}
	return NULL;
}

int recorded_rows_find(Tfprofd__RecordingProbe **rows, size_t n, bool any,
		       struct recorded_rows *ret)
{
	const struct probe_row *found[ROWS_MAX] = {};
	uint64_t bits = 0, bit = 0;

	*ret = (struct recorded_rows){ .rows = rows, .n = MIN(n, (size_t)ROWS_MAX) };
	for (size_t i = 0; i < ret->n; i++) {
		found[i] = find(rows[i], &bit);
		bits |= found[i] ? bit : 0;
	}
	if (!any && !packs_of_runtimes(bits))
		return -ENOENT;
	ret->set = pack_set_get(bits);
	if (!ret->set)
		return -ENOMEM;
	for (size_t i = 0; i < ret->n; i++) {
		ret->numbers[i] = -1;
		for (unsigned k = 0; k < ret->set->n_rows && found[i]; k++)
			if (ret->set->rows[k] == found[i])
				ret->numbers[i] = (int16_t)k;
	}
	return 0;
}
