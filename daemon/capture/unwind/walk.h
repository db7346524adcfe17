/* SPDX-License-Identifier: Apache-2.0 */
/* The callers of a thread, by its registers, a copy of its stack and unwind rows. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/elf/unwind_row.h"

enum walk_code {
	WALK_ROW,
	WALK_NO_ROW,   /* the file has tables, but not for that place */
	WALK_NO_TABLE, /* code without tables: frame pointers are all there is */
	WALK_NO_CODE,  /* not executable */
	WALK_LATER,    /* not known yet */
};

/* What is known of the code at an address. */
typedef enum walk_code (*walk_fn)(uint64_t address, struct unwind_row *ret, void *data);

struct walk {
	uint64_t ip, sp, bp;
	/* The bytes from there on, some of them below sp. */
	uint64_t start;
	const uint8_t *stack;
	size_t size;
	/* What following frame pointers gave, from ip on; beyond the copy it is believed where rows
	 * state that the code has such frames. */
	const uint64_t *chain;
	unsigned n_chain;
	walk_fn code;
	void *data;
};

/*
 * Writes the addresses, as in struct record_stack, at most max. Returns their number; -EAGAIN: rows
 * are not known yet. *ret_whole: the outermost one is the thread's first function.
 */
int walk_stack(const struct walk *walk, uint64_t *ret, unsigned max, bool *ret_whole);
