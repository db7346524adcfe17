/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/name_lists.h"

#include <string.h>

#include "lib/base/macro.h"

/* Any row of the pack identifies the pack of the names. */
static unsigned first_row(const struct pack_set *set, const struct pack *pack)
{
	unsigned row = 0;

	while (row < set->n_rows && set->owners[row] != pack)
		row++;
	return row;
}

static int feed_name(const struct record_sinks *sinks, struct record_name *record, uint64_t object,
		     const char *text)
{
	_Static_assert(TABLE_STRING_MAX < RECORD_TYPE_SIZE, "names are whole");

	record->object = object;
	record->name_size = record->type_size = (uint32_t)strlen(text);
	/* One without a type of its own is its own type. */
	memcpy(record->name, text, record->name_size + 1);
	memcpy(record->type, text, record->type_size + 1);
	return sinks_record(sinks, &record->head);
}

static int feed_list(const struct record_sinks *sinks, const struct plan *plan, unsigned target,
		     unsigned named, uint64_t time)
{
	const struct plan_names *names = &plan->names[named];
	struct record_name record = {
		.head = { .time = time,
			  .kind = RECORD_NAME,
			  .site = (uint8_t)first_row(plan->packs, plan->packs->named[named]),
			  .size8 = sizeof(record) / 8,
			  .target = (uint8_t)target },
	};
	int r = 0;

	for (uint32_t i = 0; i < names->n && r >= 0; i++)
		r = feed_name(sinks, &record, op_number_object(named, i), names->texts[i]);
	return r;
}

int name_lists_feed(const struct record_sinks *sinks, const struct prepared *p, unsigned target,
		    uint64_t time)
{
	int r = 0;

	for (unsigned f = 0; f < p->n_files; f++)
		for (unsigned i = 0; i < p->files[f].plan->packs->n_named && r >= 0; i++)
			r = feed_list(sinks, p->files[f].plan, target, i, time);
	return r;
}
