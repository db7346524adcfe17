/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/layout.h"

#include <stddef.h>
#include <string.h>

#include "lib/base/macro.h"

const char *object_view(const struct record_object *o, uint32_t offset, uint32_t *ret_size)
{
	for (uint32_t i = 0; i < MIN(o->n_candidates, (uint32_t)RECORD_CANDIDATES); i++)
		if (o->candidates[i].offset == offset) {
			*ret_size = MIN(o->candidates[i].size, (uint32_t)RECORD_CANDIDATE_SIZE);
			return o->candidates[i].bytes;
		}
	return NULL;
}

/* Whether the candidate may be the name, with the type in the view after it. */
static bool is_plausible(const struct record_object *o, const struct record_candidate *c,
			 const struct pack_names *names)
{
	uint32_t name_size = MIN(c->size, (uint32_t)RECORD_CANDIDATE_SIZE), type_size = 0;
	const char *type = object_view(o, c->offset + names->type_distance, &type_size);

	return type && c->offset % 8 == 0 && c->offset / 8 < RECORD_OBJECT_BYTES / 8 &&
	       names->is_name(c->bytes, name_size) && names->is_type(type, type_size);
}

void layout_search_add(struct layout_search *s, const struct record_object *o)
{
	s->seen++;
	for (uint32_t i = 0; i < MIN(o->n_candidates, (uint32_t)RECORD_CANDIDATES); i++)
		if (is_plausible(o, &o->candidates[i], s->names))
			s->right[o->candidates[i].offset / 8]++;
}

void object_keep_names(struct record_object *o, const struct pack_names *names,
		       const struct record_layout *layout)
{
	uint32_t n = MIN(o->n_candidates, (uint32_t)RECORD_CANDIDATES);
	bool keep[RECORD_CANDIDATES] = {};

	for (uint32_t i = 0; i < n; i++) {
		uint32_t offset = o->candidates[i].offset;

		if (layout)
			keep[i] |= offset == layout->name_offset || offset == layout->type_offset;
		else if (is_plausible(o, &o->candidates[i], names))
			for (uint32_t k = 0; k < n; k++)
				keep[k] |= k == i ||
					   o->candidates[k].offset == offset + names->type_distance;
	}
	for (uint32_t i = 0; i < RECORD_CANDIDATES; i++) {
		struct record_candidate *c = &o->candidates[i];
		uint32_t size = MIN(c->size, (uint32_t)RECORD_CANDIDATE_SIZE);

		if (keep[i])
			memset(c->bytes + size, 0, RECORD_CANDIDATE_SIZE - size);
		else
			*c = (struct record_candidate){ .offset = i < n ? c->offset : 0 };
	}
}

bool layout_is_constant(const struct pack_names *names, struct record_layout *ret)
{
	if (names->form == NAME_VIEW)
		return false;
	*ret = (struct record_layout){ .name_offset = names->name_offset,
				       .type_offset = names->name_offset + names->type_distance,
				       .n_steps = names->n_steps,
				       .form = (uint8_t)names->form };
	memcpy(ret->steps, names->steps, sizeof(ret->steps));
	return true;
}

void layout_share(const struct record_layout *layout, struct record_layout *ret)
{
	ret->name_offset = layout->name_offset;
	memcpy(ret->steps, layout->steps, sizeof(ret->steps));
	ret->n_steps = layout->n_steps;
	ret->form = layout->form;
	__atomic_store_n(&ret->type_offset, layout->type_offset, __ATOMIC_SEQ_CST);
}

bool layout_search_result(const struct layout_search *s, struct record_layout *ret)
{
	uint32_t best = 0, second = 0, at = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(s->right); i++)
		if (s->right[i] > best) {
			second = best;
			best = s->right[i];
			at = i;
		} else if (s->right[i] > second) {
			second = s->right[i];
		}
	/* It fits every object, and is the only place that does. */
	if (best < LAYOUT_PROOFS || best < s->seen || second == best)
		return false;
	*ret = (struct record_layout){ .name_offset = at * 8,
				       .type_offset = at * 8 + s->names->type_distance,
				       .form = NAME_VIEW };
	return true;
}

void layouts_init(struct layouts *l, const struct pack_set *set)
{
	*l = (struct layouts){ .packs = set };
	for (unsigned i = 0; i < set->n_named; i++) {
		l->searches[i].names = &set->named[i]->names;
		l->known[i] = set->named[i]->names.form != NAME_VIEW || set->named[i]->names.list;
	}
}

bool layouts_learn(struct layouts *l, const struct record_object *object, unsigned *ret_named,
		   struct record_layout *ret)
{
	int named = pack_set_named(l->packs, object->head.site);

	if (named < 0 || l->known[named])
		return false;
	layout_search_add(&l->searches[named], object);
	if (!layout_search_result(&l->searches[named], ret))
		return false;
	l->known[named] = true;
	*ret_named = (unsigned)named;
	return true;
}

uint32_t layouts_n_unknown(const struct layouts *l)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < RECORD_LAYOUTS; i++)
		n += l->known[i] ? 0 : l->searches[i].seen;
	return n;
}
