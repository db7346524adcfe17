/* Finds one exported name by the file's own hash table, without reading its symbols: a few reads even in the largest library. */
#pragma once

#include "lib/elf/image.h"

/*
 * The virtual address of a function or object that the file exports, by .gnu.hash and .dynsym. -ENOENT when it exports no such name or
 * has no such table; other errors as in image.h.
 */
int elf_lookup(const struct elf_image *image, const char *name, uint64_t *ret_address);

/* The file offset of what lies at a virtual address, by the sections; -ENOENT: nothing of the file. */
int elf_data_offset(const struct elf_image *image, uint64_t address, uint64_t *ret_offset);
