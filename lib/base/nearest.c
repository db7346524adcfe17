/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/nearest.h"

#include <string.h>

#include "lib/base/macro.h"

#define NAME_MAX_BYTES 40

/* The Damerau-Levenshtein distance, restricted to neighbors that are swapped once. */
static unsigned distance(const char *a, const char *b, size_t na, size_t nb)
{
	unsigned d[NAME_MAX_BYTES + 1][NAME_MAX_BYTES + 1];

	for (size_t i = 0; i <= na; i++)
		d[i][0] = (unsigned)i;
	for (size_t k = 0; k <= nb; k++)
		d[0][k] = (unsigned)k;
	for (size_t i = 1; i <= na; i++)
		for (size_t k = 1; k <= nb; k++) {
			unsigned changed = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
			unsigned skipped = MIN(d[i - 1][k], d[i][k - 1]) + 1;

			d[i][k] = MIN(changed, skipped);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d[i][k] = MIN(d[i][k], d[i - 2][k - 2] + 1);
		}
	return d[na][nb];
}

const char *nearest_name(const char *word, const char *const *names, size_t n)
{
	size_t length = strlen(word);
	unsigned least = (unsigned)MAX(length / 3, (size_t)1) + 1;
	const char *nearest = NULL;

	if (length < 2 || length > NAME_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t size = strlen(names[i]);
		unsigned d =
			size <= NAME_MAX_BYTES ? distance(word, names[i], length, size) : least;

		if (d < least) {
			least = d;
			nearest = names[i];
		}
	}
	return nearest;
}
