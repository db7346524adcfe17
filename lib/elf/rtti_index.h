/* SPDX-License-Identifier: Apache-2.0 */
/* The classes, base classes and virtual tables of a file: part of rtti.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/elf/image.h"
#include "lib/elf/rtti_slots.h"
#include "lib/elf/words.h"

/* The offset of a base in a class that inherits it virtually: only the object has it. */
#define OFFSET_UNKNOWN INT64_MIN

struct class
{
	uint64_t typeinfo; /* or an external value: a base class of another file */
	uint64_t name;     /* file offset */
	uint64_t hash;
	uint32_t name_size; /* 0: too long */
};

struct edge {
	uint64_t base; /* its typeinfo */
	uint32_t derived;
	int64_t offset;
};

struct vtable {
	uint32_t class;
	int32_t offset_to_top;
	uint64_t address;
};

struct rtti {
	const struct elf_image *image;
	struct elf_words *words;
	struct rtti_slots slots;
	struct class *classes; /* by typeinfo: those of the file, then the external ones */
	size_t n_classes, n_own, classes_room;
	struct edge *edges; /* by base */
	size_t n_edges, edges_room;
	struct vtable *vtables; /* by class, then address */
	size_t n_vtables, vtables_room;
};

/* Fills the index, whose image, words and slots are set. Errors as listed in image.h; *ret_reason
 * is set. */
int rtti_index_fill(struct rtti *rtti, const char **ret_reason);
/* Of a class's name. */
uint64_t rtti_hash_name(const uint8_t *name, size_t size);
