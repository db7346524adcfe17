/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/tables.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/macro.h"
#include "lib/elf/lookup.h"
#include "lib/elf/unwind.h"

struct tables {
	struct plan *plan;
	const struct elf_image *image;
	struct elf_words *words; /* NULL: not read yet */
	bool is_unreadable;      /* its data is in no form that can be read */
	const char **ret_reason;
};

/* Whether the file exports the function where the path begins; only then its data is read. */
static int begin(struct tables *t, const struct table_path *path)
{
	uint64_t address;
	int r = 0;

	if (t->is_unreadable || elf_lookup(t->image, path->function, &address) < 0)
		return 0;
	if (!t->words)
		r = elf_words_open(t->image, &t->words, t->ret_reason);
	t->is_unreadable = plan_lacks(r);
	return t->is_unreadable ? 0 : r < 0 ? r : 1;
}

static int add_function(struct tables *t, unsigned spec)
{
	const struct probe_row *row = t->plan->packs->rows[spec];
	struct plan_site site = { .spec = spec, .source = SYMBOL_TABLE };
	_cleanup_free_ char *symbol = NULL;
	uint64_t address;
	struct elf_table table;
	int r;

	r = elf_table_of_functions(t->image, t->words, row->table, &table);
	if (r >= 0)
		r = elf_table_function(t->image, t->words, &table, row->entry, &address);
	if (r >= 0)
		r = elf_function_at(t->image, address, &site.function, &site.size);
	if (r < 0)
		return plan_lacks(r) ? 0 : r;
	if (plan_has_function(t->plan, site.function))
		return 0;
	if (asprintf(&symbol, "%s, entry %u", row->table->function, row->entry) < 0)
		return -ENOMEM;
	site.symbol = symbol;
	return plan_add(t->plan, t->image, &site);
}

static int add_names(struct tables *t, const struct table_path *path, struct plan_names *ret)
{
	struct elf_table table;
	int r = elf_table_of_strings(t->image, t->words, path, &table);

	if (r < 0)
		return plan_lacks(r) ? 0 : r;
	ret->texts = calloc(MIN(table.n, PLAN_NAMES_MAX), sizeof(ret->texts[0]));
	if (!ret->texts)
		return -ENOMEM;
	while (ret->n < MIN(table.n, PLAN_NAMES_MAX) &&
	       elf_table_string(t->image, t->words, &table, ret->n, ret->texts[ret->n]) >= 0)
		ret->n++;
	return 0;
}

int tables_add(struct plan *plan, const struct elf_image *image, const char **ret_reason)
{
	struct tables t = { .plan = plan, .image = image, .ret_reason = ret_reason };
	const struct pack_set *set = plan->packs;
	int r = 0;

	for (unsigned i = 0; i < set->n_rows && r >= 0; i++) {
		if (!set->rows[i]->table || plan_finds(plan, i))
			continue;
		r = begin(&t, set->rows[i]->table);
		if (r > 0)
			r = add_function(&t, i);
	}
	for (unsigned i = 0; i < set->n_named && r >= 0; i++) {
		if (!set->named[i]->names.list)
			continue;
		r = begin(&t, set->named[i]->names.list);
		if (r > 0)
			r = add_names(&t, set->named[i]->names.list, &plan->names[i]);
	}
	elf_words_free(t.words);
	return MIN(r, 0);
}
