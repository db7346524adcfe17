/* SPDX-License-Identifier: Apache-2.0 */
/* Where a function begins and ends by the unwind tables, which a stripped file still has. */
#pragma once

#include "lib/elf/image.h"

/*
 * The start and the size in bytes of the function, or the part of one, that holds the code at a
 * virtual address: by the sorted table of PT_GNU_EH_FRAME (.eh_frame_hdr) and the entry of
 * .eh_frame it leads to (Linux Standard Base, "DWARF Extensions"). A few dozen small reads,
 * whatever the size of the file.
 *
 * Returns -ENOENT when the file has no table, or no function with code at that address, -EOPNOTSUPP
 * when the table is in another form than linkers write, -EBADMSG when it is malformed, or what
 * elf_image_read returns.
 */
int elf_function_bounds(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
			uint64_t *ret_size);
