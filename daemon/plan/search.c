/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/search.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/plan/jumps.h"
#include "daemon/plan/tables.h"
#include "include/record_types.h"
#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/lookup.h"
#include "lib/elf/rtti.h"
#include "lib/elf/unwind.h"
#include "lib/elf/usdt.h"

struct planner {
	struct plan *plan;
	const struct elf_image *image;
	unsigned spec; /* whose class is searched for */
	struct rtti *rtti;
};

static int on_symbol(const struct symbol_match *match, void *data)
{
	struct planner *p = data;

	/* name.cold, .part, .isra: a compiler's piece or variant of a function, with other
	 * arguments. An alias has the same ones. */
	if (strchr(match->name, '.') && strcmp(strchr(match->name, '.'), ".localalias"))
		return 0;
	return plan_add(p->plan, p->image,
			&(struct plan_site){ .spec = (unsigned)match->pattern,
					     .source = match->source,
					     .symbol = (char *)match->name,
					     .index = match->index,
					     .function = match->offset,
					     .size = match->size });
}

static int on_class(const struct rtti_class *class, void *data)
{
	struct planner *p = data;
	const struct probe_row *row = p->plan->packs->rows[p->spec];
	struct plan_site site = { .spec = p->spec,
				  .source = SYMBOL_RTTI,
				  .slot_known = pack_release_of_build(
					  p->plan->packs->owners[p->spec], p->plan->build_id) };
	uint32_t slot = row->slot_from_end ? class->n_slots - row->slot_from_end : row->slot;
	_cleanup_free_ char *symbol = NULL;
	uint64_t address;

	/* Classes share the functions that they do not override. */
	if (elf_rtti_slot(p->rtti, class, slot, &address) < 0 ||
	    elf_function_at(p->image, address, &site.function, &site.size) < 0 ||
	    plan_has_function(p->plan, site.function))
		return 0;
	if (asprintf(&symbol, "%s, slot %u", class->name, slot) < 0)
		return -ENOMEM;
	site.symbol = symbol;
	return plan_add(p->plan, p->image, &site);
}

/* Functions without a symbol may still be in the virtual tables, which are only read if there is
 * something to look for. */
static int look_into_classes(struct planner *p, const char **ret_reason)
{
	const struct pack_set *set = p->plan->packs;
	int r = 0;

	for (p->spec = 0; p->spec < set->n_rows && r >= 0; p->spec++) {
		const struct probe_row *row = set->rows[p->spec];

		if (!row->class_name || plan_finds(p->plan, p->spec))
			continue;
		if (!p->rtti)
			r = elf_rtti_open(p->image, &p->rtti, ret_reason);
		if (r >= 0)
			r = elf_rtti_find(p->rtti, row->class_name, row->derived, on_class, p);
	}
	p->rtti = elf_rtti_free(p->rtti);
	return r;
}

