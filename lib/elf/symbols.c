/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/pattern.h"

/* Symbols are read, and their names visited in the order of the string table, in batches of this
 * many. */
#define BATCH_SYMBOLS (512u << 10)
#define BLOCK_SYMBOLS (16u << 10)
/* Names that begin in the window are matched in it, so the bytes after it must hold the rest of the
 * longest name. */
#define WINDOW_BYTES (512u << 10)
#define WINDOW_TAIL (SYMBOLS_NAME_MAX + 1u)
/* Patterns read this far from the start or the end of a name, whatever its length. */
#define WINDOW_SLACK (PATTERN_REACH_MAX + 8u)
/*
 * Steps of comparing, and of reading two bytes, in one call: a second or two at most. TensorFlow
 * takes a tenth; without this limit a file whose names overlap (millions of symbols that point into
 * one long string) would cost the square of its size.
 */
#define WORK_MAX (1ull << 30)
#define NAME_BYTES_MAX (64u << 20)

struct candidate {
	uint32_t name;
	uint32_t index;
};

struct found {
	uint64_t address, size, offset;
	uint32_t pattern;
	uint32_t order;
	uint32_t index;
	enum symbol_source source;
	char *name;
};

/* A digest of a set of functions that does not depend on their order. */
struct function_set {
	uint64_t count, sum;
};

struct scan {
	const struct elf_image *file; /* that holds the code */
	/* Whose tables are read: the same, or one with its symbols. */
	const struct elf_image *image;
	enum symbol_source source;
	const char **ret_reason;
	struct pattern *patterns;
	size_t n_patterns;
	bool any_by_end;
	uint64_t work;

	struct candidate *candidates, *scratch;
	size_t n_candidates, candidates_room;
	Elf64_Sym *block;
	char *window;
	struct function_set global; /* of .symtab */

	struct found *found;
	size_t n_found, found_room, name_bytes;
};

static int fail(struct scan *scan, int error, const char *reason)
{
	if (scan->ret_reason)
		*scan->ret_reason = reason;
	return error;
}

static int fail_memory(struct scan *scan)
{
	return fail(scan, -ENOMEM, "out of memory");
}

static int scan_read(struct scan *scan, uint64_t offset, void *buffer, size_t size)
{
	int r = elf_image_read(scan->image, offset, buffer, size);

	if (r < 0)
		return fail(scan, r,
			    r == -EBADMSG ? "the file shrank while it was read"
					  : "the file cannot be read");
	return 0;
}

static void scan_free(struct scan *scan)
{
	for (size_t i = 0; i < scan->n_found; i++)
		free(scan->found[i].name);
	free(scan->found);
	free(scan->patterns);
	free(scan->candidates);
	free(scan->scratch);
	free(scan->block);
	free(scan->window);
}

static int compile_patterns(struct scan *scan, const struct symbol_pattern *patterns, size_t n)
{
	if (n > SYMBOLS_PATTERNS_MAX)
		return fail(scan, -EINVAL, "too many symbol patterns");
	scan->patterns = calloc(n, sizeof(*scan->patterns));
	if (!scan->patterns)
		return fail_memory(scan);
	for (size_t i = 0; i < n; i++) {
		if (pattern_compile(patterns[i].text, &scan->patterns[i]) < 0)
			return fail(scan, -EINVAL, "a symbol pattern is empty or too long");
		scan->any_by_end |= scan->patterns[i].by_end;
	}
	scan->n_patterns = n;
	return 0;
}

static int add_found(struct scan *scan, const struct found *found, const char *name)
{
	size_t length = strlen(name);
	char *copy;

	if (scan->n_found == SYMBOLS_MATCHES_MAX || length > NAME_BYTES_MAX - scan->name_bytes)
		return fail(scan, -E2BIG, "too many functions match the symbol patterns");
	if (array_reserve(&scan->found, scan->n_found, &scan->found_room, sizeof(*found), 1) < 0)
		return fail_memory(scan);
	copy = strdup(name);
	if (!copy)
		return fail_memory(scan);
	scan->name_bytes += length;
	scan->found[scan->n_found] = *found;
	scan->found[scan->n_found].name = copy;
	scan->found[scan->n_found].order = (uint32_t)scan->n_found;
	scan->n_found++;
	return 0;
}

