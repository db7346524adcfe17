/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/jumps.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/plan/site.h"
#include "lib/base/macro.h"
#include "lib/elf/lookup.h"
#include "lib/elf/unwind.h"
#include "lib/elf/words.h"

/* Of the exported function: it does little else than jump. */
#define CODE_MAX 256

/* Where the function is, in the file, that the exported one of this name jumps to, and its size in
 * bytes. */
static int find_jump(const struct elf_image *image, const char *name, uint64_t *ret_function,
		     uint64_t *ret_size)
{
	uint64_t address, size, offset;
	uint8_t code[CODE_MAX];
	size_t n = 0;
	int64_t to;
	int r;

	r = elf_lookup(image, name, &address);
	if (r >= 0)
		r = elf_function_at(image, address, &offset, &size);
	if (r >= 0)
		r = elf_image_read_code(image, offset, code, MIN(size, sizeof(code)), &n);
	if (r < 0)
		return r;
	if (!site_find_jump(code, n, &to))
		return -ENOENT;
	return elf_function_at(image, address + (uint64_t)to, ret_function, ret_size);
}

/* The same of the function that a word of the exported object leads to. */
static int find_by_word(const struct elf_image *image, const char *object, unsigned number,
			uint64_t *ret_function, uint64_t *ret_size)
{
	_cleanup_(elf_words_freep) struct elf_words *words = NULL;
	struct word word = {};
	const char *reason;
	uint64_t address;
	int r;

	r = elf_lookup(image, object, &address);
	if (r >= 0)
		r = elf_words_open(image, &words, &reason);
	if (r >= 0)
		r = elf_words_get(words, address + number * sizeof(uint64_t), &word);
	if (r < 0)
		return r;
	return word.may_point ? elf_function_at(image, word.value, ret_function, ret_size)
			      : -ENOENT;
}

/* -ENOENT: the file has no such function, or no site in it. */
static int add_row(struct plan *plan, const struct elf_image *image, unsigned spec)
{
	const struct probe_row *row = plan->packs->rows[spec];
	struct plan_site site = { .spec = spec, .source = row->jump ? SYMBOL_JUMP : SYMBOL_WORD };
	_cleanup_free_ char *symbol = NULL;
	int r;

	r = row->jump ? find_jump(image, row->jump, &site.function, &site.size)
		      : find_by_word(image, row->word_of, row->entry, &site.function, &site.size);
	if (plan_lacks(r))
		return -ENOENT;
	if (r < 0)
		return r;
	if ((row->jump ? asprintf(&symbol, "%s, jump", row->jump)
		       : asprintf(&symbol, "%s, word %u", row->word_of, row->entry)) < 0)
		return -ENOMEM;
	site.symbol = symbol;
	r = plan_add(plan, image, &site);
	if (r < 0 || plan->sites[plan->n_sites - 1].site.class != SITE_REFUSED)
		return r;
	free(plan->sites[--plan->n_sites].symbol);
	return -ENOENT;
}

/* Whether the row after this one replaces it. */
static bool is_replaced(const struct pack_set *set, unsigned row)
{
	return row + 1 < set->n_rows && set->owners[row + 1] == set->owners[row] &&
	       set->rows[row + 1]->instead;
}

int jumps_add(struct plan *plan, const struct elf_image *image)
{
	const struct pack_set *set = plan->packs;
	const struct pack *of = NULL, *lacks = NULL;
	unsigned first = 0;
	bool found = false;

	for (unsigned i = 0; i < set->n_rows; i++) {
		const struct probe_row *row = set->rows[i];
		int r;

		if (!(row->jump || row->word_of) || set->owners[i] == lacks ||
		    (row->instead && found))
			continue;
		if (set->owners[i] != of)
			first = plan->n_sites;
		of = set->owners[i];
		r = add_row(plan, image, i);
		if (r < 0 && r != -ENOENT)
			return r;
		found = r >= 0;
		if (found || is_replaced(set, i))
			continue;
		lacks = of;
		while (plan->n_sites > first)
			free(plan->sites[--plan->n_sites].symbol);
	}
	return 0;
}
