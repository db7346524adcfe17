/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of .eh_frame (DWARF 5, 6.4.2), which describe where each instruction of a function
 * finds its caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/elf/unwind_row.h"

struct cfa_program {
	const uint8_t *initial, *own; /* the instructions of the CIE, and of the FDE */
	size_t initial_size, own_size;
	uint64_t code_alignment;
	int64_t data_alignment;
	uint64_t return_register;
	bool is_signal;       /* the code that a handler of signals returns to */
	uint32_t begin, size; /* of the function, in the file */
};

/*
 * Runs it, and writes at most max rows. Returns their number, at least 1; -EOPNOTSUPP: it has an
 * instruction that compilers do not write; -EBADMSG: it is malformed; -E2BIG: more than max rows.
 */
int cfa_program_run(const struct cfa_program *program, struct unwind_row *ret, size_t max);
