#include "lib/base/hash.h"

#include <sys/random.h>
#include <time.h>

uint64_t hash_seed(void)
{
	struct timespec now = {};
	uint64_t seed = 0;

	/* Before the kernel has random numbers, at boot, something that is hard to guess will do. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		seed = hash_number((uint64_t)(uintptr_t)&seed, (uint64_t)now.tv_nsec);
	}
	return seed | 1;
}

uint64_t hash_text(uint64_t seed, const char *text, size_t size)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ seed;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return h;
}
