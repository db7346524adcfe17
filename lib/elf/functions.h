/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions at given places of an ELF file, by .symtab and .dynsym, and by the symbols that a
 * stripped file has elsewhere (debug.h). The questions and the answers pass between two processes
 * in files of memory: one that wants the names, and one that may read the ELF file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/elf/image.h"

/* Places of one file. */
#define FUNCTIONS_MAX 16384
/* Of a name, with its NUL; a longer one loses its end. */
#define FUNCTION_NAME_SIZE 512

/* Writes the questions: offsets in the file, in ascending order, at most FUNCTIONS_MAX. -errno of
 * write. */
int functions_ask(int questions, const uint64_t *offsets, size_t n);

/*
 * Reads the questions and writes the answers: a line for each, with the demangled name of the
 * function that contains the place, or nothing. debug_file: as for elf_symbols_match_debug(), NULL:
 * none. Both files may be hostile. -EINVAL: the questions are malformed; errors of image.h and
 * of write.
 */
int functions_answer(int questions, const struct elf_image *image,
		     const struct elf_image *debug_file, int answers, const char **ret_reason);

/*
 * Reads the answers to n questions, which may be any bytes: the names one after the other, each
 * with its NUL and at most FUNCTION_NAME_SIZE bytes long, "": unknown; without characters that
 * control a terminal. *ret_names is to be freed. -EBADMSG, -ENOMEM, errors of read.
 */
int functions_read(int answers, size_t n, char (**ret_names)[FUNCTION_NAME_SIZE]);
