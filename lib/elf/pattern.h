/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern of symbol names, prepared so that nearly every name is rejected by comparing eight
 * bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PATTERN_LENGTH_MAX 255
/* How many bytes from its start a name must be readable, whatever its length, for
 * pattern_may_begin. */
#define PATTERN_REACH_MAX (PATTERN_LENGTH_MAX + 1)

struct pattern {
	const char *text;
	uint64_t word, mask; /* the eight bytes, fewer in short patterns */
	/*
	 * The bytes end the literal text before the first wildcard, at this distance from the start
	 * of a name. In a pattern that begins with a wildcard they end the pattern, at this
	 * distance from the end of a name.
	 */
	size_t reach;
	bool by_end;
};

/*
 * Prepares a pattern of '*' (any bytes or none), '?' (one byte) and literal bytes; text is
 * borrowed, not copied. Returns 0, or -EINVAL if it is NULL, empty or too long.
 */
int pattern_compile(const char *text, struct pattern *ret);

/*
 * Whether the whole name matches the pattern. Adds the number of steps to *steps: at worst length
 * of name × length of pattern.
 */
bool pattern_matches(const struct pattern *pattern, const char *name, uint64_t *steps);

static inline uint64_t pattern_load(const char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* For a pattern that is not by_end: false if the name cannot match. */
static inline bool pattern_may_begin(const struct pattern *pattern, const char *name)
{
	return (pattern_load(name + pattern->reach) & pattern->mask) == pattern->word;
}

/* For a pattern by_end: false if the name of this length cannot match. Reads up to eight bytes past
 * the end. */
static inline bool pattern_may_end(const struct pattern *pattern, const char *name, size_t length)
{
	return length >= pattern->reach &&
	       (pattern_load(name + length - pattern->reach) & pattern->mask) == pattern->word;
}
