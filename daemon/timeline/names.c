/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/macro.h"

#define OBJECTS_BACK_MAX 1024

void names_done(struct names *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		free(n->names[i].name);
		free(n->names[i].display);
	}
	free(n->names);
	free(n->cheap);
	free(n->objects);
	map_done(&n->by_text);
	map_done(&n->by_object);
	*n = (struct names){};
}

struct span_name *names_take(struct names *n, uint32_t *ret_n)
{
	*ret_n = n->n;
	n->n = 0;
	return TAKE_PTR(n->names);
}

static int reserve(struct names *n)
{
	uint32_t size = n->size ? n->size * 2 : 256;
	struct span_name *names;
	bool *cheap;

	if (n->n < n->size)
		return 0;
	names = realloc(n->names, size * sizeof(names[0]));
	if (!names)
		return -ENOMEM;
	n->names = names;
	cheap = realloc(n->cheap, size * sizeof(cheap[0]));
	if (!cheap)
		return -ENOMEM;
	n->cheap = cheap;
	n->size = size;
	return 0;
}

/* Its index, NULL: it is a new one, for that key. */
static const uint64_t *find_text(const struct names *n, const char *name, uint64_t *ret_key)
{
	const uint64_t *found;
	uint64_t key = hash_text(n->seed, name, strlen(name)) >> 1;

	/* Two texts of one hash take neighboring keys. */
	while ((found = map_get(&n->by_text, key)) && strcmp(n->names[*found].name, name))
		key++;
	*ret_key = key;
	return found;
}

bool names_has(const struct names *n, const char *name)
{
	uint64_t key;

	return find_text(n, name, &key);
}

int names_add(struct names *n, const char *name, const char *display, bool lost, bool cheap,
	      uint32_t *ret)
{
	const uint64_t *found;
	uint64_t key;
	int r;

	if (!n->seed)
		n->seed = hash_seed();
	found = find_text(n, name, &key);
	if (found) {
		*ret = (uint32_t)*found;
		return 0;
	}
	r = reserve(n);
	if (r < 0)
		return r;
	n->names[n->n] = (struct span_name){ .name = strdup(name),
					     .display = display ? strdup(display) : NULL,
					     .lost = lost };
	if (!n->names[n->n].name || (display && !n->names[n->n].display) ||
	    map_put(&n->by_text, key, n->n) < 0) {
		free(n->names[n->n].name);
		free(n->names[n->n].display);
		return -ENOMEM;
	}
	n->cheap[n->n] = cheap;
	*ret = n->n++;
	return 0;
}

static struct object_name *newest(const struct names *n, uint64_t key)
{
	const uint64_t *index = map_get(&n->by_object, key);

	return index ? &n->objects[*index] : NULL;
}

int names_set_object(struct names *n, uint64_t key, uint32_t name, uint64_t time)
{
	struct object_name *last = newest(n, key);
	uint32_t before = last ? (uint32_t)(last - n->objects) : NAME_NONE;

	/* Two CPUs may send one object's name at once. */
	if (last && last->freed_ns == UINT64_MAX) {
		if (last->name == name)
			return 0;
		last->freed_ns = time; /* its end was lost: this is another object */
	}
	if (n->n_objects == n->objects_size) {
		uint32_t size = n->objects_size ? n->objects_size * 2 : 256;
		struct object_name *objects = realloc(n->objects, size * sizeof(objects[0]));

		if (!objects)
			return -ENOMEM;
		n->objects = objects;
		n->objects_size = size;
	}
	n->objects[n->n_objects] =
		(struct object_name){ .freed_ns = UINT64_MAX, .name = name, .before = before };
	if (map_put(&n->by_object, key, n->n_objects) < 0)
		return -ENOMEM;
	n->n_objects++;
	return 0;
}

void names_free_object(struct names *n, uint64_t key, uint64_t time)
{
	struct object_name *last = newest(n, key);

	if (last && last->freed_ns == UINT64_MAX)
		last->freed_ns = time;
}

uint32_t names_of_object(const struct names *n, uint64_t key, uint64_t time)
{
	const struct object_name *o = newest(n, key);

	if (!o || time >= o->freed_ns)
		return NAME_NONE;
	/* Queries come almost in order of time: the search from the newest one back is short, and
	 * no target can make it long. */
	for (unsigned i = 0; o->before != NAME_NONE && time < n->objects[o->before].freed_ns; i++) {
		if (i == OBJECTS_BACK_MAX)
			return NAME_NONE;
		o = &n->objects[o->before];
	}
	return o->name;
}
