/* SPDX-License-Identifier: Apache-2.0 */
/* What generate.py writes into each library: the functions, and how to call them. */
#pragma once

#include <stdint.h>

enum {
	FUNCTION_RETURNS_PAIR = 1 << 0, /* in rax and rdx; else in rax */
	FUNCTION_RECURSES =
		1 << 1, /* as deep as its first argument, unless the compiler made a loop of it */
	FUNCTION_RECURSES_EXACTLY = 1 << 2, /* by a pointer, which no compiler follows */
	FUNCTION_MUST_BE_REFUSED = 1 << 3,
	FUNCTION_MAY_BE_REFUSED =
		1 << 4, /* hand-written, beginning with what no probe can be put on safely */
};

#define ARGUMENT_WORDS 32 /* behind each pointer */

struct function {
	const char *name;
	void (*address)(void);
	/* A letter each: l: 64 bits, i: the upper 32 are of no meaning, p: to ARGUMENT_WORDS words,
	 * s: 0 to 3. */
	const char *arguments;
	uint32_t mask; /* the arguments that the site must have, as in site.h */
	uint32_t flags;
};

/* The symbol functions of a library; the last has no name. */
extern const struct function functions[];
