/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out where an operation's object keeps its name and its type, from objects whose string
 * views were all sent. A layout is known when it yields plausible names on several objects and no
 * other layout does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/packs.h"
#include "include/record_types.h"

/* Objects that must agree. */
#define LAYOUT_PROOFS 3

struct layout_search {
	const struct pack_names *names;
	uint32_t seen;
	/* Objects on which the pair (name view at 8 * index, type view after it) was plausible. */
	uint32_t right[RECORD_OBJECT_BYTES / 8];
};

/* Whether the pack itself has the layout of names, and then that layout. */
bool layout_is_constant(const struct pack_names *names, struct record_layout *ret);
/* Writes it where the programs of a capture read it: from then on they send names instead of
 * objects. */
void layout_share(const struct record_layout *layout, struct record_layout *ret);
void layout_search_add(struct layout_search *search, const struct record_object *object);
/* Whether the layout is known, and then that layout. */
bool layout_search_result(const struct layout_search *search, struct record_layout *ret);

/* The string view at an offset of an object, NULL: none there. *ret_size is what the record holds
 * of it. */
const char *object_view(const struct record_object *object, uint32_t offset, uint32_t *ret_size);

/*
 * Blanks the views of an object that are not its name and type: what else it points to may be
 * anything in the process. layout: NULL while it is unknown; then every pair that is plausible
 * stays.
 */
void object_keep_names(struct record_object *object, const struct pack_names *names,
		       const struct record_layout *layout);

/* The layouts of one target: of each of its packs whose operations have names. */
struct layouts {
	const struct pack_set *packs;
	struct layout_search searches[RECORD_LAYOUTS];
	bool known[RECORD_LAYOUTS];
};

void layouts_init(struct layouts *l, const struct pack_set *set);
/* Whether the layout of the pack with this index became known by this object. */
bool layouts_learn(struct layouts *l, const struct record_object *object, unsigned *ret_named,
		   struct record_layout *ret);
/* Objects of packs whose layout is still not known. */
uint32_t layouts_n_unknown(const struct layouts *l);
