/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from 64-bit keys to 64-bit values, with open addressing. UINT64_MAX is not a valid
 * key. Each has a seed of its own, so that chosen keys cannot make it slow.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct map {
	struct map_slot *slots;
	size_t size; /* a power of two, or 0 */
	size_t used; /* slots that hold or held a key */
	uint64_t seed;
};

/* A zeroed map is empty. */
void map_done(struct map *map);
/* The value of a key; NULL: none. Valid until the next map_put(). */
uint64_t *map_get(const struct map *map, uint64_t key);
/* Sets the value of a key. -ENOMEM. */
int map_put(struct map *map, uint64_t key, uint64_t value);
