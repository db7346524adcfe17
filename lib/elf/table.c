/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/table.h"

#include <Zydis/Zydis.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/elf/lookup.h"
#include "lib/elf/rtti_slots.h"
#include "lib/elf/unwind.h"

struct finder {
	const struct elf_image *image;
	struct elf_words *words;
	struct rtti_slots slots; /* knows what is code */
	uint64_t references[TABLE_REFERENCES_MAX];
	unsigned n_references;
};

static void finder_init(struct finder *f, const struct elf_image *image, struct elf_words *words)
{
	f->image = image;
	f->words = words;
	f->n_references = 0;
	rtti_slots_init(&f->slots, image, words);
}

static int add_reference(struct finder *f, uint64_t address)
{
	uint64_t offset, room;

	if (elf_image_locate(f->image, address, &offset, &room) < 0)
		return 0;
	for (unsigned i = 0; i < f->n_references; i++)
		if (f->references[i] == address)
			return 0;
	if (f->n_references == TABLE_REFERENCES_MAX)
		return -E2BIG;
	f->references[f->n_references++] = address;
	return 0;
}

/* A load of a pointer that a relocation makes. */
static int add_loaded(struct finder *f, uint64_t address)
{
	struct word word;
	int r = elf_words_get(f->words, address, &word);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return word.is_relocated ? add_reference(f, word.value) : 0;
}

static int add_operand(struct finder *f, const ZydisDecodedInstruction *instruction,
		       const ZydisDecodedOperand *operand, uint64_t at)
{
	bool is_fixed = elf_image_is_fixed(f->image);
	uint64_t address;

	if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return is_fixed && !operand->imm.is_relative
			       ? add_reference(f, operand->imm.value.u)
			       : 0;
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY)
		return 0;
	if (operand->mem.base == ZYDIS_REGISTER_NONE)
		return is_fixed ? add_reference(f, (uint64_t)operand->mem.disp.value) : 0;
	if (operand->mem.base != ZYDIS_REGISTER_RIP ||
	    !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(instruction, operand, at, &address)))
		return 0;
	if (instruction->mnemonic == ZYDIS_MNEMONIC_LEA)
		return add_reference(f, address);
	return instruction->mnemonic == ZYDIS_MNEMONIC_MOV && operand->size == 64
		       ? add_loaded(f, address)
		       : 0;
}

/* Collects the data that a function refers to. */
static int collect_references(struct finder *f, uint64_t function)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	_cleanup_free_ uint8_t *code = NULL;
	ZydisDecodedInstruction instruction;
	uint64_t start, size, offset;
	ZydisDecoder decoder;
	size_t read = 0;
	int r;

	f->n_references = 0;
	r = elf_function_bounds(f->image, function, &start, &size);
	if (r >= 0 && start != function)
		r = -ENOENT;
	if (r >= 0 && size > TABLE_CODE_MAX)
		r = -E2BIG;
	if (r >= 0)
		r = elf_image_code_offset(f->image, function, &offset);
	if (r < 0)
		return r;
	code = malloc(MAX(size, UINT64_C(1)));
	if (!code)
		return -ENOMEM;
	r = elf_image_read_code(f->image, offset, code, size, &read);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < read && r >= 0; at += instruction.length) {
		/* What is no instruction may be anything: what follows it, too. */
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, read - at,
							 &instruction, operands)))
			return -ENOENT;
		for (unsigned i = 0; i < instruction.operand_count_visible && r >= 0; i++)
			r = add_operand(f, &instruction, &operands[i], function + at);
	}
	return r;
}

/* Whether there is a function: 1, 0, or an error. */
static int is_function(struct finder *f, uint64_t address)
{
	struct word word;
	int r = elf_words_get(f->words, address, &word);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return rtti_is_code(&f->slots, &word) ||
	       (word.is_relocated && word_is_external(word.value) && !word_addend(word.value));
}

/* Reads up to size bytes, fewer where the segment ends. */
static int read_bytes(struct finder *f, uint64_t address, void *ret, size_t size, size_t *ret_size)
{
	uint64_t offset, room;
	int r = elf_image_locate(f->image, address, &offset, &room);

	if (r < 0)
		return r;
	*ret_size = MIN(room, (uint64_t)size);
	return elf_image_read(f->image, offset, ret, *ret_size);
}

static int locate_string(struct finder *f, const struct elf_table *table, uint32_t entry,
			 uint64_t *ret)
{
	struct word word;
	int32_t distance;
	size_t size;
	int r;

	if (table->form == TABLE_DISTANCES) {
		r = read_bytes(f, table->address + 4ull * entry, &distance, sizeof(distance),
			       &size);
		if (r >= 0 && size < sizeof(distance))
			r = -ENOENT;
		*ret = r < 0 ? 0 : table->address + (uint64_t)(int64_t)distance;
		return r;
	}
	r = elf_words_get(f->words, table->address + 8ull * entry, &word);
	if (r >= 0 && (!word.may_point || rtti_is_code(&f->slots, &word)))
		r = -ENOENT;
	if (r >= 0)
		*ret = word.value;
	return r;
}

