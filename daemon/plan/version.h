/* SPDX-License-Identifier: Apache-2.0 */
/* The release of a runtime that a file contains. */
#pragma once

#include <stddef.h>

#include "daemon/plan/model.h"
#include "lib/elf/image.h"

/*
 * The release that the pack's version function returns, read from the code and the constants of the
 * file without running it; else "build-id:HEX". -ENOENT if the file contains neither.
 */
int version_read(const struct elf_image *image, const struct pack *pack, char *ret, size_t size);
/* Of the first of the packs (bits, as pack_set_get()) whose release the file states, or else the
 * build-id. -ENOENT: neither. */
int version_of_packs(const struct elf_image *image, uint64_t bits, char *ret, size_t size);
