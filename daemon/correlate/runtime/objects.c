/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/layout.h"
#include "daemon/correlate/runtime/objects.h"
#include "lib/base/macro.h"

/* Objects that wait for their layout; real builds need a handful. */
#define WAITING_MAX 4096

static bool is_cheap(const struct probe_pack *pack, const char *type)
{
	for (const char *const *t = pack->cheap_types; t && *t; t++)
		if (!strcmp(*t, type))
			return true;
	return false;
}

static void add_object(struct correlator *c, uint64_t time, uint8_t target, uint64_t object,
		       const char *name, uint32_t name_size, const char *type, uint32_t type_size,
		       bool whole)
{
	const struct probe_pack *pack = c->targets[target].pack;
	char text[RECORD_NAME_SIZE + RECORD_TYPE_SIZE + 8], type_text[RECORD_TYPE_SIZE + 1];
	uint32_t index;

	if (!pack->is_name(name, name_size) || !pack->is_type(type, type_size) ||
	    type_size >= sizeof(type_text))
		return;
	snprintf(type_text, sizeof(type_text), "%.*s", (int)type_size, type);
	snprintf(text, sizeof(text), "%.*s%s:%s", (int)name_size, name, whole ? "" : "...",
		 type_text);
	if (names_add(&c->names, text, type_text, false, is_cheap(pack, type_text), &index) < 0 ||
	    names_set_object(&c->names, target_key(object, target), index, time) < 0)
		c->error = -ENOMEM;
}

void objects_on_name(struct correlator *c, const struct record_name *r)
{
	if (r->head.target < c->n_targets && !c->gone[r->head.target])
		add_object(c, r->head.time, r->head.target, r->object, r->name,
			   MIN(r->name_size, (uint32_t)RECORD_NAME_SIZE), r->type,
			   MIN(r->type_size, (uint32_t)RECORD_TYPE_SIZE),
			   r->name_size <= RECORD_NAME_SIZE);
}

static void name_object(struct correlator *c, const struct record_object *r)
{
	const struct record_layout *layout = &c->layouts[r->head.target];
	uint32_t name_size = 0, type_size = 0;
	const char *name = object_view(r, layout->name_offset, &name_size),
		   *type = object_view(r, layout->type_offset, &type_size);

	if (name && type)
		add_object(c, r->head.time, r->head.target, r->object, name, name_size, type,
			   type_size, name_size < RECORD_CANDIDATE_SIZE);
}

void objects_on_object(struct correlator *c, const struct record_object *r)
{
	struct waiting_object *w;

	if (r->head.target >= c->n_targets || c->gone[r->head.target])
		return;
	if (c->layouts[r->head.target].type_offset) {
		name_object(c, r);
		return;
	}
	/* Its operations are shown without a name, and counted, when it never gets one. */
	if (c->n_waiting == WAITING_MAX)
		return;
	w = malloc(sizeof(*w));
	if (!w) {
		c->error = -ENOMEM;
		return;
	}
	*w = (struct waiting_object){ .object = *r };
	*c->waiting_tail = w;
	c->waiting_tail = &w->next;
	c->n_waiting++;
}

int correlator_set_layout(struct correlator *c, unsigned target, const struct record_layout *layout)
{
	struct waiting_object **at = &c->waiting, *w;

	c->layouts[target] = *layout;
	while ((w = *at)) {
		if (w->object.head.target != target) {
			at = &w->next;
			continue;
		}
		name_object(c, &w->object);
		*at = w->next;
		c->n_waiting--;
		free(w);
	}
	c->waiting_tail = at;
	return c->error;
}
