/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t hash_seed(void)
{
	struct timespec now = {};
	uint64_t seed = 0;

	/* At boot, before the kernel has random numbers, something that is hard to guess
	 * suffices. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		seed = hash_number((uint64_t)(uintptr_t)&seed, (uint64_t)now.tv_nsec);
	}
	return seed | 1;
}

uint64_t hash_text(uint64_t seed, const char *text, size_t size)
{
	uint64_t h = hash_number(seed, size), word;

	for (size_t at = 0; at < size; at += sizeof(word)) {
		word = 0;
		memcpy(&word, text + at, size - at < sizeof(word) ? size - at : sizeof(word));
		h = hash_number(seed ^ h, word);
	}
	return h;
}
