/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/layout.h"

#include <stddef.h>

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

void layout_search_add(struct layout_search *s, const struct record_object *o)
{
	s->seen++;
	for (uint32_t i = 0; i < MIN(o->n_candidates, (uint32_t)RECORD_CANDIDATES); i++) {
		const struct record_candidate *c = &o->candidates[i];
		uint32_t name_size = MIN(c->size, (uint32_t)RECORD_CANDIDATE_SIZE), type_size = 0;
		const char *type = object_view(o, c->offset + s->pack->type_distance, &type_size);

		if (type && c->offset % 8 == 0 && c->offset / 8 < ARRAY_SIZE(s->right) &&
		    s->pack->is_name(c->bytes, name_size) && s->pack->is_type(type, type_size))
			s->right[c->offset / 8]++;
	}
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
	/* Right on every object, and the only such place. */
	if (best < LAYOUT_PROOFS || best < s->seen || second == best)
		return false;
	ret->name_offset = at * 8;
	ret->type_offset = at * 8 + s->pack->type_distance;
	return true;
}
