/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/map.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/hash.h"

#define EMPTY UINT64_MAX

struct map_slot {
	uint64_t key, value;
};

void map_done(struct map *map)
{
	free(map->slots);
	*map = (struct map){};
}

static struct map_slot *find(const struct map *map, uint64_t key)
{
	size_t i = hash_number(map->seed, key);

	while (map->slots[i & (map->size - 1)].key != key &&
	       map->slots[i & (map->size - 1)].key != EMPTY)
		i++;
	return &map->slots[i & (map->size - 1)];
}

uint64_t *map_get(const struct map *map, uint64_t key)
{
	struct map_slot *slot;

	if (!map->size)
		return NULL;
	slot = find(map, key);
	return slot->key == EMPTY ? NULL : &slot->value;
}

static int grow(struct map *map)
{
	struct map bigger = { .size = map->size ? map->size * 2 : 64,
			      .seed = map->seed ?: hash_seed() };

	bigger.slots = malloc(bigger.size * sizeof(bigger.slots[0]));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < bigger.size; i++)
		bigger.slots[i].key = EMPTY;
	for (size_t i = 0; i < map->size; i++)
		if (map->slots[i].key != EMPTY) {
			*find(&bigger, map->slots[i].key) = map->slots[i];
			bigger.used++;
		}
	free(map->slots);
	*map = bigger;
	return 0;
}

int map_put(struct map *map, uint64_t key, uint64_t value)
{
	struct map_slot *slot;

	if ((map->used + 1) * 4 > map->size * 3) {
		int r = grow(map);

		if (r < 0)
			return r;
	}
	slot = find(map, key);
	if (slot->key == EMPTY) {
		slot->key = key;
		map->used++;
	}
	slot->value = value;
	return 0;
}
