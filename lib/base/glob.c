/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/glob.h"

#include <stddef.h>

bool glob_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *after = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			after = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			/* The last star matches one byte more; earlier ones need not change. */
			pattern = star;
			text = ++after;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
