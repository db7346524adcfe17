/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/name_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"

struct interned_name {
	uint32_t offset; /* place of the text in the table's bytes */
	uint32_t length;
	uint32_t rest_offset; /* place of what follows the names */
	uint32_t rest_size;
	uint32_t hash;
};

static int slots_grow(struct name_table *table)
{
	uint32_t n_slots = table->n_slots ? table->n_slots * 2 : 64;
	uint32_t *slots;

	if (table->n_names < table->n_slots / 2)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t id = 1; id <= table->n_names; id++) {
		uint32_t i = table->names[id - 1].hash & (n_slots - 1);

		while (slots[i])
			i = (i + 1) & (n_slots - 1);
		slots[i] = id;
	}
	free(table->slots);
	table->slots = slots;
	table->n_slots = n_slots;
	return 0;
}

#define HASH_START 2166136261u /* FNV-1a */

static uint32_t hash_bytes(uint32_t hash, const uint8_t *p, size_t n)
{
	while (n--)
		hash = (hash ^ *p++) * 16777619u;
	return hash;
}

/* Encodes an entry with the next id behind the table's bytes, without adding it to them. */
static int encode(struct name_table *table, uint8_t tag, size_t max_bytes,
		  const struct name_entry *new, struct interned_name *ret, size_t *ret_size)
{
	size_t name_length = strlen(new->name),
	       display_length = new->display ? strlen(new->display) : 0;
	uint32_t id = table->n_names + 1;
	size_t value, entry, size;
	uint8_t *p;
	int r;

	if (name_length > max_bytes || display_length > max_bytes || new->rest_size > max_bytes)
		return -EFBIG;
	value = 1 + wire_varint_size(id) + wire_bytes_size(name_length);
	if (display_length)
		value += wire_bytes_size(display_length);
	value += new->rest_size;
	entry = 1 + wire_varint_size(id) + wire_bytes_size(value);
	size = wire_bytes_size(entry);
	if (size > max_bytes)
		return -EFBIG;
	r = array_reserve(&table->bytes, table->size, &table->bytes_allocated, 1, size);
	if (r < 0)
		return r;

	p = wire_put_number(table->bytes + table->size, tag, entry);
	p = wire_put_number(p, ENTRY_KEY, id);
	p = wire_put_number(p, ENTRY_VALUE, value);
	p = wire_put_number(p, METADATA_ID, id);
	p = wire_put_text(p, METADATA_NAME, new->name, name_length);
	*ret = (struct interned_name){
		.offset = (uint32_t)((size_t)(p - table->bytes) - name_length),
		.length = (uint32_t)name_length,
		.rest_size = (uint32_t) new->rest_size,
		.hash = hash_bytes(HASH_START, p - name_length, name_length),
	};
	if (display_length)
		p = wire_put_text(p, METADATA_DISPLAY_NAME, new->display, display_length);
	ret->rest_offset = (uint32_t)(p - table->bytes);
	if (new->rest_size)
		memcpy(p, new->rest, new->rest_size);
	ret->hash = hash_bytes(ret->hash, p, new->rest_size);
	*ret_size = size;
	return 0;
}

static bool is_same(const struct name_table *table, const struct interned_name *a,
		    const struct interned_name *b)
{
	return a->hash == b->hash && a->length == b->length && a->rest_size == b->rest_size &&
	       !memcmp(table->bytes + a->offset, table->bytes + b->offset, b->length) &&
	       !memcmp(table->bytes + a->rest_offset, table->bytes + b->rest_offset, b->rest_size);
}

int name_table_intern(struct name_table *table, uint8_t tag, size_t max_bytes,
		      const struct name_entry *entry, uint32_t *ret)
{
	struct interned_name new;
	uint32_t i, mask;
	size_t size;
	int r;

	r = array_reserve(&table->names, table->n_names, &table->names_allocated,
			  sizeof(*table->names), 1);
	if (r < 0)
		return r;
	r = slots_grow(table);
	if (r < 0)
		return r;
	/* The entry is encoded before the lookup, because encoding makes its text valid. */
	r = encode(table, tag, max_bytes, entry, &new, &size);
	if (r < 0)
		return r;

	mask = table->n_slots - 1;
	for (i = new.hash &mask; table->slots[i]; i = (i + 1) & mask) {
		if (is_same(table, &table->names[table->slots[i] - 1], &new)) {
			*ret = table->slots[i];
			return 0;
		}
	}
	table->names[table->n_names++] = new;
	table->size += size;
	*ret = table->slots[i] = table->n_names;
	return 0;
}

void name_table_clear(struct name_table *table)
{
	table->size = 0;
	table->n_names = 0;
	if (table->slots)
		memset(table->slots, 0, table->n_slots * sizeof(*table->slots));
}

void name_table_done(struct name_table *table)
{
	free(table->bytes);
	free(table->names);
	free(table->slots);
	*table = (struct name_table){};
}
