/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/rtti.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/elf/rtti_index.h"
#include "lib/elf/words.h"

static int fail(const char **ret_reason, int error, const char *reason)
{
	if (ret_reason)
		*ret_reason = reason;
	return error;
}

int elf_rtti_open(const struct elf_image *image, struct rtti **ret, const char **ret_reason)
{
	_cleanup_(elf_rtti_freep) struct rtti *rtti = calloc(1, sizeof(*rtti));
	const char *reason = NULL;
	int r;

	if (!rtti)
		return fail(ret_reason, -ENOMEM, "out of memory");
	rtti->image = image;
	r = elf_words_open(image, &rtti->words, ret_reason);
	if (r < 0)
		return r;
	rtti_slots_init(&rtti->slots, image, rtti->words);
	r = rtti_index_fill(rtti, &reason);
	if (r < 0)
		return fail(ret_reason, r, reason);
	*ret = TAKE_PTR(rtti);
	return 0;
}

struct rtti *elf_rtti_free(struct rtti *rtti)
{
	if (rtti) {
		elf_words_free(rtti->words);
		free(rtti->classes);
		free(rtti->edges);
		free(rtti->vtables);
		free(rtti);
	}
	return NULL;
}

size_t elf_rtti_count(const struct rtti *rtti)
{
	return rtti->n_own;
}

/* One query: which classes it is about, and the offset of the base class in each. */
struct search {
	struct rtti *rtti;
	const char *name;
	char *buffer; /* of RTTI_NAME_MAX + 1 bytes */
	bool *is_found;
	int64_t *offsets;
	uint32_t *queue;
	size_t n_queued;
};

static void search_free(struct search *search)
{
	free(search->buffer);
	free(search->is_found);
	free(search->offsets);
	free(search->queue);
}

static int read_name(struct search *search, const struct class *class)
{
	search->buffer[class->name_size] = 0;
	return elf_image_read(search->rtti->image, class->name, search->buffer, class->name_size);
}

static void enqueue(struct search *search, uint32_t class, int64_t offset)
{
	if (search->is_found[class])
		return;
	search->is_found[class] = true;
	search->offsets[class] = offset;
	search->queue[search->n_queued++] = class;
}

/* Puts the classes with the name into the queue. */
static int find_named(struct search *search)
{
	const struct rtti *rtti = search->rtti;
	size_t size = search->name ? strlen(search->name) : 0;
	uint64_t hash = rtti_hash_name((const uint8_t *)search->name, size);
	int r;

	for (uint32_t i = 0; i < rtti->n_classes; i++) {
		const struct class *class = &rtti->classes[i];

		if (search->name) {
			if (class->hash != hash || class->name_size != size || size == 0)
				continue;
			r = read_name(search, class);
			if (r < 0)
				return r;
			if (strcmp(search->buffer, search->name))
				continue;
		}
		enqueue(search, i, 0);
	}
	return 0;
}

static size_t first_edge(const struct rtti *rtti, uint64_t base)
{
	return SEARCH_FIRST(rtti->n_edges, i, rtti->edges[i].base < base);
}

/* Follows the edges from all classes in the queue. Each class enters it once, so that cycles
 * end. */
static void find_derived(struct search *search)
{
	const struct rtti *rtti = search->rtti;
	size_t n_bases = search->n_queued;

	for (size_t i = 0; i < search->n_queued; i++) {
		uint32_t base = search->queue[i];
		uint64_t typeinfo = rtti->classes[base].typeinfo;

		for (size_t e = first_edge(rtti, typeinfo);
		     e < rtti->n_edges && rtti->edges[e].base == typeinfo; e++) {
			int64_t offset = search->offsets[base], sum;

			if (offset == OFFSET_UNKNOWN || rtti->edges[e].offset == OFFSET_UNKNOWN ||
			    __builtin_add_overflow(offset, rtti->edges[e].offset, &sum))
				sum = OFFSET_UNKNOWN;
			enqueue(search, rtti->edges[e].derived, sum);
		}
	}
	for (size_t i = 0; i < n_bases; i++)
		search->is_found[search->queue[i]] = false;
}

/* The virtual table of a class for the base at this offset; one with destructors if there are
 * several. */
static int choose_vtable(struct rtti *rtti, uint32_t class, int64_t offset, uint64_t *ret)
{
	struct word word;

	*ret = 0;
	for (size_t low = SEARCH_FIRST(rtti->n_vtables, i, rtti->vtables[i].class < class);
	     low < rtti->n_vtables && rtti->vtables[low].class == class; low++) {
		int r;

		if (rtti->vtables[low].offset_to_top != -offset)
			continue;
		r = elf_words_get(rtti->words, rtti->vtables[low].address, &word);
		if (r < 0)
			return r;
		if (!*ret || word.value)
			*ret = rtti->vtables[low].address;
		if (word.value)
			break;
	}
	return 0;
}

static int report(struct search *search, uint32_t index, rtti_callback callback, void *data)
{
	struct rtti *rtti = search->rtti;
	struct rtti_class class = { .name = search->buffer,
				    .typeinfo = rtti->classes[index].typeinfo };
	int r;

	r = read_name(search, &rtti->classes[index]);
	if (r < 0)
		return r;
	if (search->offsets[index] != OFFSET_UNKNOWN) {
		r = choose_vtable(rtti, index, search->offsets[index], &class.vtable);
		if (r < 0)
			return r;
	}
	if (class.vtable) {
		r = rtti_count_slots(&rtti->slots, class.vtable, RTTI_SLOTS_MAX, &class.n_slots);
		if (r < 0)
			return r;
	}
	return callback(&class, data);
}

int elf_rtti_find(struct rtti *rtti, const char *name, bool derived, rtti_callback callback,
		  void *data)
{
	_cleanup_(search_free) struct search search = { .rtti = rtti, .name = name };
	size_t room = rtti->n_classes + 1;
	int r;

	search.buffer = malloc(RTTI_NAME_MAX + 1u);
	search.is_found = calloc(room, sizeof(*search.is_found));
	search.offsets = calloc(room, sizeof(*search.offsets));
	search.queue = calloc(room, sizeof(*search.queue));
	if (!search.buffer || !search.is_found || !search.offsets || !search.queue)
		return -ENOMEM;
	r = find_named(&search);
	if (r < 0)
		return r;
	if (name && derived)
		find_derived(&search);
	for (uint32_t i = 0; i < rtti->n_own && r == 0; i++)
		if (search.is_found[i])
			r = report(&search, i, callback, data);
	return r;
}

int elf_rtti_slot(struct rtti *rtti, const struct rtti_class *class, uint32_t slot,
		  uint64_t *ret_address)
{
	struct word word;
	int r;

	if (slot >= class->n_slots)
		return -ENOENT;
	r = elf_words_get(rtti->words, class->vtable + 8ull * slot, &word);
	if (r < 0)
		return r;
	if (!rtti_is_code(&rtti->slots, &word))
		return -ENOENT;
	*ret_address = word.value;
	return 0;
}
