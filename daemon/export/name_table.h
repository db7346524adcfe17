/* Names with small ids, kept as the map entries (id → {id, name, display name}) that an XPlane ends with. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct interned_name;

/* Starts as zeros. */
struct name_table {
	uint8_t *bytes; /* the encoded entries, in the order of their ids */
	size_t size, bytes_allocated;
	struct interned_name *names;
	size_t names_allocated;
	uint32_t n_names;
	uint32_t n_slots; /* of the hash table: a power of two */
	uint32_t *slots;  /* ids, 0: empty */
};

/*
 * The id of a name, from 1 on; the entry of a new one gets the tag of the map's field, and takes at most max_bytes.
 * display (NULL: none) counts only for a new one. Text is copied. -ENOMEM, -EFBIG.
 */
int name_table_intern(struct name_table *table, uint8_t tag, size_t max_bytes, const char *name, const char *display,
		      uint32_t *ret);

/* Forgets the names and keeps the memory. */
void name_table_clear(struct name_table *table);
void name_table_done(struct name_table *table);
