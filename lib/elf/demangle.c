/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/demangle.h"

#include <stddef.h>
#include <string.h>

#define SYMBOL_MAX_BYTES 1024
/*
 * A reference repeats an earlier part of the name, so that each can double the length of the
 * result. Names of real functions have few.
 */
#define REFERENCES_MAX 12

/* Of libsupc++ (cxxabi.h, which is for C++ only), linked statically: a reader of files can open no
 * library. */
char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

/* An upper bound: S_, S0_, T_, T0_ …, and anything else that looks like them. */
static unsigned int count_references(const char *symbol)
{
	unsigned int n = 0;

	for (const char *p = symbol; *p; p++)
		if (*p == 'S' || *p == 'T')
			n += p[1 + strspn(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '_';
	return n;
}

char *symbol_demangle(const char *symbol)
{
	int status = 0;

	if (strncmp(symbol, "_Z", 2) || strlen(symbol) > SYMBOL_MAX_BYTES ||
	    count_references(symbol) > REFERENCES_MAX)
		return NULL;
	return __cxa_demangle(symbol, NULL, NULL, &status);
}
