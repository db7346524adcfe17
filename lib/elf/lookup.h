/* SPDX-License-Identifier: Apache-2.0 */
/* Finds one exported name through the file's own hash table, without reading its symbols: a few
 * reads even in the largest library. */
#pragma once

#include "lib/elf/symbols.h"

/*
 * The virtual address of a function or object that the file exports, by .gnu.hash and .dynsym.
 * -ENOENT if it exports no such name or has no such table; other errors as in image.h.
 */
int elf_lookup(const struct elf_image *image, const char *name, uint64_t *ret_address);

/*
 * Checks whether symbol index of the file's table (SYMBOL_SYMTAB or SYMBOL_DYNSYM) has this name
 * and is a function as elf_symbols_match() reports it, with this entry in the file and this size:
 * 0. -ENOENT: it is not, or the source is another one; other errors as in image.h. It takes three
 * short reads.
 */
int elf_lookup_check(const struct elf_image *image, enum symbol_source source, uint32_t index,
		     const char *name, uint64_t offset, uint64_t size);

/* The file offset of a virtual address, by the sections; -ENOENT: nothing of the file. */
int elf_data_offset(const struct elf_image *image, uint64_t address, uint64_t *ret_offset);
