/* SPDX-License-Identifier: Apache-2.0 */
/* Which release of a runtime a file is. */
#pragma once

#include <stddef.h>

#include "daemon/plan/model.h"
#include "lib/elf/image.h"

/*
 * The release that the pack's version function returns, read out of the code and the constants of
 * the file without running it; else "build-id:HEX". -ENOENT when the file says neither.
 */
int version_read(const struct elf_image *image, const struct pack *pack, char *ret, size_t size);