static int read_string(struct finder *f, const struct elf_table *table, uint32_t entry,
		       char ret[TABLE_STRING_MAX + 1])
{
	uint64_t address;
	size_t size;
	int r = locate_string(f, table, entry, &address);

	if (r >= 0)
		r = read_bytes(f, address, ret, TABLE_STRING_MAX + 1, &size);
	if (r < 0)
		return r;
	if (!*ret || !memchr(ret, 0, size))
		return -ENOENT;
	for (const char *c = ret; *c; c++)
		if (!isprint((unsigned char)*c))
			return -ENOENT;
	return 0;
}

static int count_entries(struct finder *f, struct elf_table *table, uint32_t limit)
{
	char text[TABLE_STRING_MAX + 1];
	int r = 1;

	for (table->n = 0; table->n < limit && r > 0; table->n += r > 0) {
		if (table->form == TABLE_FUNCTIONS) {
			r = is_function(f, table->address + 8ull * table->n);
			continue;
		}
		r = read_string(f, table, table->n, text);
		r = r == -ENOENT ? 0 : r < 0 ? r : 1;
	}
	return MIN(r, 0);
}

/* Follows one step: the only function that is at that word of what the code refers to. */
static int follow(struct finder *f, unsigned step, uint64_t *ret_function)
{
	uint64_t found = 0;

	for (unsigned i = 0; i < f->n_references; i++) {
		struct word word;
		int r = elf_words_get(f->words, f->references[i] + 8ull * step, &word);

		if (r < 0 && r != -ENOENT)
			return r;
		if (r < 0 || !rtti_is_code(&f->slots, &word) || word.value == found)
			continue;
		if (found)
			return -ENOTUNIQ;
		found = word.value;
	}
	*ret_function = found;
	return found ? 0 : -ENOENT;
}

/* The only table of the form with enough entries that the code refers to, beside what was found
 * already. */
static int choose(struct finder *f, uint32_t at_least, enum table_form form, struct elf_table *ret)
{
	for (unsigned i = 0; i < f->n_references; i++) {
		struct elf_table table = { .address = f->references[i], .form = form };
		int r = count_entries(f, &table, at_least);

		if (r < 0)
			return r;
		if (table.n < at_least)
			continue;
		if (ret->n)
			return -ENOTUNIQ;
		*ret = table;
	}
	return 0;
}

/* Decodes the functions of the path, up to the one whose code refers to the table. */
static int follow_path(struct finder *f, const struct table_path *path)
{
	uint64_t function;
	int r = elf_lookup(f->image, path->function, &function);

	if (r >= 0)
		r = collect_references(f, function);
	for (unsigned i = 0; i < MIN(path->n_steps, TABLE_STEPS_MAX) && r >= 0; i++) {
		r = follow(f, path->steps[i], &function);
		if (r >= 0)
			r = collect_references(f, function);
	}
	return r;
}

static int find(struct finder *f, const struct table_path *path, enum table_form first,
		enum table_form last, struct elf_table *ret)
{
	struct elf_table table = {};
	int r = follow_path(f, path);

	for (enum table_form form = first; form <= last && r >= 0; form++)
		r = choose(f, MAX(path->at_least, (uint16_t)1), form, &table);
	if (r >= 0 && !table.n)
		r = -ENOENT;
	if (r >= 0)
		r = count_entries(f, &table, TABLE_ENTRIES_MAX);
	if (r >= 0)
		*ret = table;
	return r;
}

int elf_table_of_functions(const struct elf_image *image, struct elf_words *words,
			   const struct table_path *path, struct elf_table *ret)
{
	struct finder f;

	finder_init(&f, image, words);
	return find(&f, path, TABLE_FUNCTIONS, TABLE_FUNCTIONS, ret);
}

int elf_table_of_strings(const struct elf_image *image, struct elf_words *words,
			 const struct table_path *path, struct elf_table *ret)
{
	struct finder f;

	finder_init(&f, image, words);
	return find(&f, path, TABLE_STRINGS, TABLE_DISTANCES, ret);
}

int elf_table_function(const struct elf_image *image, struct elf_words *words,
		       const struct elf_table *table, uint32_t entry, uint64_t *ret_address)
{
	struct finder f;
	struct word word;
	int r;

	if (entry >= table->n)
		return -ENOENT;
	finder_init(&f, image, words);
	r = elf_words_get(words, table->address + 8ull * entry, &word);
	if (r >= 0 && !rtti_is_code(&f.slots, &word))
		r = -ENOENT;
	if (r >= 0)
		*ret_address = word.value;
	return r;
}

int elf_table_string(const struct elf_image *image, struct elf_words *words,
		     const struct elf_table *table, uint32_t entry, char ret[TABLE_STRING_MAX + 1])
{
	struct finder f;

	if (entry >= table->n)
		return -ENOENT;
	finder_init(&f, image, words);
	return read_string(&f, table, entry, ret);
}
