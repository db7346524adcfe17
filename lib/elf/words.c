/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/words.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"

#define DYNAMIC_ENTRIES_MAX 4096
#define SEGMENTS_MAX 256
#define RELOCATIONS_AT_ONCE 4096
/* For data that is not kept: the unit of a scan, and of the cache for single words. */
#define CHUNK_WORDS (64u << 10)
#define BLOCK_WORDS 512
#define SYMBOLS_AT_ONCE (64u << 10)

/* One segment with data. */
struct span {
	uint64_t address, offset, n_words;
	uint64_t *words;     /* NULL: not kept */
	uint64_t *relocated; /* a bit for each word; NULL: none is */
};

/* The content of PT_DYNAMIC; addresses. */
struct dynamic {
	uint64_t rela, rela_size, relr, relr_size, symbols, strings, strings_size;
};

struct elf_words {
	const struct elf_image *image;
	bool is_fixed;
	struct span spans[WORDS_SPANS_MAX];
	size_t n_spans;
	Elf64_Sym *symbols;
	uint32_t n_symbols;
	uint64_t symbols_offset, symbols_room;
	uint64_t strings_offset, strings_size;
	uint64_t block[BLOCK_WORDS], block_address, block_size;
};

static int fail(const char **ret_reason, int error, const char *reason)
{
	if (ret_reason)
		*ret_reason = reason;
	return error;
}

