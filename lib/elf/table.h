/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a file to which only code leads: of function pointers (an API struct), or of strings.
 * An exported function refers to such a table, or to a struct with a function that does. Nothing of
 * the file is executed: these functions are decoded, and the data that their instructions refer to
 * is read as the dynamic linker leaves it (words.h). Where code refers to several tables that
 * qualify, none is chosen.
 *
 * What refers to data: lea of an address relative to the code; a load of a relocated pointer (the
 * global offset table); in a file that is linked to fixed addresses, a constant, too. As gcc and
 * clang write "return &table", "return table[i]" and "return n < COUNT ? &table : NULL".
 *
 * Errors: -ENOENT (the file exports no such function, or its code leads to no such table),
 * -ENOTUNIQ (to several), -E2BIG (more code or references than the caps allow), and those of
 * image.h.
 */
#pragma once

#include "lib/elf/words.h"

#define TABLE_STEPS_MAX 3
#define TABLE_ENTRIES_MAX 4096
/* Bytes of a string of a table, and of the code of a function that leads to one. */
#define TABLE_STRING_MAX 95
#define TABLE_CODE_MAX (64u << 10)
/* Addresses that one function refers to. */
#define TABLE_REFERENCES_MAX 256

/*
 * How a table is found. Of OrtGetApiBase(), which returns { GetApi, GetVersionString }, the first
 * of which returns the table: one step, to word 0.
 */
struct table_path {
	const char *function; /* exported */
	/* Each: the word of the struct that the code refers to; it is the function whose code is
	 * decoded next. */
	uint8_t n_steps, steps[TABLE_STEPS_MAX];
	uint16_t at_least; /* entries in a row, of the table itself */
};

enum table_form {
	TABLE_FUNCTIONS, /* pointers to functions */
	TABLE_STRINGS,   /* pointers to strings */
	/* Strings by their distances from the table, 32 bits each: what clang makes of a constant
	 * table of pointers. */
	TABLE_DISTANCES,
};

/* A table ends before the first word that is no entry: what follows a table directly in the file
 * makes it seem longer than it is. */
struct elf_table {
	uint64_t address;
	uint32_t n;
	enum table_form form;
};

/* Entries are functions, of this file or another one. */
int elf_table_of_functions(const struct elf_image *image, struct elf_words *words,
			   const struct table_path *path, struct elf_table *ret);
/* Entries are strings of 1 to TABLE_STRING_MAX printable characters that a NUL ends. */
int elf_table_of_strings(const struct elf_image *image, struct elf_words *words,
			 const struct table_path *path, struct elf_table *ret);

/* The address of the function at an entry. -ENOENT: there is no such entry, or it is a function of
 * another file. */
int elf_table_function(const struct elf_image *image, struct elf_words *words,
		       const struct elf_table *table, uint32_t entry, uint64_t *ret_address);
/* The string at an entry. -ENOENT: there is no such entry. */
int elf_table_string(const struct elf_image *image, struct elf_words *words,
		     const struct elf_table *table, uint32_t entry, char ret[TABLE_STRING_MAX + 1]);