/* Compares a name that may match in full. */
static int match_name(struct scan *scan, const Elf64_Shdr *table, const char *name,
		      uint32_t symbol_index, uint32_t pattern)
{
	struct found found = { .pattern = pattern, .index = symbol_index, .source = scan->source };
	Elf64_Sym symbol;
	int r;

	if (!pattern_matches(&scan->patterns[pattern], name, &scan->work))
		return 0;
	r = scan_read(scan, table->sh_offset + (uint64_t)symbol_index * sizeof(symbol), &symbol,
		      sizeof(symbol));
	if (r < 0)
		return r;
	found.address = symbol.st_value;
	found.size = symbol.st_size;
	if (elf_image_code_offset(scan->file, symbol.st_value, &found.offset) < 0)
		return 0;
	return add_found(scan, &found, name);
}

/* Compares the name with all patterns; it ends within room bytes, or is too long. */
static int match_candidate(struct scan *scan, const Elf64_Shdr *table, const char *name,
			   size_t room, uint32_t index)
{
	size_t length = scan->any_by_end ? strnlen(name, room) : SIZE_MAX;

	scan->work += 1 + (scan->any_by_end ? length / 16 : 0);
	for (uint32_t i = 0; i < scan->n_patterns; i++) {
		const struct pattern *pattern = &scan->patterns[i];
		int r;

		if (!(pattern->by_end ? pattern_may_end(pattern, name, length)
				      : pattern_may_begin(pattern, name)))
			continue;
		if (length == SIZE_MAX) {
			length = strnlen(name, room);
			scan->work += length / 16;
		}
		if (length >= room)
			return 0;
		r = match_name(scan, table, name, index, i);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Sorts the candidates by name, so that the string table is read once and in order. They are often
 * sorted already. */
static void sort_candidates(struct scan *scan)
{
	for (unsigned shift = 0; shift < 32; shift += 8) {
		size_t start[256] = { 0 }, sum = 0;
		struct candidate *sorted = scan->scratch;

		for (size_t i = 0; i < scan->n_candidates; i++)
			start[scan->candidates[i].name >> shift & 255]++;
		for (size_t i = 0; i < 256; i++) {
			size_t count = start[i];

			start[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < scan->n_candidates; i++)
			sorted[start[scan->candidates[i].name >> shift & 255]++] =
				scan->candidates[i];
		scan->scratch = scan->candidates;
		scan->candidates = sorted;
	}
}

static int match_batch(struct scan *scan, const Elf64_Shdr *table, const Elf64_Shdr *strings)
{
	bool sorted = true;
	size_t i;
	int r = 0;

	for (i = 1; i < scan->n_candidates && sorted; i++)
		sorted = scan->candidates[i - 1].name <= scan->candidates[i].name;
	if (!sorted)
		sort_candidates(scan);
	for (i = 0; i < scan->n_candidates;) {
		uint32_t begin = scan->candidates[i].name;
		size_t size = MIN(strings->sh_size - begin, WINDOW_BYTES + WINDOW_TAIL);

		r = scan_read(scan, strings->sh_offset + begin, scan->window, size);
		if (r < 0)
			return r;
		memset(scan->window + size, 0, WINDOW_SLACK);
		scan->work += size / 2;
		for (; i < scan->n_candidates &&
		       scan->candidates[i].name - begin < MIN(size, WINDOW_BYTES);
		     i++) {
			size_t at = scan->candidates[i].name - begin;

			r = match_candidate(scan, table, scan->window + at,
					    MIN(size - at, WINDOW_TAIL), scan->candidates[i].index);
			if (r < 0)
				return r;
			if (scan->work > WORK_MAX)
				return fail(scan, -E2BIG,
					    "the symbol names take too long to compare");
		}
	}
	scan->n_candidates = 0;
	return 0;
}

static int check_table(struct scan *scan, const Elf64_Shdr *table)
{
	const Elf64_Shdr *strings = elf_image_section(scan->image, table->sh_link);
	uint64_t file_size = elf_image_size(scan->image);
	char last;
	int r;

	if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_size % sizeof(Elf64_Sym) ||
	    table->sh_offset > file_size || table->sh_size > file_size - table->sh_offset)
		return fail(scan, -EBADMSG,
			    "an ELF symbol table is malformed or lies outside the file");
	if (table->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return fail(scan, -E2BIG, "the ELF file has too many symbols");
	if (!strings || strings->sh_type != SHT_STRTAB || strings->sh_size == 0 ||
	    strings->sh_size > UINT32_MAX || strings->sh_offset > file_size ||
	    strings->sh_size > file_size - strings->sh_offset)
		return fail(scan, -EBADMSG,
			    "an ELF string table is malformed or lies outside the file");
	r = scan_read(scan, strings->sh_offset + strings->sh_size - 1, &last, 1);
	if (r < 0)
		return r;
	if (last)
		return fail(scan, -EBADMSG, "an ELF string table does not end with a NUL byte");
	return 0;
}

/* Whether a symbol can be a function to probe; labels in assembly have a size of 0. */
static bool is_function(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_size > 0;
}

/* Adds a symbol to the set if the dynamic linker could see it. */
static void add_global(struct function_set *set, const Elf64_Sym *symbol)
{
	uint64_t key = symbol->st_value * 0x9e3779b97f4a7c15 ^ symbol->st_size;

	if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
		return;
	key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9;
	set->count++;
	set->sum += key ^ key >> 32;
}

static int read_block(struct scan *scan, const Elf64_Shdr *table, uint32_t begin,
		      uint32_t *ret_count)
{
	uint32_t n = (uint32_t)MIN(table->sh_size / sizeof(Elf64_Sym) - begin, BLOCK_SYMBOLS);
	int r;

	r = scan_read(scan, table->sh_offset + (uint64_t)begin * sizeof(Elf64_Sym), scan->block,
		      n * sizeof(Elf64_Sym));
	if (r < 0)
		return r;
	*ret_count = n;
	return 0;
}

/*
 * Whether .dynsym has exactly the global functions of .symtab, which was scanned before. Linkers
 * produce such tables, and then the names of .dynsym (80 MB in TensorFlow) need not be read. A
 * table that was edited afterwards differs and is scanned.
 */
static int is_same_set(struct scan *scan, const Elf64_Shdr *table, bool *ret)
{
	uint32_t n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym)), n;
	struct function_set set = { 0 };
	int r;

	for (uint32_t begin = 0; begin < n_symbols; begin += n) {
		r = read_block(scan, table, begin, &n);
		if (r < 0)
			return r;
		for (uint32_t i = 0; i < n; i++)
			if (is_function(&scan->block[i]))
				add_global(&set, &scan->block[i]);
	}
	*ret = set.count == scan->global.count && set.sum == scan->global.sum;
	return 0;
}

/* Makes room for the candidates of a table, which usually has far fewer symbols than a batch. There
 * are no candidates at this point. */
static int reserve_candidates(struct scan *scan, uint32_t n_symbols)
{
	size_t room = MIN(n_symbols, BATCH_SYMBOLS);

	if (room <= scan->candidates_room)
		return 0;
	free(scan->candidates);
	free(scan->scratch);
	scan->candidates = malloc(room * sizeof(*scan->candidates));
	scan->scratch = malloc(room * sizeof(*scan->scratch));
	if (!scan->candidates || !scan->scratch)
		return fail_memory(scan);
	scan->candidates_room = room;
	return 0;
}

static int scan_table(struct scan *scan, const Elf64_Shdr *table, struct function_set *global)
{
	const Elf64_Shdr *strings = elf_image_section(scan->image, table->sh_link);
	uint32_t n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym)), n;
	int r;

	r = reserve_candidates(scan, n_symbols);
	if (r < 0)
		return r;
	for (uint32_t begin = 0; begin < n_symbols; begin += n) {
		r = read_block(scan, table, begin, &n);
		if (r < 0)
			return r;
		for (uint32_t i = 0; i < n; i++) {
			if (!is_function(&scan->block[i]))
				continue;
			if (scan->block[i].st_name >= strings->sh_size)
				return fail(scan, -EBADMSG,
					    "an ELF symbol has its name outside the string table");
			add_global(global, &scan->block[i]);
			scan->candidates[scan->n_candidates++] = (struct candidate){
				.name = scan->block[i].st_name,
				.index = begin + i,
			};
		}
		if (scan->n_candidates > BATCH_SYMBOLS - BLOCK_SYMBOLS || begin + n == n_symbols) {
			r = match_batch(scan, table, strings);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* Scans .symtab of an image if it has one. */
static int scan_symtab(struct scan *scan, const struct elf_image *image, enum symbol_source source)
{
	const Elf64_Shdr *symbols = elf_image_find_section(image, SHT_SYMTAB);
	int r;

	if (!symbols)
		return 0;
	scan->image = image;
	scan->source = source;
	r = check_table(scan, symbols);
	return r < 0 ? r : scan_table(scan, symbols, &scan->global);
}

static int scan_dynsym(struct scan *scan)
{
	const Elf64_Shdr *dynamic = elf_image_find_section(scan->file, SHT_DYNSYM);
	struct function_set ignored = { 0 };
	bool is_known = false;
	int r;

	if (!dynamic)
		return 0;
	scan->image = scan->file;
	scan->source = SYMBOL_DYNSYM;
	r = check_table(scan, dynamic);
	if (r < 0)
		return r;
	if (scan->global.count > 0) {
		r = is_same_set(scan, dynamic, &is_known);
		if (r < 0)
			return r;
	}
	return is_known ? 0 : scan_table(scan, dynamic, &ignored);
}

static int scan_tables(struct scan *scan, const struct elf_image *debug_file)
{
	_cleanup_(elf_image_freep) struct elf_image *embedded = NULL;
	bool is_stripped = !elf_image_find_section(scan->file, SHT_SYMTAB);
	int r;

	r = scan_symtab(scan, scan->file, SYMBOL_SYMTAB);
	if (r < 0)
		return r;
	r = scan_dynsym(scan);
	if (r < 0 || !is_stripped)
		return r;
	r = elf_debug_open_embedded(scan->file, &embedded, scan->ret_reason);
	if (r < 0 && r != -ENOENT)
		return r;
	if (embedded) {
		r = scan_symtab(scan, embedded, SYMBOL_DEBUGDATA);
		if (r < 0)
			return r;
	}
	return debug_file ? scan_symtab(scan, debug_file, SYMBOL_DEBUG_FILE) : 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->pattern != y->pattern)
		return x->pattern < y->pattern ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int report_found(struct scan *scan, symbol_callback callback, void *data)
{
	if (scan->n_found > 1)
		qsort(scan->found, scan->n_found, sizeof(*scan->found), compare_found);
	for (size_t i = 0; i < scan->n_found; i++) {
		const struct found *found = &scan->found[i];
		struct symbol_match match = {
			.pattern = found->pattern,
			.name = found->name,
			.address = found->address,
			.size = found->size,
			.offset = found->offset,
			.source = found->source,
			.index = found->index,
		};
		int r;

		if (i > 0 && found[-1].pattern == found->pattern &&
		    found[-1].address == found->address)
			continue;
		r = callback(&match, data);
		if (r)
			return r;
	}
	return 0;
}

const char *symbol_source_name(enum symbol_source source)
{
	static const char *const names[] = {
		[SYMBOL_SYMTAB] = ".symtab",
		[SYMBOL_DYNSYM] = ".dynsym",
		[SYMBOL_DEBUGDATA] = ".gnu_debugdata",
		[SYMBOL_DEBUG_FILE] = "debug file",
		[SYMBOL_RTTI] = "RTTI",
		[SYMBOL_USDT] = "USDT",
		[SYMBOL_TABLE] = "function table",
		[SYMBOL_JUMP] = "jump",
		[SYMBOL_WORD] = "object",
	};

	return (size_t)source < ARRAY_SIZE(names) ? names[source] : "unknown";
}

int elf_symbols_match_debug(const struct elf_image *image, const struct elf_image *debug_file,
			    const struct symbol_pattern *patterns, size_t n_patterns,
			    symbol_callback callback, void *data, const char **ret_reason)
{
	_cleanup_(scan_free) struct scan scan = { .file = image,
						  .image = image,
						  .ret_reason = ret_reason };
	int r;

	if (n_patterns == 0)
		return 0;
	r = compile_patterns(&scan, patterns, n_patterns);
	if (r < 0)
		return r;
	scan.block = malloc(BLOCK_SYMBOLS * sizeof(*scan.block));
	scan.window = malloc(WINDOW_BYTES + WINDOW_TAIL + WINDOW_SLACK);
	if (!scan.block || !scan.window)
		return fail_memory(&scan);
	r = scan_tables(&scan, debug_file);
	if (r < 0)
		return r;
	return report_found(&scan, callback, data);
}

int elf_symbols_match(const struct elf_image *image, const struct symbol_pattern *patterns,
		      size_t n_patterns, symbol_callback callback, void *data,
		      const char **ret_reason)
{
	return elf_symbols_match_debug(image, NULL, patterns, n_patterns, callback, data,
				       ret_reason);
}
