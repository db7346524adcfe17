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

static struct record_name record_of(const struct pack_set *set, unsigned named, unsigned target,
				    uint64_t time)
{
	return (struct record_name){
		.head = { .time = time,
			  .kind = RECORD_NAME,
			  .site = (uint8_t)first_row(set, set->named[named]),
			  .size8 = sizeof(struct record_name) / 8,
			  .target = (uint8_t)target },
	};
}

static int feed_list(const struct record_sinks *sinks, const struct plan *plan, unsigned target,
		     unsigned named, uint64_t time)
{
	struct record_name record = record_of(plan->packs, named, target, time);
	const struct plan_names *names = &plan->names[named];
	int r = 0;

	for (uint32_t i = 0; i < names->n && r >= 0; i++)
		r = feed_name(sinks, &record, op_number_object(named, i), names->texts[i]);
	return r;
}

static bool is_named_by_symbol(const struct plan *plan, const struct pack *pack, uint32_t site)
{
	unsigned spec = plan->sites[site].spec;

	return plan->packs->owners[spec] == pack &&
	       row_is(plan->packs->rows[spec], VERB_OPEN, WORK_OP);
}

/* Sites of several files have the same numbers: then no operation has a name. */
static bool are_in_several_files(const struct prepared *p, const struct pack *pack)
{
	unsigned n = 0;

	for (unsigned f = 0; f < p->n_files; f++) {
		const struct plan *plan = p->files[f].plan;
		uint32_t i = 0;

		while (i < plan->n_sites && !is_named_by_symbol(plan, pack, i))
			i++;
		n += i < plan->n_sites;
	}
	return n > 1;
}

/* The names in the symbols of the file's operations. */
static int feed_symbols(const struct record_sinks *sinks, const struct plan *plan, unsigned target,
			unsigned named, uint64_t time)
{
	const struct pack *pack = plan->packs->named[named];
	struct record_name record = record_of(plan->packs, named, target, time);
	int r = 0;

	for (uint32_t i = 0; i < plan->n_sites && r >= 0; i++) {
		char text[TABLE_STRING_MAX + 1];
		const char *name;
		uint32_t size;

		if (!is_named_by_symbol(plan, pack, i))
			continue;
		name = pack->names.in_symbol(plan->sites[i].symbol, &size);
		if (!name || size >= sizeof(text))
			continue;
		memcpy(text, name, size);
		text[size] = 0;
		r = feed_name(sinks, &record, op_number_object(named, i), text);
	}
	return r;
}

int name_lists_feed(const struct record_sinks *sinks, const struct prepared *p, unsigned target,
		    uint64_t time)
{
	int r = 0;

	for (unsigned f = 0; f < p->n_files; f++) {
		const struct plan *plan = p->files[f].plan;

		for (unsigned i = 0; i < plan->packs->n_named && r >= 0; i++) {
			r = feed_list(sinks, plan, target, i, time);
			if (r >= 0 && plan->packs->named[i]->names.in_symbol &&
			    !are_in_several_files(p, plan->packs->named[i]))
				r = feed_symbols(sinks, plan, target, i, time);
		}
	}
	return r;
}
