/* SPDX-License-Identifier: Apache-2.0 */
/* The unwind tables, which a stripped file still has: where they are, and the bounds of functions
 * by them. */
#pragma once

#include "lib/elf/image.h"

/*
 * The start and the size in bytes of the function, or the part of one, that contains the code at a
 * virtual address: by the sorted table of PT_GNU_EH_FRAME (.eh_frame_hdr) and the entry of
 * .eh_frame that it refers to (Linux Standard Base, "DWARF Extensions"). A few dozen small reads,
 * whatever the size of the file.
 *
 * Returns -ENOENT if the file has no table, or no function with code at that address, -EOPNOTSUPP
 * if the table is in a form that linkers do not write, -EBADMSG if it is malformed, or what
 * elf_image_read returns.
 */
int elf_function_bounds(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
			uint64_t *ret_size);
/* Of the function that begins at that address: where it is in the file, and its size in bytes.
 * Errors as elf_function_bounds(), and -ENOENT: it begins elsewhere, or is no code. */
int elf_function_at(const struct elf_image *image, uint64_t address, uint64_t *ret_offset,
		    uint64_t *ret_size);

/* A row of .eh_frame_hdr: the start of code, and the place of its FDE, both relative to the
 * table's address. */
struct unwind_entry {
	int32_t code, fde;
};

/* The virtual address of .eh_frame_hdr and the number of its entries, which are sorted by code.
 * Errors as above. */
int elf_unwind_table(const struct elf_image *image, uint64_t *ret_address, uint32_t *ret_n);
int elf_unwind_entry(const struct elf_image *image, uint64_t table, uint32_t i,
		     struct unwind_entry *ret);
/* The index of the last entry whose code begins at or before the address. -ENOENT: none does. */
int elf_unwind_search(const struct elf_image *image, uint64_t table, uint32_t n, uint64_t address,
		      uint32_t *ret);
