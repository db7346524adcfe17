/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of functions from the unwind tables, which a stripped file still has. */
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
