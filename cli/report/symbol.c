/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/symbol.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"

#define GAP "..."
#define ANONYMOUS "(anonymous namespace)::"

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