static int by_spec(const void *a, const void *b)
{
	const struct plan_site *x = a, *y = b;

	if (x->spec != y->spec)
		return x->spec < y->spec ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static bool has_static_probes(const struct pack_set *set)
{
	for (unsigned i = 0; i < set->n_rows; i++)
		if (set->rows[i]->usdt)
			return true;
	return false;
}

static const uint8_t register_of_usdt[] = {
	[USDT_R15] = REGISTER_R15, [USDT_R14] = REGISTER_R14, [USDT_R13] = REGISTER_R13,
	[USDT_R12] = REGISTER_R12, [USDT_RBP] = REGISTER_RBP, [USDT_RBX] = REGISTER_RBX,
	[USDT_R11] = REGISTER_R11, [USDT_R10] = REGISTER_R10, [USDT_R9] = REGISTER_R9,
	[USDT_R8] = REGISTER_R8,   [USDT_RAX] = REGISTER_RAX, [USDT_RCX] = REGISTER_RCX,
	[USDT_RDX] = REGISTER_RDX, [USDT_RSI] = REGISTER_RSI, [USDT_RDI] = REGISTER_RDI,
};

/* Where a static probe's arguments are, instead of the calling convention's registers. */
static void place_arguments(struct plan_site *planned, const struct probe_row *row,
			    const struct usdt_site *site)
{
	for (unsigned i = 0; i < SITE_ARGUMENTS; i++) {
		const struct usdt_argument *a = &site->arguments[i];

		planned->site.argument_register[i] = REGISTER_NONE;
		if (!(plan_arguments(row) & 1u << i))
			continue;
		if (i < site->n_arguments && a->kind == USDT_REGISTER && abs(a->size) == 8 &&
		    a->base >= 0 && (size_t)a->base < ARRAY_SIZE(register_of_usdt)) {
			planned->site.argument_register[i] = register_of_usdt[a->base];
			continue;
		}
		planned->site.class = SITE_REFUSED;
		planned->site.reason =
			"an argument of the static probe is not 64 bits in a register";
	}
}

static int on_static_probe(const struct usdt_site *site, void *data)
{
	struct planner *p = data;
	const struct pack_set *set = p->plan->packs;

	/* The semaphore guards the probe, but the kernel cannot raise it, or no note declares it
	 * for this probe. */
	if (site->semaphore_address && (!site->semaphore || !site->note))
		return 0;
	/* The kernel accepts an instruction with one counter only. */
	for (unsigned i = 0; i < p->plan->n_sites; i++)
		if (p->plan->sites[i].offset == site->offset)
			return 0;

	for (unsigned spec = 0; spec < set->n_rows; spec++) {
		struct plan_site entry = { .spec = spec,
					   .source = SYMBOL_USDT,
					   .function = site->offset,
					   .size = 1,
					   .semaphore = site->semaphore,
					   .note = site->note };
		_cleanup_free_ char *symbol = NULL;
		int r;

		if (!set->rows[spec]->usdt || strcmp(set->rows[spec]->usdt, site->name))
			continue;
		if (asprintf(&symbol, "%s:%s%s%s", site->provider, site->name,
			     *site->text ? " " : "", site->text) < 0)
			return -ENOMEM;
		entry.symbol = symbol;
		r = plan_add(p->plan, p->image, &entry);
		if (r < 0)
			return r;
		place_arguments(&p->plan->sites[p->plan->n_sites - 1], set->rows[spec], site);
	}
	return 0;
}

/* 0: the file has the constant that the row is for; -ENOENT: it has not; -ENOMEM. */
static int check_constant(const struct probe_row *row, const struct elf_image *image)
{
	uint64_t address, offset, room, value;
	int r = elf_lookup(image, row->constant, &address);

	if (!row->constant_is)
		return r >= 0 ? -ENOENT : r == -ENOMEM ? r : 0;
	if (r >= 0)
		r = elf_image_locate(image, address, &offset, &room);
	if (r >= 0)
		r = elf_image_read(image, offset, &value, sizeof(value));
	return r < 0 ? r : value >> 16 == row->constant_is ? 0 : -ENOENT;
}

/* Finds what the row needs besides its function. -ENOENT: the file lacks it; -ENOMEM. */
static int find_needed(const struct probe_row *row, const struct elf_image *image,
		       uint64_t ret[ROW_OBJECTS])
{
	for (unsigned k = 0; k < ROW_OBJECTS; k++) {
		int r = row->objects[k] ? elf_lookup(image, row->objects[k], &ret[k]) : 0;

		if (r < 0)
			return r;
	}
	return row->constant ? check_constant(row, image) : 0;
}

/* Finds the objects that rows need; what lacks one cannot be used. -errno of reading the file. */
static int find_objects(struct plan *plan, const struct elf_image *image)
{
	for (unsigned i = 0; i < plan->n_sites; i++) {
		struct plan_site *site = &plan->sites[i];
		int r = find_needed(plan->packs->rows[site->spec], image, site->objects);

		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			site->site.class = SITE_REFUSED;
			site->site.reason = "the file does not export what belongs to it";
		}
	}
	return 0;
}

int plan_complete(struct plan *plan, const struct elf_image *image, const char **ret_reason)
{
	struct planner planner = { .plan = plan, .image = image };
	int r = tables_add(plan, image, ret_reason);

	if (r >= 0)
		r = jumps_add(plan, image);
	if (r >= 0 && has_static_probes(plan->packs))
		r = elf_usdt_match(image, PACK_PROVIDER, NULL, on_static_probe, &planner,
				   ret_reason);
	if (r >= 0)
		r = find_objects(plan, image);
	if (r >= 0 && plan->n_sites)
		qsort(plan->sites, plan->n_sites, sizeof(plan->sites[0]), by_spec);
	return r;
}

int plan_new(int fd, int debug, const struct pack_set *set, struct plan **ret,
	     const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL, *debug_file = NULL;
	_cleanup_free_ struct symbol_pattern *patterns = NULL;
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	struct planner planner = {};
	int r;

	r = elf_image_open(fd, &image, ret_reason);
	if (r < 0)
		return r;
	*ret_reason = "out of memory";
	patterns = calloc(set->n_rows, sizeof(patterns[0]));
	if (!patterns || plan_make(set, elf_image_build_id(image), &plan) < 0)
		return -ENOMEM;
	/* Static probes have no symbol: their pattern is one that no function's name can match. */
	for (unsigned i = 0; i < set->n_rows; i++)
		patterns[i].text = set->rows[i]->symbol ?: ":";
	planner = (struct planner){ .plan = plan, .image = image };
	/* A debug file that cannot be trusted, or belongs to another build, is ignored. */
	if (debug >= 0)
		elf_debug_open(image, debug, &debug_file, NULL);
	*ret_reason = "too many functions match";
	r = elf_symbols_match_debug(image, debug_file, patterns, set->n_rows, on_symbol, &planner,
				    ret_reason);
	if (r >= 0 && !elf_image_find_section(image, SHT_SYMTAB))
		r = look_into_classes(&planner, ret_reason);
	if (r >= 0)
		r = plan_complete(plan, image, ret_reason);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(plan);
	return 0;
}
