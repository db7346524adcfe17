/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/pattern.h"

#include <errno.h>

#include "lib/base/macro.h"

/* Packs up to eight bytes in the order in which pattern_load reads them from a name. */
static void pack_word(struct pattern *pattern, const char *bytes, size_t n)
{
	char word[8] = { 0 }, mask[8] = { 0 };

	memcpy(word, bytes, MIN(n, sizeof(word)));
	memset(mask, 0xff, MIN(n, sizeof(mask)));
	pattern->word = pattern_load(word);
	pattern->mask = pattern_load(mask);
}

int pattern_compile(const char *text, struct pattern *ret)
{
	size_t length = text ? strnlen(text, PATTERN_LENGTH_MAX + 1) : 0;
	struct pattern pattern = { .text = text };
	size_t prefix, suffix = 0;

	if (length == 0 || length > PATTERN_LENGTH_MAX)
		return -EINVAL;
	prefix = strcspn(text, "*?");
	if (prefix == length)
		prefix++; /* the NUL must match too */
	if (prefix > 0) {
		pattern.reach = prefix > 8 ? prefix - 8 : 0;
		pack_word(&pattern, text + pattern.reach, prefix - pattern.reach);
	} else {
		while (!strchr("*?", text[length - suffix - 1]))
			suffix++;
		pattern.by_end = true;
		pattern.reach = MIN(suffix, 8);
		pack_word(&pattern, text + length - pattern.reach, pattern.reach);
	}
	*ret = pattern;
	return 0;
}

/* Backtracking to the last '*' suffices: a shorter match of an earlier one can always be kept. */
bool pattern_matches(const struct pattern *pattern, const char *name, uint64_t *steps)
{
	const char *text = pattern->text, *star = NULL, *resume = NULL;

	for (;; ++*steps) {
		if (*text == '*') {
			star = ++text;
			resume = name;
			if (!*star)
				return true;
		} else if (*name && (*text == '?' || *text == *name)) {
			text++;
			name++;
		} else if (!*name || !star) {
			return !*name && !*text;
		} else {
			text = star;
			resume = *star == '?' ? resume + 1 : strchr(resume + 1, *star);
			if (!resume)
				return false;
			name = resume;
		}
	}
}
