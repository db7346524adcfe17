/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How code of an ELF file finds its callers, by .eh_frame. The questions and the answers pass
 * between two processes in files of memory, as those of functions.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/elf/image.h"
#include "lib/elf/unwind_row.h"

/* Places of one file in one question. */
#define UNWIND_PLACES_MAX 4096
/* In one answer, which has less than 16 MiB. */
#define UNWIND_FUNCTIONS_MAX (128u << 10)
#define UNWIND_ROWS_MAX (1u << 20)

/* Sorted, and without overlaps. Zeros: empty. */
struct unwind_rows {
	bool has_table; /* otherwise the file has no such tables */
	struct unwind_function *functions;
	struct unwind_row *rows;
	uint32_t n_functions, n_rows;
};

void unwind_rows_done(struct unwind_rows *rows);

/* Writes the questions: offsets in the file, in ascending order, at most UNWIND_PLACES_MAX. -errno
 * of write. */
int unwind_rows_ask(int questions, const uint64_t *offsets, size_t n);
/* Whether a file of questions has those, and not those of functions.h. */
bool unwind_rows_are_asked(int questions);
/*
 * Reads the questions and writes the answers: the functions with these places and many of their
 * neighbors, all of a file that is not large. The file may be hostile. -EINVAL: the questions are
 * malformed; errors of image.h and of write.
 */
int unwind_rows_answer(int questions, const struct elf_image *image, int answers,
		       const char **ret_reason);
/* Reads the answers, which may be any bytes. -EBADMSG, -ENOMEM, errors of read. */
int unwind_rows_read(int answers, struct unwind_rows *ret);

/* The row for the code at an offset in the file; NULL: the rows have none. *ret_is_known: there is
 * a function, whose rows may not be followed. */
const struct unwind_row *unwind_rows_find(const struct unwind_rows *rows, uint64_t offset,
					  bool *ret_is_known);
