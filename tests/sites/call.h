/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function and notes what its caller alone knows. */
#pragma once

#include <stdint.h>

struct call {
	void (*function)(void);
	uint64_t arguments[6];
	uint64_t stack;     /* the stack pointer at the entry of the function */
	uint64_t result[2]; /* rax and rdx */
	uint64_t kept;      /* a sum of the registers that the function has to keep */
};

/* Sets all but the first two fields. The registers that are no arguments have the same values each
 * time. */
void call_make(struct call *call);
/* The return address of every call. */
extern const char call_returned[];
