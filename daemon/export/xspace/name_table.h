/* SPDX-License-Identifier: Apache-2.0 */
/* Names with small ids, kept as the map entries (id → {id, name, display name}) that an XPlane ends
 * with. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/export/xspace/wire.h"

/* The tags of such an entry, and of the metadata that it maps to. */
enum {
	ENTRY_KEY = WIRE_VARINT(1),
	ENTRY_VALUE = WIRE_BYTES(2),
	METADATA_ID = WIRE_VARINT(1),
	METADATA_NAME = WIRE_BYTES(2),
	METADATA_DISPLAY_NAME = WIRE_BYTES(4),
	METADATA_STAT = WIRE_BYTES(5),
};

struct interned_name;

/* Zeros at first. */
struct name_table {
	uint8_t *bytes; /* the encoded entries, in the order of their ids */
	size_t size, bytes_allocated;
	struct interned_name *names;
	size_t names_allocated;
	uint32_t n_names;
	uint32_t n_slots; /* of the hash table: a power of two */
	uint32_t *slots;  /* ids, 0: empty */
};

/* What an entry has besides its id. */
struct name_entry {
	const char *name;
	const char *display; /* NULL: none */
	const uint8_t
		*rest; /* encoded fields that follow; entries whose rest differs are not the same */
	size_t rest_size;
};

/*
 * The id of an entry, from 1 on, by its name and its rest; a new one gets the tag of the map's
 * field, and takes at most max_bytes. The display name counts only for a new one. Everything is
 * copied. -ENOMEM, -EFBIG.
 */
int name_table_intern(struct name_table *table, uint8_t tag, size_t max_bytes,
		      const struct name_entry *entry, uint32_t *ret);

/* Forgets the names and keeps the memory. */
void name_table_clear(struct name_table *table);
void name_table_done(struct name_table *table);
