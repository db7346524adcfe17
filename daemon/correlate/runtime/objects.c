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
/* Of one target, which can make up names: later operations are shown without theirs. An object
 * takes at most 67 bytes. */
#define NAME_BYTES_MAX (32u << 20)
#define NAME_EXTRA_BYTES 96
#define NAMED_MAX (1u << 20)

/* An object that came before its target's layout was known. */
struct waiting_object {
	struct waiting_object *next;
	struct record_object object;
};

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
	const struct correlate_target *target = targets_current(&c->targets, head->target);

	return target ? pack_set_named(target->packs, head->site) : -1;
}

uint64_t objects_key(const struct correlator *c, const struct record *head, uint64_t object)
{
	int named = named_of(c, head);

	if (named >= 0 &&
	    names_have_numbers(&targets_get(&c->targets, head->target)->packs->named[named]->names))
		object = op_number_object((unsigned)named, object);
	return target_key(object, head->target);
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
	const struct pack *pack =
		targets_get(&c->targets, head->target)->packs->named[named_of(c, head)];
	char text[RECORD_NAME_SIZE + RECORD_TYPE_SIZE + 8], type_text[RECORD_TYPE_SIZE + 1];
	uint64_t key = objects_key(c, head, object), *bytes = &c->objects.name_bytes[head->target];
	uint32_t index, n = names_count(&c->names);

	if (!pack->names.is_name(w->name, w->name_size) ||
	    (pack->names.is_type && !pack->names.is_type(w->type, w->type_size)) ||
	    w->type_size >= sizeof(type_text))
		return;
	snprintf(type_text, sizeof(type_text), "%.*s", (int)w->type_size, w->type);
	snprintf(text, sizeof(text), "%.*s%s:%s", (int)w->name_size, w->name, w->whole ? "" : "...",
		 type_text);
	if (c->objects.n_named[head->target] >= NAMED_MAX ||
	    (*bytes >= NAME_BYTES_MAX && !names_has(&c->names, text))) {
		names_free_object(&c->names, key, head->time);
		return;
	}
	if (names_add(&c->names, text, type_text, false, is_cheap(pack, type_text), &index) < 0 ||
	    names_set_object(&c->names, key, index, head->time) < 0)
		c->error = -ENOMEM;
	c->objects.n_named[head->target]++;
	if (names_count(&c->names) > n)
		*bytes += strlen(text) + strlen(type_text) + NAME_EXTRA_BYTES;
}

/* Shown as "type_number". */
static void add_numbered(struct correlator *c, const struct record_name *r)
{
	uint32_t type_size = MIN(r->type_size, (uint32_t)RECORD_TYPE_SIZE);
	char text[RECORD_TYPE_SIZE + 24];
	uint64_t number;

	memcpy(&number, r->name, sizeof(number));
	snprintf(text, sizeof(text), "%.*s_%llu", (int)type_size, r->type,
		 (unsigned long long)number);
	add_object(c, &r->head, r->object,
		   &(struct words){ .name = text,
				    .name_size = (uint32_t)strlen(text),
				    .type = r->type,
				    .type_size = type_size,
				    .whole = true });
}

void objects_on_name(struct correlator *c, const struct record_name *r)
{
	const struct words w = { .name = r->name,
				 .name_size = MIN(r->name_size, (uint32_t)RECORD_NAME_SIZE),
				 .type = r->type,
				 .type_size = MIN(r->type_size, (uint32_t)RECORD_TYPE_SIZE),
				 .whole = r->name_size <= RECORD_NAME_SIZE };

	if (named_of(c, &r->head) < 0)
		return;
	if (r->name_size == RECORD_NAME_NUMBER)
		add_numbered(c, r);
	else
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
	struct objects *o = &c->objects;
	struct waiting_object *w;

	if (named < 0)
		return;
	layout = &c->objects.layouts[r->head.target][named];
	if (layout->type_offset) {
		name_object(c, r, layout);
		return;
	}
	/* Operations that never get a name are shown without one, and counted. */
	if (o->n_waiting == WAITING_MAX)
		return;
	w = malloc(sizeof(*w));
	if (!w) {
		c->error = -ENOMEM;
		return;
	}
	*w = (struct waiting_object){ .object = *r };
	*(o->tail ?: &o->first) = w;
	o->tail = &w->next;
	o->n_waiting++;
}

int correlator_set_layout(struct correlator *c, unsigned target, unsigned named,
			  const struct record_layout *layout)
{
	struct objects *o = &c->objects;
	struct waiting_object **at = &o->first, *w;

	c->objects.layouts[target][named] = *layout;
	while ((w = *at)) {
		if (w->object.head.target != target || named_of(c, &w->object.head) != (int)named) {
			at = &w->next;
			continue;
		}
		name_object(c, &w->object, layout);
		*at = w->next;
		o->n_waiting--;
		free(w);
	}
	o->tail = at;
	return c->error;
}

void objects_done(struct objects *o)
{
	for (struct waiting_object *w = o->first, *next; w; w = next) {
		next = w->next;
		free(w);
	}
}
