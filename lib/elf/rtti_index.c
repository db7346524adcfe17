/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/rtti_index.h"

#include <errno.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/elf/lookup.h"
#include "lib/elf/rtti.h"

#define CLASSES_MAX (1u << 20)
#define EDGES_MAX (4u << 20)
#define VTABLES_MAX (4u << 20)
/* Direct bases of one class. */
#define BASES_MAX 1024
/*
 * Bytes that are read and hashed for names in one index; TensorFlow takes a few tens of millions.
 * Without this limit, overlapping names would cost the square of the file's size, and names far
 * apart in a sparse file its whole size.
 */
#define NAMES_WORK_MAX (1ull << 30)
#define NAME_WINDOW (256u << 10)
/* Places of the name, or of the address of the name, of a kind of typeinfo in a file that contains
 * the C++ runtime. */
#define RUNTIME_PLACES_MAX 16
#define SEARCH_CHUNK (1u << 20)
/* Bits of the filter that rejects most words that are not the address of a typeinfo. */
#define FILTER_BITS (1u << 20)

/* The offset in the virtual table of its kind to which a typeinfo's first word points. */
#define VPTR_OFFSET 16

/* The low eight bits of a base's offset_flags. */
#define BASE_VIRTUAL 1
#define BASE_OFFSET_SHIFT 8

#define NOT_INDEXED UINT32_MAX

/* The layouts of typeinfo objects of classes: without bases, with one public base at offset 0, with
 * any. */
enum kind { KIND_OTHER, KIND_ROOT, KIND_SINGLE, KIND_MANY, KINDS };

/* The virtual table's symbol is _ZTV and this name, which is also the typeinfo's name. */
static const char *const kind_names[KINDS] = {
	[KIND_ROOT] = "N10__cxxabiv117__class_type_infoE",
	[KIND_SINGLE] = "N10__cxxabiv120__si_class_type_infoE",
	[KIND_MANY] = "N10__cxxabiv121__vmi_class_type_infoE",
};
#define KIND_PREFIX "N10__cxxabiv1"
#define KIND_NAME_MAX 40

/* A short list of addresses, each for a kind. */
struct places {
	struct {
		uint64_t address;
		enum kind kind;
	} of[RUNTIME_PLACES_MAX];
	size_t n;
};

/* What is needed only while the index is built. */
struct indexer {
	struct rtti *rtti;
	const char **ret_reason;
	struct places vptrs;
	/* One more than the kind; 0: not examined. */
	uint8_t *symbol_kinds;
	struct places wanted, found;
	uint64_t *filter;
};

static int fail(const char **ret_reason, int error, const char *reason)
{
	if (ret_reason)
		*ret_reason = reason;
	return error;
}

static int fail_memory(const struct indexer *indexer)
{
	return fail(indexer->ret_reason, -ENOMEM, "out of memory");
}

/* Drops places beyond the limit: real files have one or two. */
static void places_add(struct places *places, uint64_t address, enum kind kind)
{
	if (places->n == RUNTIME_PLACES_MAX)
		return;
	places->of[places->n].address = address;
	places->of[places->n++].kind = kind;
}

static enum kind places_find(const struct places *places, uint64_t address)
{
	for (size_t i = 0; i < places->n; i++)
		if (places->of[i].address == address)
			return places->of[i].kind;
	return KIND_OTHER;
}

/* The kind that a symbol's name indicates: _ZTV of one of the three. */
static enum kind read_symbol_kind(struct rtti *rtti, uint32_t symbol)
{
	char name[4 + KIND_NAME_MAX + 1];
	uint64_t offset, room;

	if (elf_words_symbol_name(rtti->words, symbol, &offset, &room) < 0)
		return KIND_OTHER;
	memset(name, 0, sizeof(name));
	if (elf_image_read(rtti->image, offset, name, MIN(room, sizeof(name) - 1)) < 0 ||
	    memcmp(name, "_ZTV", 4))
		return KIND_OTHER;
	for (enum kind kind = KIND_ROOT; kind < KINDS; kind++)
		if (!strcmp(name + 4, kind_names[kind]))
			return kind;
	return KIND_OTHER;
}

