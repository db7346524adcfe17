/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of keys that others choose. With an unpredictable seed they cannot choose keys that
 * collide. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Random; never 0. */
uint64_t hash_seed(void);

/* Two rounds of multiplication, whose upper half is folded into the lower: every bit of the number
 * and of the seed affects every bit of the result. */
static inline uint64_t hash_number(uint64_t seed, uint64_t number)
{
	number ^= seed;
	number = (number ^ number >> 32) * 0xbf58476d1ce4e5b9ULL;
	number ^= seed >> 7;
	number = (number ^ number >> 29) * 0x94d049bb133111ebULL;
	return number ^ number >> 32;
}

/* Eight bytes at a time, each round with the seed. */
uint64_t hash_text(uint64_t seed, const char *text, size_t size);
