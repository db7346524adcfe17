/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/correlator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *correlator_grow(struct correlator *c, void *array, uint64_t *size, uint64_t need,
		      size_t element)
{
	uint64_t bigger = *size ? *size * 2 : 1024;
	void *p;

	if (need < *size)
		return array;
	p = realloc(array, bigger * element);
	if (!p) {
		c->error = -ENOMEM;
		return NULL;
	}
	*size = bigger;
	return p;
}

void *correlator_element(struct correlator *c, void *array, uint64_t *size, uint64_t index,
			 size_t element)
{
	uint8_t *list;

	memcpy(&list, array, sizeof(list));
	while (index >= *size) {
		uint64_t from = *size;

		list = correlator_grow(c, list, size, from, element);
		if (!list)
			return NULL;
		memcpy(array, &list, sizeof(list));
		memset(list + from * element, 0, (*size - from) * element);
	}
	return list + index * element;
}

void correlator_fail(struct correlator *c, int r)
{
	if (r < 0 && !c->error)
		c->error = r;
}

/* A key takes at most 43 bytes. What is beyond is as if it had not been seen. */
#define KEYS_MAX (4u << 20)

void correlator_put(struct correlator *c, struct map *map, uint64_t key, uint64_t value)
{
	if (map->used >= KEYS_MAX && !map_get(map, key))
		return;
	if (map_put(map, key, value) < 0)
		c->error = -ENOMEM;
}

uint32_t correlator_name(struct correlator *c, const char *text)
{
	uint32_t name = 0;

	if (names_add(&c->names, text, NULL, false, false, &name) < 0)
		c->error = -ENOMEM;
	return name;
}