/* The kind of typeinfo whose first word has this value; KIND_OTHER: not the typeinfo of a class. */
static enum kind vptr_kind(struct indexer *indexer, uint64_t value)
{
	uint32_t symbol = word_symbol(value);

	if (!word_is_external(value))
		return places_find(&indexer->vptrs, value);
	if (word_addend(value) != VPTR_OFFSET || symbol >= elf_words_symbols(indexer->rtti->words))
		return KIND_OTHER;
	if (!indexer->symbol_kinds[symbol])
		indexer->symbol_kinds[symbol] =
			(uint8_t)(read_symbol_kind(indexer->rtti, symbol) + 1);
	return (enum kind)(indexer->symbol_kinds[symbol] - 1);
}

static int add_edge(struct indexer *indexer, const struct word *base, int64_t offset)
{
	struct rtti *rtti = indexer->rtti;

	if (!base->may_point || base->value == WORD_UNKNOWN)
		return 0;
	if (rtti->n_edges == EDGES_MAX)
		return fail(indexer->ret_reason, -E2BIG, "the ELF file has too many base classes");
	if (array_reserve(&rtti->edges, rtti->n_edges, &rtti->edges_room, sizeof(*rtti->edges), 1) <
	    0)
		return fail_memory(indexer);
	rtti->edges[rtti->n_edges++] = (struct edge){
		.base = base->value,
		.derived = (uint32_t)rtti->n_classes - 1,
		.offset = offset,
	};
	return 0;
}

/* Adds the bases of the class that was added last; a typeinfo that ends too early keeps the bases
 * before its end. */
static int add_bases(struct indexer *indexer, uint64_t address, enum kind kind)
{
	struct elf_words *words = indexer->rtti->words;
	struct word word, flags;
	uint64_t count;
	int r = 0;

	if (kind == KIND_SINGLE)
		return elf_words_get(words, address + 16, &word) < 0 ? 0
								     : add_edge(indexer, &word, 0);
	if (kind != KIND_MANY || elf_words_get(words, address + 16, &word) < 0)
		return 0;
	count = MIN(word.value >> 32, BASES_MAX);
	for (uint64_t i = 0; i < count && r == 0; i++) {
		if (elf_words_get(words, address + 24 + 16 * i, &word) < 0 ||
		    elf_words_get(words, address + 32 + 16 * i, &flags) < 0)
			return 0;
		r = add_edge(indexer, &word,
			     flags.value & BASE_VIRTUAL
				     ? OFFSET_UNKNOWN
				     : (int64_t)flags.value >> BASE_OFFSET_SHIFT);
	}
	return r;
}

static int add_class(struct indexer *indexer, uint64_t typeinfo, uint64_t name)
{
	struct rtti *rtti = indexer->rtti;

	if (rtti->n_classes == CLASSES_MAX)
		return fail(indexer->ret_reason, -E2BIG, "the ELF file has too many classes");
	if (array_reserve(&rtti->classes, rtti->n_classes, &rtti->classes_room,
			  sizeof(*rtti->classes), 1) < 0)
		return fail_memory(indexer);
	rtti->classes[rtti->n_classes++] = (struct class){ .typeinfo = typeinfo, .name = name };
	return 0;
}

static int on_typeinfo(uint64_t address, uint64_t value, void *data)
{
	struct indexer *indexer = data;
	enum kind kind = vptr_kind(indexer, value);
	uint64_t name, room;
	struct word word;
	int r;

	/* A null pointer refers to no class, even where the file has bytes at address 0. */
	if (!address || kind == KIND_OTHER ||
	    elf_words_get(indexer->rtti->words, address + 8, &word) < 0 || !word.may_point ||
	    elf_image_locate(indexer->rtti->image, word.value, &name, &room) < 0)
		return 0;
	r = add_class(indexer, address, name);
	return r < 0 ? r : add_bases(indexer, address, kind);
}

