/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the symbols of a stripped file are: .gnu_debugdata inside it (an xz-compressed ELF file
 * that distributions add), and a separate debug file, found by the build-id. Both are read as ELF
 * files of which only .symtab is used; their code is elsewhere. Errors and reasons are those of
 * image.h.
 */
#pragma once

#include "lib/elf/image.h"

/* Where distributions install debug files. */
#define DEBUG_ROOT "/usr/lib/debug"
/* Limit of the decompressed file, and of the decoder's memory; an xz stream of the default level
 * needs 9 MiB. */
#define DEBUG_DATA_MAX (64u << 20)
#define DEBUG_DECODER_MAX (80u << 20)

/*
 * Decompresses .gnu_debugdata into memory and opens it. -ENOENT, without a reason, if the file has
 * no such section; -EBADMSG if it is not a complete xz stream, -E2BIG if it would exceed the
 * limits.
 */
int elf_debug_open_embedded(const struct elf_image *image, struct elf_image **ret,
			    const char **ret_reason);

/*
 * Opens the debug file of a build-id (lower-case hexadecimal, as from elf_image_build_id) below a
 * directory such as DEBUG_ROOT: DIRECTORY/.build-id/xx/yyyy.debug. Its content is not checked yet.
 * -ENOENT if there is none or the build-id is too short or malformed, or what open returns. The
 * caller closes *ret_fd.
 */
int elf_debug_find(const char *build_id, const char *directory, int *ret_fd);

/*
 * Opens a debug file of the image, through a descriptor that the caller keeps. Anyone can copy a
 * build-id, so the file is accepted only if both files are owned by root and writable by no other
 * user (-EPERM), and if it has the same build-id and executable segments with the same addresses,
 * sizes and flags (-ESTALE).
 */
int elf_debug_open(const struct elf_image *image, int fd, struct elf_image **ret,
		   const char **ret_reason);
