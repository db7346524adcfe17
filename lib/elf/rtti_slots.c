/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/rtti_slots.h"

#include <errno.h>

/* Sections are more precise than segments: old linkers put constants beside the code. */
void rtti_slots_init(struct rtti_slots *slots, const struct elf_image *image,
		     struct elf_words *words)
{
	const Elf64_Shdr *section;

	*slots = (struct rtti_slots){ .image = image, .words = words };
	for (uint32_t i = 0; (section = elf_image_section(slots->image, i)); i++) {
		if (section->sh_type != SHT_PROGBITS || !(section->sh_flags & SHF_EXECINSTR))
			continue;
		if (slots->n_code == CODE_SECTIONS_MAX) {
			slots->n_code = 0;
			return;
		}
		slots->code[slots->n_code++] = section;
	}
}

bool rtti_is_code(const struct rtti_slots *slots, const struct word *word)
{
	uint64_t offset;

	/* A file may have code at address 0, where its header is: a null pointer is no function. */
	if (!word->may_point || !word->value ||
	    elf_image_code_offset(slots->image, word->value, &offset) < 0)
		return false;
	for (size_t i = 0; i < slots->n_code; i++)
		if (word->value >= slots->code[i]->sh_addr &&
		    word->value - slots->code[i]->sh_addr < slots->code[i]->sh_size)
			return true;
	return slots->n_code == 0;
}

/* Whether a word can be a slot of a virtual table: it points to code, or to a function of another
 * file. */
static bool is_slot(const struct rtti_slots *slots, const struct word *word)
{
	return (word->is_relocated && word_is_external(word->value) &&
		word_addend(word->value) == 0) ||
	       rtti_is_code(slots, word);
}

int rtti_count_slots(struct rtti_slots *slots, uint64_t address, uint32_t limit, uint32_t *ret)
{
	struct word word;
	uint32_t n = 0;
	int r = 0;

	while (n < limit) {
		r = elf_words_get(slots->words, address + 8ull * n, &word);
		if (r < 0)
			break;
		if (!is_slot(slots, &word) && !(n < 2 && word.value == 0 && !word.is_relocated))
			break;
		n++;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	if (n <= 2 && n > 0) {
		r = elf_words_get(slots->words, address + 8ull * (n - 1), &word);
		if (r < 0)
			return r;
		if (word.value == 0)
			n = 0;
	}
	*ret = n;
	return 0;
}

int rtti_check_vtable(struct rtti_slots *slots, uint64_t address, int32_t *ret_offset_to_top,
		      uint32_t *ret_slots)
{
	struct word top;
	int r = elf_words_get(slots->words, address - 8, &top);

	*ret_slots = 0;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (top.is_relocated || (int64_t)top.value > 0 || (int64_t)top.value < INT32_MIN)
		return 0;
	*ret_offset_to_top = (int32_t)(int64_t)top.value;
	return rtti_count_slots(slots, address + 8, 3, ret_slots);
}
