/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/symbol.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

#define CXX_LIBRARY "libstdc++.so.6"
#define DEMANGLE "__cxa_demangle"
#define SYMBOL_MAX_BYTES 1024
/*
 * A reference repeats an earlier part of the name, so that each can double the length of the
 * result. Names of real functions have few.
 */
#define REFERENCES_MAX 12
#define GAP "..."
#define ANONYMOUS "(anonymous namespace)::"

typedef char *(*demangle_fn)(const char *name, char *buffer, size_t *size, int *status);

/* Loaded on first use, and never unloaded. */
static demangle_fn find_demangler(void)
{
	void *library = dlopen(CXX_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	return library ? (demangle_fn)dlsym(library, DEMANGLE) : NULL;
}

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
	demangle_fn demangle;
	int status = 0;

	if (strncmp(symbol, "_Z", 2) || strlen(symbol) > SYMBOL_MAX_BYTES ||
	    count_references(symbol) > REFERENCES_MAX)
		return NULL;
	demangle = find_demangler();
	return demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
}

/* The parenthesis that matches the last closing one; NULL: none. */
static char *last_bracket(char *text, char **ret_close)
{
	char *close = strrchr(text, ')');
	unsigned int depth = 0;

	*ret_close = close;
	for (char *p = close; p && p >= text; p--) {
		depth += *p == ')';
		depth -= *p == '(';
		if (!depth)
			return p;
	}
	return NULL;
}

/* A copy without anonymous namespaces. */
static char *without_anonymous(const char *text)
{
	char *copy = strdup(text), *found = copy;

	while (found && (found = strstr(found, ANONYMOUS)))
		memmove(found, found + strlen(ANONYMOUS), strlen(found + strlen(ANONYMOUS)) + 1);
	return copy;
}

/* Replaces the text in the last parentheses with a gap. */
static void drop_arguments(char *text)
{
	char *close, *open = last_bracket(text, &close);

	if (open && close - open > (ptrdiff_t)sizeof(GAP)) {
		memcpy(open + 1, GAP, strlen(GAP));
		memmove(open + 1 + strlen(GAP), close, strlen(close) + 1);
	}
}

char *symbol_fit(const char *text, size_t size)
{
	_cleanup_free_ char *shorter = NULL;
	size_t length, head;
	char *fitting;

	if (strlen(text) <= size)
		return strdup(text);
	shorter = without_anonymous(text);
	if (!shorter)
		return NULL;
	if (strlen(shorter) > size)
		drop_arguments(shorter);
	length = strlen(shorter);
	if (length <= size)
		return TAKE_PTR(shorter);
	/* Names differ at their ends rather than at their beginnings. */
	head = (size - strlen(GAP)) / 3;
	if (asprintf(&fitting, "%.*s" GAP "%s", (int)head, shorter,
		     shorter + length - (size - strlen(GAP) - head)) < 0)
		return NULL;
	return fitting;
}
