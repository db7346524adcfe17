/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a timeline, each once, and the name that an object had at a time. */
#pragma once

#include "daemon/timeline/timeline.h"
#include "lib/base/map.h"

#define NAME_NONE UINT32_MAX

struct object_name {
	uint64_t freed_ns;     /* when the object was destroyed; UINT64_MAX: not in this capture */
	uint32_t name, before; /* indices; before NAME_NONE: the oldest */
};

struct names {
	struct span_name *names;
	bool *cheap; /* beside names */
	uint32_t n, size;
	struct map by_text;
	struct map by_object; /* the newest object_name */
	uint64_t seed;        /* of texts */
	struct object_name *objects;
	uint32_t n_objects, objects_size;
};

void names_done(struct names *names);
/* The list of names, to be freed by the caller; the rest of the table is only for finding them. */
struct span_name *names_take(struct names *n, uint32_t *ret_n);

static inline const char *names_text(const struct names *n, uint32_t name)
{
	return n->names[name].name;
}

static inline bool names_is_cheap(const struct names *n, uint32_t name)
{
	return n->cheap[name];
}

static inline uint32_t names_count(const struct names *n)
{
	return n->n;
}

/* Whether there is this name. */
bool names_has(const struct names *n, const char *name);
/* The index of a name; display may be NULL. -ENOMEM. */
int names_add(struct names *n, const char *name, const char *display, bool lost, bool cheap,
	      uint32_t *ret);
/* An object has this name from that time on, until names_free_object(). -ENOMEM. */
int names_set_object(struct names *n, uint64_t key, uint32_t name, uint64_t time);
void names_free_object(struct names *n, uint64_t key, uint64_t time);
/* The name that the object had at that time, NAME_NONE: unknown, or too many objects ago. */
uint32_t names_of_object(const struct names *n, uint64_t key, uint64_t time);
