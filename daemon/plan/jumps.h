/* SPDX-License-Identifier: Apache-2.0 */
/* Functions without a symbol that exported ones end in, by a jump. */
#pragma once

#include "lib/elf/image.h"

/* Where the function is, in the file, that the exported one of this name jumps to, and its size in
 * bytes. -ENOENT: there is none; other errors as in lib/elf/image.h. */
int jumps_find(const struct elf_image *image, const char *name, uint64_t *ret_function,
	       uint64_t *ret_size);
