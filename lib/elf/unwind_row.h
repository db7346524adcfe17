/* SPDX-License-Identifier: Apache-2.0 */
/* How to find the caller of code on x86-64, in a form that is small and quick to follow. */
#pragma once

#include <stdint.h>

/* Where the canonical frame address (CFA) is; the return address lies in the 8 bytes below it. */
enum unwind_cfa {
	UNWIND_UNKNOWN,   /* in a way that is not followed */
	UNWIND_OUTERMOST, /* the function has no caller */
	UNWIND_RSP,       /* rsp + cfa_offset */
	UNWIND_RBP,       /* rbp + cfa_offset */
	/* The word at rbp + cfa_offset: in a function that aligned its stack. */
	UNWIND_RBP_WORD,
	/* rsp + 8, and 8 more from that offset in a slot of 16 bytes on: a linkage table. */
	UNWIND_PLT,
	/* The code that a handler of signals returns to: the registers are at rsp. */
	UNWIND_SIGNAL,
	UNWIND_CFAS,
};

/* Where the caller's rbp is. */
enum unwind_rbp {
	UNWIND_RBP_KEPT,
	UNWIND_RBP_AT_CFA, /* CFA + 8 × rbp_offset8 */
	UNWIND_RBP_AT_RBP, /* where rbp points to */
	UNWIND_RBP_LOST,
	UNWIND_RBPS,
};

/* From an offset in the file to that of the next row of the function. */
struct unwind_row {
	uint32_t begin;
	int32_t cfa_offset;
	int16_t rbp_offset8;
	uint8_t cfa; /* enum unwind_cfa */
	uint8_t rbp; /* enum unwind_rbp */
};

/* Code with an entry in the tables: offsets in the file. */
struct unwind_function {
	uint32_t begin, end;
	uint32_t first, n; /* its rows; 0: they are not followed */
};