/* Adds each place in a chunk of bytes where the name of a kind of typeinfo is. */
static void find_names(struct places *places, const uint8_t *bytes, size_t size, uint64_t address)
{
	const uint8_t *at = bytes, *end = bytes + size;

	while ((at = memmem(at, (size_t)(end - at), KIND_PREFIX, sizeof(KIND_PREFIX) - 1))) {
		for (enum kind kind = KIND_ROOT; kind < KINDS; kind++)
			if ((size_t)(end - at) > strlen(kind_names[kind]) &&
			    !memcmp(at, kind_names[kind], strlen(kind_names[kind]) + 1))
				places_add(places, address + (uint64_t)(at - bytes), kind);
		at++;
	}
}

/* Searches all of the file that is not writable for the names. */
static int search_names(struct indexer *indexer)
{
	const struct elf_image *image = indexer->rtti->image;
	_cleanup_free_ uint8_t *chunk = malloc(SEARCH_CHUNK + KIND_NAME_MAX);
	const Elf64_Phdr *segment;
	uint64_t total = 0;

	if (!chunk)
		return fail_memory(indexer);
	for (size_t i = 0; (segment = elf_image_segment(image, i)); i++) {
		if (segment->p_type != PT_LOAD || segment->p_flags & PF_W)
			continue;
		for (uint64_t at = 0; at < segment->p_filesz; at += SEARCH_CHUNK) {
			size_t size = MIN(segment->p_filesz - at, SEARCH_CHUNK + KIND_NAME_MAX);
			int r = elf_image_read(image, segment->p_offset + at, chunk, size);

			if (r < 0)
				return fail(indexer->ret_reason, r,
					    "the constants of the ELF file cannot be read");
			find_names(&indexer->found, chunk, size, segment->p_vaddr + at);
			total += size;
			if (total > WORDS_SCANNED_MAX)
				return fail(indexer->ret_reason, -E2BIG,
					    "the ELF file has too many constants");
		}
	}
	return 0;
}

/* A word that points to the name of a kind of typeinfo is the second one of that kind's own
 * typeinfo. */
static int on_name_pointer(uint64_t address, uint64_t value, void *data)
{
	struct indexer *indexer = data;
	enum kind kind = places_find(&indexer->wanted, value);

	if (kind != KIND_OTHER)
		places_add(&indexer->found, address - 8, kind);
	return 0;
}

static int on_runtime_vtable(uint64_t address, uint64_t value, void *data)
{
	struct indexer *indexer = data;
	enum kind kind = places_find(&indexer->wanted, value);
	int32_t offset_to_top;
	uint32_t n_slots;
	int r;

	if (kind == KIND_OTHER)
		return 0;
	r = rtti_check_vtable(&indexer->rtti->slots, address, &offset_to_top, &n_slots);
	if (r == 0 && n_slots > 0)
		places_add(&indexer->found, address + 8, kind);
	return r;
}

static int scan(struct indexer *indexer, word_callback callback)
{
	int r = elf_words_scan(indexer->rtti->words, callback, indexer);

	if (r < 0 && indexer->ret_reason && !*indexer->ret_reason)
		*indexer->ret_reason =
			r == -ENOMEM ? "out of memory" : "the data of the ELF file cannot be read";
	return r;
}

/*
 * Finds the virtual tables of the kinds of typeinfo in a file that contains the C++ runtime without
 * its symbols: from their names to their own typeinfos to their tables.
 */
static int find_runtime(struct indexer *indexer)
{
	static const word_callback steps[] = { on_name_pointer, on_runtime_vtable };
	int r = search_names(indexer);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++) {
		indexer->wanted = indexer->found;
		indexer->found.n = 0;
		if (indexer->wanted.n == 0)
			return 0;
		r = scan(indexer, steps[i]);
	}
	if (r == 0)
		indexer->vptrs = indexer->found;
	return r;
}

