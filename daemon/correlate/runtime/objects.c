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

static bool is_cheap(const struct pack *pack, const char *type)
{
	for (const char *const *t = pack->cheap_types; t && *t; t++)
		if (!strcmp(*t, type))
			return true;
	return false;
}

/* The pack of an object's row, as an index into its target's named ones; -1: none. */
static int named_of(const struct correlator *c, const struct record *head)
{
	return head->target < c->n_targets && !c->gone[head->target]
		       ? pack_set_named(c->targets[head->target].packs, head->site)
		       : -1;
}

/* Name and type of an object, as bytes that another program holds. */
struct words {
	const char *name, *type;
	uint32_t name_size, type_size;
	bool whole; /* all of the name is there */
};

static void add_object(struct correlator *c, const struct record *head, uint64_t object,
		       const struct words *w)
{
	const struct pack *pack = c->targets[head->target].packs->named[named_of(c, head)];
	char text[RECORD_NAME_SIZE + RECORD_TYPE_SIZE + 8], type_text[RECORD_TYPE_SIZE + 1];
	uint32_t index;

	if (!pack->names.is_name(w->name, w->name_size) ||
	    !pack->names.is_type(w->type, w->type_size) || w->type_size >= sizeof(type_text))
		return;
	snprintf(type_text, sizeof(type_text), "%.*s", (int)w->type_size, w->type);
	snprintf(text, sizeof(text), "%.*s%s:%s", (int)w->name_size, w->name, w->whole ? "" : "...",
		 type_text);
	if (names_add(&c->names, text, type_text, false, is_cheap(pack, type_text), &index) < 0 ||
	    names_set_object(&c->names, target_key(object, head->target), index, head->time) < 0)
		c->error = -ENOMEM;
}

void objects_on_name(struct correlator *c, const struct record_name *r)
{
	const struct words w = { .name = r->name,
				 .name_size = MIN(r->name_size, (uint32_t)RECORD_NAME_SIZE),
				 .type = r->type,
				 .type_size = MIN(r->type_size, (uint32_t)RECORD_TYPE_SIZE),
				 .whole = r->name_size <= RECORD_NAME_SIZE };

	if (named_of(c, &r->head) >= 0)
		add_object(c, &r->head, r->object, &w);
}

static void name_object(struct correlator *c, const struct record_object *r,
			const struct record_layout *layout)
{
	struct words w = {};

	w.name = object_view(r, layout->name_offset, &w.name_size);
	w.type = object_view(r, layout->type_offset, &w.type_size);
	w.whole = w.name_size < RECORD_CANDIDATE_SIZE;
	if (w.name && w.type)
		add_object(c, &r->head, r->object, &w);
}

void objects_on_object(struct correlator *c, const struct record_object *r)
{
	const struct record_layout *layout;
	int named = named_of(c, &r->head);
	struct waiting_object *w;

	if (named < 0)
		return;
	layout = &c->layouts[r->head.target][named];
	if (layout->type_offset) {
		name_object(c, r, layout);
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

int correlator_set_layout(struct correlator *c, unsigned target, unsigned named,
			  const struct record_layout *layout)
{
	struct waiting_object **at = &c->waiting, *w;

	c->layouts[target][named] = *layout;
	while ((w = *at)) {
		if (w->object.head.target != target || named_of(c, &w->object.head) != (int)named) {
			at = &w->next;
			continue;
		}
		name_object(c, &w->object, layout);
		*at = w->next;
		c->n_waiting--;
		free(w);
	}
	c->waiting_tail = at;
	return c->error;
}
