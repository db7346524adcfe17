/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions of an ELF file by their (mangled) names, many patterns in one pass over .symtab
 * and .dynsym, and over the symbols that a stripped file has elsewhere (debug.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/elf/image.h"

#define SYMBOLS_PATTERNS_MAX 1024
#define SYMBOLS_MAX (16u << 20)
#define SYMBOLS_MATCHES_MAX 65536
/* Longer names are never matched; the longest in TensorFlow 2.21 has 21,343 bytes. */
#define SYMBOLS_NAME_MAX 65535

/* A pattern for a whole name: '*' matches any bytes or none, '?' one byte. */
struct symbol_pattern {
	const char *text; /* 1 to 255 bytes */
};

/* Where the address of a function comes from. */
enum symbol_source {
	SYMBOL_SYMTAB,
	SYMBOL_DYNSYM,
	SYMBOL_DEBUGDATA,  /* .symtab of the ELF file in .gnu_debugdata */
	SYMBOL_DEBUG_FILE, /* .symtab of a separate debug file */
	SYMBOL_RTTI,       /* a slot of a C++ class's virtual table (rtti.h) */
	SYMBOL_USDT,       /* a note of the file */
	SYMBOL_TABLE,      /* an entry of a table of functions (table.h) */
	SYMBOL_JUMP,       /* the target of an exported function's jump */
	SYMBOL_WORD,       /* what a word of an exported object leads to */
};

/* The source as text, such as ".dynsym"; never NULL. */
const char *symbol_source_name(enum symbol_source source);

/* One function that matches. */
struct symbol_match {
	size_t pattern;   /* index into the patterns */
	const char *name; /* mangled; lives until the callback returns */
	uint64_t address; /* virtual, as in the file */
	uint64_t size;    /* bytes, never 0 */
	uint64_t offset;  /* of the entry in the file, inside executable code */
	enum symbol_source source;
	uint32_t index; /* of the symbol in its table */
};

/* Returns 0 to continue; another value ends the calls and becomes the result of
 * elf_symbols_match. */
typedef int (*symbol_callback)(const struct symbol_match *match, void *data);

/*
 * Calls callback for each function (local and global, with a size, defined in executable code of
 * the file) whose name matches, in the order of patterns, then of addresses. A function that
 * matches under several names (C1 and C2 constructors, .symtab and .dynsym) is reported once for
 * each pattern, under one of those names. A file without symbols is not an error. Takes a few
 * megabytes of memory; the time is that of reading the string tables once. If a file has no .symtab
 * but .gnu_debugdata, the latter is decompressed; the file is refused if that section is malformed
 * or too large.
 *
 * Returns 0, what the callback returned, -EINVAL for too many patterns or one that is empty or too
 * long, or an error as listed in image.h. Nothing is reported on errors.
 */
int elf_symbols_match(const struct elf_image *image, const struct symbol_pattern *patterns,
		      size_t n_patterns, symbol_callback callback, void *data,
		      const char **ret_reason);

/*
 * The same, with a separate debug file that elf_debug_open has accepted for this image (NULL:
 * none), which is read only if the image has no .symtab. Addresses come from there; code and
 * offsets are those of the image.
 */
int elf_symbols_match_debug(const struct elf_image *image, const struct elf_image *debug_file,
			    const struct symbol_pattern *patterns, size_t n_patterns,
			    symbol_callback callback, void *data, const char **ret_reason);