static bool test_bit(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static bool is_data(const struct elf_image *image, const Elf64_Phdr *segment, bool takes_code)
{
	return segment->p_type == PT_LOAD && segment->p_filesz >= 16 &&
	       (segment->p_flags & PF_W ||
		(elf_image_is_fixed(image) && (takes_code || !(segment->p_flags & PF_X))));
}

/* Old linkers put constants into the segment of the code, if no other segment is read-only. */
static bool has_constants_in_code(const struct elf_image *image)
{
	const Elf64_Phdr *segment;

	for (size_t i = 0; (segment = elf_image_segment(image, i)); i++)
		if (segment->p_type == PT_LOAD && !(segment->p_flags & (PF_X | PF_W)))
			return false;
	return true;
}

static int add_span(struct elf_words *words, const Elf64_Phdr *segment, uint64_t *loaded,
		    uint64_t *scanned, const char **ret_reason)
{
	uint64_t skip = -segment->p_vaddr & 7, size = segment->p_filesz - skip,
		 file_size = elf_image_size(words->image);
	struct span *span = &words->spans[words->n_spans];
	int r;

	if (segment->p_offset > file_size || segment->p_filesz > file_size - segment->p_offset ||
	    segment->p_vaddr >= WORD_EXTERNAL ||
	    segment->p_filesz > WORD_EXTERNAL - segment->p_vaddr)
		return fail(ret_reason, -EBADMSG, "an ELF segment with data lies outside the file");
	if (words->n_spans == WORDS_SPANS_MAX)
		return fail(ret_reason, -E2BIG, "the ELF file has too many segments with data");
	if (words->n_spans > 0 && segment->p_vaddr < span[-1].address + span[-1].n_words * 8)
		return fail(ret_reason, -EBADMSG,
			    "the ELF segments with data overlap or are not sorted");
	*span = (struct span){
		.address = segment->p_vaddr + skip,
		.offset = segment->p_offset + skip,
		.n_words = size / 8,
	};
	words->n_spans++;
	if (!(segment->p_flags & PF_W)) {
		*scanned += size;
		return *scanned > WORDS_SCANNED_MAX
			       ? fail(ret_reason, -E2BIG, "the ELF file has too much data")
			       : 0;
	}
	*loaded += size;
	if (*loaded > WORDS_LOADED_MAX)
		return fail(ret_reason, -E2BIG, "the ELF file has too much writable data");
	span->words = malloc(span->n_words * 8);
	span->relocated = calloc(span->n_words / 64 + 1, 8);
	if (!span->words || !span->relocated)
		return fail(ret_reason, -ENOMEM, "out of memory");
	r = elf_image_read(words->image, span->offset, span->words, span->n_words * 8);
	return r < 0 ? fail(ret_reason, r, "the data of the ELF file cannot be read") : 0;
}

static int add_spans(struct elf_words *words, const char **ret_reason)
{
	bool takes_code = has_constants_in_code(words->image);
	uint64_t loaded = 0, scanned = 0;
	const Elf64_Phdr *segment;

	for (size_t i = 0; (segment = elf_image_segment(words->image, i)); i++) {
		int r;

		/* Each lookup of an address goes through all of them. */
		if (i == SEGMENTS_MAX)
			return fail(ret_reason, -E2BIG, "the ELF file has too many segments");
		if (!is_data(words->image, segment, takes_code))
			continue;
		r = add_span(words, segment, &loaded, &scanned, ret_reason);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The span that contains the whole word at an address, and the word's index in it. */
static struct span *find_span(struct elf_words *words, uint64_t address, uint64_t *ret_index)
{
	if (address % 8)
		return NULL;
	for (size_t i = 0; i < words->n_spans; i++) {
		struct span *span = &words->spans[i];

		if (address >= span->address && (address - span->address) / 8 < span->n_words) {
			*ret_index = (address - span->address) / 8;
			return span;
		}
	}
	return NULL;
}

static int read_dynamic(const struct elf_image *image, struct dynamic *ret, const char **ret_reason)
{
	const Elf64_Phdr *segment;
	Elf64_Dyn entry;

	for (size_t i = 0; (segment = elf_image_segment(image, i)); i++)
		if (segment->p_type == PT_DYNAMIC)
			break;
	if (!segment)
		return 0;
	for (uint64_t i = 0; i < MIN(segment->p_filesz / sizeof(entry), DYNAMIC_ENTRIES_MAX); i++) {
		uint64_t offset, room;

		if (elf_image_locate(image, segment->p_vaddr + i * sizeof(entry), &offset, &room) <
			    0 ||
		    room < sizeof(entry) ||
		    elf_image_read(image, offset, &entry, sizeof(entry)) < 0)
			return fail(ret_reason, -EBADMSG,
				    "the dynamic section lies outside the file");
		switch (entry.d_tag) {
		case DT_NULL:
			return 0;
		case DT_RELA:
			ret->rela = entry.d_un.d_ptr;
			break;
		case DT_RELASZ:
			ret->rela_size = entry.d_un.d_val;
			break;
		case DT_RELR:
			ret->relr = entry.d_un.d_ptr;
			break;
		case DT_RELRSZ:
			ret->relr_size = entry.d_un.d_val;
			break;
		case DT_SYMTAB:
			ret->symbols = entry.d_un.d_ptr;
			break;
		case DT_STRTAB:
			ret->strings = entry.d_un.d_ptr;
			break;
		case DT_STRSZ:
			ret->strings_size = entry.d_un.d_val;
			break;
		}
	}
	return 0;
}

/* Reads symbols up to this one, and ahead: only the relocations show how many there are. */
static int need_symbol(struct elf_words *words, uint32_t symbol, const char **ret_reason)
{
	uint64_t count = MIN(words->symbols_room / sizeof(Elf64_Sym), WORDS_SYMBOLS_MAX);
	Elf64_Sym *grown;
	int r;

	if (symbol < words->n_symbols)
		return 0;
	if (symbol >= count)
		return symbol < WORDS_SYMBOLS_MAX
			       ? fail(ret_reason, -EBADMSG, "a relocation refers to no symbol")
			       : fail(ret_reason, -E2BIG, "the ELF file has too many symbols");
	count = MIN(count, MAX(symbol + 1ull, 2ull * words->n_symbols + SYMBOLS_AT_ONCE));
	grown = realloc(words->symbols, count * sizeof(*grown));
	if (!grown)
		return fail(ret_reason, -ENOMEM, "out of memory");
	words->symbols = grown;
	r = elf_image_read(words->image, words->symbols_offset + words->n_symbols * sizeof(*grown),
			   grown + words->n_symbols, (count - words->n_symbols) * sizeof(*grown));
	if (r < 0)
		return fail(ret_reason, r, "the dynamic symbols cannot be read");
	words->n_symbols = (uint32_t)count;
	return 0;
}

static uint64_t symbol_value(const struct elf_words *words, uint32_t symbol, int64_t addend)
{
	const Elf64_Sym *s = &words->symbols[symbol];
	uint64_t value = s->st_value + (uint64_t)addend;

	if (s->st_shndx != SHN_UNDEF)
		return value & WORD_EXTERNAL ? WORD_UNKNOWN : value;
	if (addend < 0 || addend > 0xffff)
		return WORD_UNKNOWN;
	return WORD_EXTERNAL | (uint64_t)symbol << 16 | (uint64_t)addend;
}

static int apply_relocation(struct elf_words *words, const Elf64_Rela *relocation,
			    const char **ret_reason)
{
	uint32_t symbol = ELF64_R_SYM(relocation->r_info);
	uint64_t index, value;
	struct span *span = find_span(words, relocation->r_offset, &index);
	int r;

	if (!span || !span->words)
		return 0;
	switch (ELF64_R_TYPE(relocation->r_info)) {
	case R_X86_64_NONE:
		return 0;
	case R_X86_64_RELATIVE:
		value = relocation->r_addend < 0 ? WORD_UNKNOWN : (uint64_t)relocation->r_addend;
		break;
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
		r = need_symbol(words, symbol, ret_reason);
		if (r < 0)
			return r;
		value = symbol_value(words, symbol, relocation->r_addend);
		break;
	default:
		value = WORD_UNKNOWN;
	}
	span->words[index] = value;
	span->relocated[index / 64] |= 1ull << index % 64;
	return 0;
}

/* The file offset of a table of relocations with this entry size; *ret_count is 0 if there is
 * none. */
static int find_table(const struct elf_image *image, uint64_t address, uint64_t size,
		      size_t entry_size, uint64_t *ret_offset, uint64_t *ret_count,
		      const char **ret_reason)
{
	uint64_t room;

	*ret_count = size / entry_size;
	if (*ret_count == 0)
		return 0;
	if (elf_image_locate(image, address, ret_offset, &room) < 0 || size > room)
		return fail(ret_reason, -EBADMSG, "the relocations lie outside the file");
	if (*ret_count > WORDS_RELOCATIONS_MAX)
		return fail(ret_reason, -E2BIG, "the ELF file has too many relocations");
	return 0;
}

static int apply_rela(struct elf_words *words, const struct dynamic *dynamic,
		      const char **ret_reason)
{
	_cleanup_free_ Elf64_Rela *some = NULL;
	uint64_t offset, count;
	int r;

	r = find_table(words->image, dynamic->rela, dynamic->rela_size, sizeof(*some), &offset,
		       &count, ret_reason);
	if (r < 0 || count == 0)
		return r;
	some = malloc(RELOCATIONS_AT_ONCE * sizeof(*some));
	if (!some)
		return fail(ret_reason, -ENOMEM, "out of memory");
	while (count > 0) {
		size_t n = MIN(count, RELOCATIONS_AT_ONCE);

		r = elf_image_read(words->image, offset, some, n * sizeof(*some));
		if (r < 0)
			return fail(ret_reason, r, "the relocations cannot be read");
		for (size_t i = 0; i < n; i++) {
			r = apply_relocation(words, &some[i], ret_reason);
			if (r < 0)
				return r;
		}
		offset += n * sizeof(*some);
		count -= n;
	}
	return 0;
}

/* The word already holds the address that it points to, relative to 0. */
static void mark_relative(struct elf_words *words, uint64_t address)
{
	uint64_t index;
	struct span *span = find_span(words, address, &index);

	if (!span || !span->words)
		return;
	if (span->words[index] & WORD_EXTERNAL)
		span->words[index] = WORD_UNKNOWN;
	span->relocated[index / 64] |= 1ull << index % 64;
}

/* An even entry is the address of a word; an odd one has a bit for each of the 63 words that
 * follow. */
static int apply_relr(struct elf_words *words, const struct dynamic *dynamic,
		      const char **ret_reason)
{
	_cleanup_free_ uint64_t *some = NULL;
	uint64_t offset, count, at = 0;
	int r;

	r = find_table(words->image, dynamic->relr, dynamic->relr_size, sizeof(*some), &offset,
		       &count, ret_reason);
	if (r < 0 || count == 0)
		return r;
	some = malloc(RELOCATIONS_AT_ONCE * sizeof(*some));
	if (!some)
		return fail(ret_reason, -ENOMEM, "out of memory");
	while (count > 0) {
		size_t n = MIN(count, RELOCATIONS_AT_ONCE);

		r = elf_image_read(words->image, offset, some, n * sizeof(*some));
		if (r < 0)
			return fail(ret_reason, r, "the relocations cannot be read");
		for (size_t i = 0; i < n; i++) {
			if (some[i] & 1) {
				for (uint64_t bits = some[i] >> 1; bits; bits &= bits - 1)
					mark_relative(words,
						      at + 8 * (uint64_t)__builtin_ctzll(bits));
				at += 63 * 8;
			} else {
				mark_relative(words, some[i]);
				at = some[i] + 8;
			}
		}
		offset += n * sizeof(*some);
		count -= n;
	}
	return 0;
}

int elf_words_open(const struct elf_image *image, struct elf_words **ret, const char **ret_reason)
{
	_cleanup_(elf_words_freep) struct elf_words *words = NULL;
	struct dynamic dynamic = { 0 };
	uint64_t room;
	int r;

	words = calloc(1, sizeof(*words));
	if (!words)
		return fail(ret_reason, -ENOMEM, "out of memory");
	words->image = image;
	words->is_fixed = elf_image_is_fixed(image);
	r = add_spans(words, ret_reason);
	if (r < 0)
		return r;
	r = read_dynamic(image, &dynamic, ret_reason);
	if (r < 0)
		return r;
	if (dynamic.symbols && elf_image_locate(image, dynamic.symbols, &words->symbols_offset,
						&words->symbols_room) < 0)
		return fail(ret_reason, -EBADMSG, "the dynamic symbols lie outside the file");
	if (dynamic.strings) {
		if (elf_image_locate(image, dynamic.strings, &words->strings_offset, &room) < 0)
			return fail(ret_reason, -EBADMSG,
				    "the dynamic strings lie outside the file");
		words->strings_size = MIN(dynamic.strings_size, room);
	}
	/* RELR reads the words that RELA may write, so it comes first. */
	r = apply_relr(words, &dynamic, ret_reason);
	if (r < 0)
		return r;
	r = apply_rela(words, &dynamic, ret_reason);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(words);
	return 0;
}

struct elf_words *elf_words_free(struct elf_words *words)
{
	if (words) {
		for (size_t i = 0; i < words->n_spans; i++) {
			free(words->spans[i].words);
			free(words->spans[i].relocated);
		}
		free(words->symbols);
		free(words);
	}
	return NULL;
}

/* A word of a span that is not kept, from a block that is read around it. */
static int read_word(struct elf_words *words, const struct span *span, uint64_t index,
		     uint64_t *ret)
{
	uint64_t address = span->address + index * 8, first = index - index % BLOCK_WORDS;
	int r;

	if (address < words->block_address || address - words->block_address >= words->block_size) {
		uint64_t n = MIN(span->n_words - first, BLOCK_WORDS);

		words->block_size = 0;
		r = elf_image_read(words->image, span->offset + first * 8, words->block, n * 8);
		if (r < 0)
			return r;
		words->block_address = span->address + first * 8;
		words->block_size = n * 8;
	}
	*ret = words->block[(address - words->block_address) / 8];
	return 0;
}

int elf_words_get(struct elf_words *words, uint64_t address, struct word *ret)
{
	uint64_t index, value;
	const struct span *span = find_span(words, address, &index);
	bool is_relocated;
	int r;

	if (!span)
		return -ENOENT;
	if (!span->words) {
		r = read_word(words, span, index, &value);
		if (r < 0)
			return r;
		*ret = (struct word){ .value = value, .may_point = !(value & WORD_EXTERNAL) };
		return 0;
	}
	is_relocated = test_bit(span->relocated, index);
	value = span->words[index];
	*ret = (struct word){
		.value = value,
		.is_relocated = is_relocated,
		.may_point = is_relocated || (words->is_fixed && !(value & WORD_EXTERNAL)),
	};
	return 0;
}

/* The pointers of a file that is not fixed are the relocated words only. */
static int scan_relocated(const struct span *span, word_callback callback, void *data)
{
	for (uint64_t i = 0; i < span->n_words / 64 + 1; i++)
		for (uint64_t bits = span->relocated[i]; bits; bits &= bits - 1) {
			uint64_t index = i * 64 + (uint64_t)__builtin_ctzll(bits);
			int r = span->words[index] ? callback(span->address + index * 8,
							      span->words[index], data)
						   : 0;

			if (r)
				return r;
		}
	return 0;
}

static int scan_fixed(const struct span *span, const uint64_t *some, uint64_t first, uint64_t n,
		      word_callback callback, void *data)
{
	for (uint64_t i = 0; i < n; i++) {
		bool is_pointer = !(some[i] & WORD_EXTERNAL) ||
				  (span->words && test_bit(span->relocated, first + i));
		int r = some[i] && is_pointer
				? callback(span->address + (first + i) * 8, some[i], data)
				: 0;

		if (r)
			return r;
	}
	return 0;
}

int elf_words_scan(struct elf_words *words, word_callback callback, void *data)
{
	_cleanup_free_ uint64_t *chunk = NULL;
	int r = 0;

	for (size_t i = 0; i < words->n_spans && !r; i++) {
		const struct span *span = &words->spans[i];

		if (!words->is_fixed) {
			r = scan_relocated(span, callback, data);
			continue;
		}
		if (span->words) {
			r = scan_fixed(span, span->words, 0, span->n_words, callback, data);
			continue;
		}
		if (!chunk)
			chunk = malloc(CHUNK_WORDS * sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		for (uint64_t first = 0; first < span->n_words && !r; first += CHUNK_WORDS) {
			uint64_t n = MIN(span->n_words - first, CHUNK_WORDS);

			r = elf_image_read(words->image, span->offset + first * 8, chunk, n * 8);
			if (!r)
				r = scan_fixed(span, chunk, first, n, callback, data);
		}
	}
	return r;
}

uint32_t elf_words_symbols(const struct elf_words *words)
{
	return words->n_symbols;
}

int elf_words_symbol_name(const struct elf_words *words, uint32_t symbol, uint64_t *ret_offset,
			  uint64_t *ret_room)
{
	if (symbol >= words->n_symbols || words->symbols[symbol].st_name >= words->strings_size)
		return -ENOENT;
	*ret_offset = words->strings_offset + words->symbols[symbol].st_name;
	*ret_room = words->strings_size - words->symbols[symbol].st_name;
	return 0;
}
