/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/lookup.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/macro.h"

#define NAME_MAX_BYTES 256
/* Of one hash chain; real ones have a handful. */
#define CHAIN_MAX 4096

/* The head of .gnu.hash, before the bloom filter, the buckets and the chains. */
struct gnu_hash {
	uint32_t n_buckets, first_symbol, n_bloom, bloom_shift;
};

static uint32_t hash_name(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* Whether symbol i of .dynsym is that name and defined here. */
static int check_symbol(const struct elf_image *image, const Elf64_Shdr *symbols,
			const Elf64_Shdr *strings, uint64_t i, const char *name,
			uint64_t *ret_address)
{
	size_t size = strlen(name) + 1;
	char found[NAME_MAX_BYTES];
	Elf64_Sym symbol;
	int r;

	if (i >= symbols->sh_size / sizeof(symbol))
		return -EBADMSG;
	r = elf_image_read(image, symbols->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol));
	if (r < 0)
		return r;
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings->sh_size ||
	    size > strings->sh_size - symbol.st_name)
		return -ENOENT;
	r = elf_image_read(image, strings->sh_offset + symbol.st_name, found, size);
	if (r < 0)
		return r;
	if (memcmp(found, name, size))
		return -ENOENT;
	*ret_address = symbol.st_value;
	return 0;
}

int elf_lookup(const struct elf_image *image, const char *name, uint64_t *ret_address)
{
	const Elf64_Shdr *table = elf_image_find_section(image, SHT_GNU_HASH),
			 *symbols = elf_image_find_section(image, SHT_DYNSYM);
	const Elf64_Shdr *strings = symbols ? elf_image_section(image, symbols->sh_link) : NULL;
	uint32_t hash = hash_name(name), at, word;
	uint64_t buckets, chains;
	struct gnu_hash head;
	int r;

	if (!table || !strings || strlen(name) >= NAME_MAX_BYTES)
		return -ENOENT;
	r = elf_image_read(image, table->sh_offset, &head, sizeof(head));
	if (r < 0)
		return r;
	if (!head.n_buckets)
		return -ENOENT;
	buckets = table->sh_offset + sizeof(head) + (uint64_t)head.n_bloom * 8;
	chains = buckets + (uint64_t)head.n_buckets * 4;
	r = elf_image_read(image, buckets + (uint64_t)(hash % head.n_buckets) * 4, &at, sizeof(at));
	if (r < 0)
		return r;
	if (at < head.first_symbol)
		return -ENOENT;
	for (unsigned i = 0; i < CHAIN_MAX; i++) {
		r = elf_image_read(image, chains + ((uint64_t)at - head.first_symbol + i) * 4,
				   &word, sizeof(word));
		if (r < 0)
			return r;
		/* The lowest bit marks the end of a chain. */
		if ((word | 1) == (hash | 1)) {
			r = check_symbol(image, symbols, strings, (uint64_t)at + i, name,
					 ret_address);
			if (r != -ENOENT)
				return r;
		}
		if (word & 1)
			return -ENOENT;
	}
	return -EBADMSG;
}

int elf_lookup_check(const struct elf_image *image, enum symbol_source source, uint32_t index,
		     const char *name, uint64_t offset, uint64_t size)
{
	bool dynamic = source == SYMBOL_DYNSYM;
	const Elf64_Shdr *symbols =
		elf_image_find_section(image, dynamic ? SHT_DYNSYM : SHT_SYMTAB);
	const Elf64_Shdr *strings = symbols ? elf_image_section(image, symbols->sh_link) : NULL;
	_cleanup_free_ char *found = NULL;
	size_t length = strlen(name) + 1;
	uint64_t entry;
	Elf64_Sym symbol;
	int r;

	if ((!dynamic && source != SYMBOL_SYMTAB) || !strings || length > SYMBOLS_NAME_MAX ||
	    index >= symbols->sh_size / sizeof(symbol))
		return -ENOENT;
	r = elf_image_read(image, symbols->sh_offset + (uint64_t)index * sizeof(symbol), &symbol,
			   sizeof(symbol));
	if (r < 0)
		return r;
	if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
	    !symbol.st_size || symbol.st_size != size || symbol.st_name >= strings->sh_size ||
	    length > strings->sh_size - symbol.st_name)
		return -ENOENT;
	if (elf_image_code_offset(image, symbol.st_value, &entry) < 0 || entry != offset)
		return -ENOENT;
	found = malloc(length);
	if (!found)
		return -ENOMEM;
	r = elf_image_read(image, strings->sh_offset + symbol.st_name, found, length);
	if (r < 0)
		return r;
	return memcmp(found, name, length) ? -ENOENT : 0;
}

int elf_data_offset(const struct elf_image *image, uint64_t address, uint64_t *ret_offset)
{
	const Elf64_Shdr *s;

	for (uint32_t i = 0; i < ELF_SECTIONS_MAX && (s = elf_image_section(image, i)); i++)
		if (s->sh_flags & SHF_ALLOC && s->sh_type != SHT_NOBITS && address >= s->sh_addr &&
		    address - s->sh_addr < s->sh_size) {
			*ret_offset = s->sh_offset + (address - s->sh_addr);
			return 0;
		}
	return -ENOENT;
}
