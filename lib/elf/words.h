/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a file's data as the dynamic linker leaves them in memory if the file is loaded at
 * address 0: which of them are pointers, and where they lead. Relocations are those of PT_DYNAMIC
 * (DT_RELA and DT_RELR, x86-64). In a file that is linked to fixed addresses any word may be a
 * pointer as it is. Addresses are virtual, as in the file, and words are those at multiples of 8.
 * Errors and reasons are those of image.h.
 */
#pragma once

#include "lib/elf/image.h"

/* Limits: writable data, which is kept in memory, and data that is read whenever it is needed;
 * relocations; symbols; segments. */
#define WORDS_LOADED_MAX (192u << 20)
#define WORDS_SCANNED_MAX (1ull << 30)
#define WORDS_RELOCATIONS_MAX (16u << 20)
#define WORDS_SYMBOLS_MAX (2u << 20)
#define WORDS_SPANS_MAX 16

/*
 * A value that is not an address of this file: a symbol that another file defines, plus an addend
 * below 65536. Nothing of a file lies at addresses with this bit.
 */
#define WORD_EXTERNAL (1ull << 63)
/* A pointer that is unknown until the program runs. */
#define WORD_UNKNOWN UINT64_MAX

struct elf_words;

struct word {
	uint64_t value;
	bool is_relocated; /* by a relocation: a pointer */
	/* The same, or any word of a file that is linked to fixed addresses. */
	bool may_point;
};

/* Reads the writable data and relocates it. The image must outlive the result. */
int elf_words_open(const struct elf_image *image, struct elf_words **ret, const char **ret_reason);
struct elf_words *elf_words_free(struct elf_words *words);

/* One word. -ENOENT: the file has no data at that address, or not a whole word. */
int elf_words_get(struct elf_words *words, uint64_t address, struct word *ret);

/* Called for each word that may point and is not 0, by ascending address; a result other than 0
 * ends it. */
typedef int (*word_callback)(uint64_t address, uint64_t value, void *data);
int elf_words_scan(struct elf_words *words, word_callback callback, void *data);

/* How many symbols relocations may refer to; their indices are below this number. */
uint32_t elf_words_symbols(const struct elf_words *words);

/* The file offset of the name of a symbol, and the number of bytes that may follow it. -ENOENT: no
 * such symbol or name. */
int elf_words_symbol_name(const struct elf_words *words, uint32_t symbol, uint64_t *ret_offset,
			  uint64_t *ret_room);

static inline bool word_is_external(uint64_t value)
{
	return value & WORD_EXTERNAL && value != WORD_UNKNOWN;
}

static inline uint32_t word_symbol(uint64_t value)
{
	return (uint32_t)(value >> 16);
}

static inline uint32_t word_addend(uint64_t value)
{
	return value & 0xffff;
}

static inline void elf_words_freep(struct elf_words **words)
{
	elf_words_free(*words);
}