/* Finds all typeinfos of classes: by the symbols of the C++ runtime if the file uses them, else by
 * their names. */
static int add_classes(struct indexer *indexer)
{
	char symbol[4 + KIND_NAME_MAX + 1] = "_ZTV";
	uint64_t address;
	int r;

	for (enum kind kind = KIND_ROOT; kind < KINDS; kind++) {
		strcpy(symbol + 4, kind_names[kind]);
		if (elf_lookup(indexer->rtti->image, symbol, &address) == 0)
			places_add(&indexer->vptrs, address + VPTR_OFFSET, kind);
	}
	r = scan(indexer, on_typeinfo);
	if (r < 0 || indexer->rtti->n_classes > 0)
		return r;
	r = find_runtime(indexer);
	if (r < 0 || indexer->vptrs.n == 0)
		return r;
	return scan(indexer, on_typeinfo);
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->base != y->base)
		return x->base < y->base ? -1 : 1;
	return x->derived < y->derived ? -1 : x->derived > y->derived;
}

/* Adds a class for each base class that another file defines, and sorts the edges by base class. */
static int add_external(struct indexer *indexer)
{
	struct rtti *rtti = indexer->rtti;
	uint64_t offset, room;
	char prefix[4];
	int r;

	rtti->n_own = rtti->n_classes;
	if (rtti->n_edges > 1)
		qsort(rtti->edges, rtti->n_edges, sizeof(*rtti->edges), compare_edges);
	for (size_t i = 0; i < rtti->n_edges; i++) {
		uint64_t base = rtti->edges[i].base;

		if (!word_is_external(base) || word_addend(base) != 0 ||
		    (i > 0 && rtti->edges[i - 1].base == base) ||
		    elf_words_symbol_name(rtti->words, word_symbol(base), &offset, &room) < 0 ||
		    room < sizeof(prefix))
			continue;
		r = elf_image_read(rtti->image, offset, prefix, sizeof(prefix));
		if (r < 0)
			return fail(indexer->ret_reason, r,
				    "the names of the ELF file cannot be read");
		if (memcmp(prefix, "_ZTI", sizeof(prefix)))
			continue;
		r = add_class(indexer, base, offset + sizeof(prefix));
		if (r < 0)
			return r;
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct class *const *x = a, *const *y = b;

	return (*x)->name < (*y)->name ? -1 : (*x)->name > (*y)->name;
}

/* Reads and hashes the names in the order of the file. */
static int hash_names(struct indexer *indexer)
{
	struct rtti *rtti = indexer->rtti;
	_cleanup_free_ struct class **order = calloc(rtti->n_classes + 1, sizeof(*order));
	_cleanup_free_ uint8_t *window = malloc(NAME_WINDOW);
	uint64_t begin = 0, size = 0, work = 0;

	if (!order || !window)
		return fail_memory(indexer);
	for (size_t i = 0; i < rtti->n_classes; i++)
		order[i] = &rtti->classes[i];
	qsort(order, rtti->n_classes, sizeof(*order), compare_names);
	for (size_t i = 0; i < rtti->n_classes; i++) {
		uint64_t wanted =
			MIN(elf_image_size(rtti->image) - order[i]->name, RTTI_NAME_MAX + 2u);
		const uint8_t *name, *end;

		if (order[i]->name + wanted > begin + size) {
			begin = order[i]->name;
			size = MIN(elf_image_size(rtti->image) - begin, NAME_WINDOW);
			work += size;
			if (elf_image_read(rtti->image, begin, window, size) < 0)
				return fail(indexer->ret_reason, -EBADMSG,
					    "the names of the ELF file cannot be read");
		}
		name = window + (order[i]->name - begin);
		/* Marks a class whose typeinfos are compared by address, not by name: it is not
		 * part of the name. */
		if (wanted > 0 && *name == '*') {
			order[i]->name++;
			name++;
			wanted--;
		}
		end = memchr(name, 0, MIN(wanted, RTTI_NAME_MAX + 1u));
		work += end ? (uint64_t)(end - name) : wanted;
		if (work > NAMES_WORK_MAX)
			return fail(indexer->ret_reason, -E2BIG,
				    "the names of the classes take too long to read");
		if (end) {
			order[i]->name_size = (uint32_t)(end - name);
			order[i]->hash = rtti_hash_name(name, order[i]->name_size);
		}
	}
	return 0;
}

static uint32_t find_class(const struct rtti *rtti, uint64_t typeinfo)
{
	size_t i = SEARCH_FIRST(rtti->n_classes, k, rtti->classes[k].typeinfo < typeinfo);

	return i < rtti->n_classes && rtti->classes[i].typeinfo == typeinfo ? (uint32_t)i
									    : NOT_INDEXED;
}

static uint64_t filter_bit(uint64_t typeinfo)
{
	return (typeinfo >> 3) * 0x9e3779b97f4a7c15 >> 44 & (FILTER_BITS - 1);
}

static int on_vtable(uint64_t address, uint64_t value, void *data)
{
	struct indexer *indexer = data;
	struct rtti *rtti = indexer->rtti;
	uint64_t bit = filter_bit(value);
	int32_t offset_to_top = 0;
	uint32_t class, n_slots;
	int r;

	if (!(indexer->filter[bit / 64] >> bit % 64 & 1) || word_is_external(value))
		return 0;
	class = find_class(rtti, value);
	if (class == NOT_INDEXED)
		return 0;
	r = rtti_check_vtable(&rtti->slots, address, &offset_to_top, &n_slots);
	if (r < 0 || n_slots == 0)
		return r;
	if (rtti->n_vtables == VTABLES_MAX)
		return fail(indexer->ret_reason, -E2BIG,
			    "the ELF file has too many virtual tables");
	if (array_reserve(&rtti->vtables, rtti->n_vtables, &rtti->vtables_room,
			  sizeof(*rtti->vtables), 1) < 0)
		return fail_memory(indexer);
	rtti->vtables[rtti->n_vtables++] = (struct vtable){
		.class = class,
		.offset_to_top = offset_to_top,
		.address = address + 8,
	};
	return 0;
}

static int compare_vtables(const void *a, const void *b)
{
	const struct vtable *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static int add_vtables(struct indexer *indexer)
{
	struct rtti *rtti = indexer->rtti;
	int r;

	indexer->filter = calloc(FILTER_BITS / 64, sizeof(*indexer->filter));
	if (!indexer->filter)
		return fail_memory(indexer);
	for (size_t i = 0; i < rtti->n_own; i++) {
		uint64_t bit = filter_bit(rtti->classes[i].typeinfo);

		indexer->filter[bit / 64] |= 1ull << bit % 64;
	}
	r = scan(indexer, on_vtable);
	if (r < 0)
		return r;
	if (rtti->n_vtables > 1)
		qsort(rtti->vtables, rtti->n_vtables, sizeof(*rtti->vtables), compare_vtables);
	return 0;
}

uint64_t rtti_hash_name(const uint8_t *name, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ name[i]) * 0x100000001b3;
	return hash;
}

static void indexer_free(struct indexer *indexer)
{
	free(indexer->symbol_kinds);
	free(indexer->filter);
}

int rtti_index_fill(struct rtti *rtti, const char **ret_reason)
{
	static int (*const steps[])(struct indexer *) = { add_classes, add_external, hash_names,
							  add_vtables };
	_cleanup_(indexer_free) struct indexer indexer = { .rtti = rtti, .ret_reason = ret_reason };
	int r = 0;

	indexer.symbol_kinds = calloc(elf_words_symbols(rtti->words) + 1, 1);
	if (!indexer.symbol_kinds)
		return fail_memory(&indexer);
	for (size_t i = 0; i < ARRAY_SIZE(steps) && r >= 0; i++)
		r = steps[i](&indexer);
	return r < 0 ? r : 0;
}
