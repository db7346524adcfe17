/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/plan.h"

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

#define CODE_MAX (64u << 10)

static uint64_t argument_mask(const struct probe_row *row)
{
	uint64_t mask = 0;
	const unsigned used[] = { row->value.argument, row->value2.argument, row->tag.argument };

	for (unsigned i = 0; i < ARRAY_SIZE(used); i++)
		if (used[i] != ARGUMENT_NONE)
			mask |= 1u << (used[i] - 1);
	return mask;
}

int plan_make(const struct pack_set *set, const char *build_id, struct plan **ret)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return -ENOMEM;
	plan->references = 1;
	plan->packs = set;
	snprintf(plan->build_id, sizeof(plan->build_id), "%s", build_id);
	*ret = plan;
	return 0;
}

int plan_add(struct plan *plan, const struct elf_image *image, const struct plan_site *entry)
{
	const struct probe_row *row = plan->packs->rows[entry->spec];
	_cleanup_free_ uint8_t *code = NULL;
	struct plan_site *site;
	size_t size = 0;
	int r;

	if (plan->n_sites >= PLAN_SITES_MAX)
		return -E2BIG;
	code = malloc(CODE_MAX);
	if (!code)
		return -ENOMEM;
	r = elf_image_read_code(image, entry->function, code, MIN(entry->size, CODE_MAX), &size);
	if (r < 0)
		return r;
	if (row->class_byte && site_find_form(code, size, row->class_byte) !=
				       (row->by_value ? FORM_VALUE : FORM_ADDRESS))
		return 0;
	if (plan->n_sites == plan->size) {
		unsigned bigger = plan->size ? plan->size * 2 : 64;
		struct plan_site *sites = realloc(plan->sites, bigger * sizeof(sites[0]));

		if (!sites)
			return -ENOMEM;
		plan->sites = sites;
		plan->size = bigger;
	}
	site = &plan->sites[plan->n_sites];
	*site = *entry;
	site->symbol = strdup(entry->symbol);
	if (!site->symbol)
		return -ENOMEM;
	if (row->first_call)
		site_choose_behind_call(code, size, argument_mask(row), &site->site);
	else if (site_choose(code, size, argument_mask(row) | (row->at_return ? SITE_AT_RETURN : 0),
			     &site->site) != SITE_REFUSED &&
		 row->at_return && (site->site.stack_offset || site->site.may_repeat)) {
		site->site.class = SITE_REFUSED;
		site->site.reason = "the return address may not be where it was at the entry";
	}
	if (site->site.class != SITE_REFUSED &&
	    (site->site.stack_offset > COOKIE_STACK_MAX || site->site.stack_offset % 8)) {
		site->site.class = SITE_REFUSED;
		site->site.reason = "the stack pointer is too far from where it was at the entry";
	}
	site->offset = site->function + (site->site.class == SITE_REFUSED ? 0 : site->site.offset);
	plan->n_sites++;
	return 0;
}

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
	uint64_t address, start;

	if (elf_rtti_slot(p->rtti, class, slot, &address) < 0 ||
	    elf_image_code_offset(p->image, address, &site.function) < 0 ||
	    elf_function_bounds(p->image, address, &start, &site.size) < 0 || start != address)
		return 0;
	/* Classes share the functions that they do not override. */
	for (unsigned i = 0; i < p->plan->n_sites; i++)
		if (p->plan->sites[i].function == site.function)
			return 0;
	if (asprintf(&symbol, "%s, slot %u", class->name, slot) < 0)
		return -ENOMEM;
	site.symbol = symbol;
	return plan_add(p->plan, p->image, &site);
}

bool plan_finds(const struct plan *plan, unsigned spec)
{
	for (unsigned i = 0; i < plan->n_sites; i++)
		if (plan->sites[i].spec == spec)
			return true;
	return false;
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
		if (!(argument_mask(row) & 1u << i))
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

/* The function that the row's exported function jumps to. -ENOENT: there is none with a site. */
static int add_jump(struct plan *plan, const struct elf_image *image, unsigned spec)
{
	struct plan_site site = { .spec = spec, .source = SYMBOL_JUMP };
	const char *name = plan->packs->rows[spec]->jump;
	_cleanup_free_ char *symbol = NULL;
	int r = jumps_find(image, name, &site.function, &site.size);

	if (r == -EBADMSG || r == -EOPNOTSUPP)
		return -ENOENT;
	if (r < 0)
		return r;
	if (asprintf(&symbol, "%s, jump", name) < 0)
		return -ENOMEM;
	site.symbol = symbol;
	r = plan_add(plan, image, &site);
	if (r < 0)
		return r;
	return plan->sites[plan->n_sites - 1].site.class == SITE_REFUSED ? -ENOENT : 0;
}

/* All of a pack's, or none. */
static int add_jumps(struct plan *plan, const struct elf_image *image)
{
	const struct pack_set *set = plan->packs;
	const struct pack *of = NULL, *lacks = NULL;
	unsigned first = 0;

	for (unsigned i = 0; i < set->n_rows; i++) {
		int r;

		if (!set->rows[i]->jump || set->owners[i] == lacks)
			continue;
		if (set->owners[i] != of)
			first = plan->n_sites;
		of = set->owners[i];
		r = add_jump(plan, image, i);
		if (r < 0 && r != -ENOENT)
			return r;
		if (r >= 0)
			continue;
		lacks = of;
		while (plan->n_sites > first)
			free(plan->sites[--plan->n_sites].symbol);
	}
	return 0;
}

int plan_complete(struct plan *plan, const struct elf_image *image, const char **ret_reason)
{
	struct planner planner = { .plan = plan, .image = image };
	int r = tables_add(plan, image, ret_reason);

	if (r >= 0)
		r = add_jumps(plan, image);
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

struct plan *plan_ref(struct plan *plan)
{
	__atomic_add_fetch(&plan->references, 1, __ATOMIC_RELAXED);
	return plan;
}

struct plan *plan_unref(struct plan *plan)
{
	if (!plan || __atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL))
		return NULL;
	for (unsigned i = 0; i < plan->n_sites && !plan->texts; i++)
		free(plan->sites[i].symbol);
	free(plan->texts);
	for (unsigned i = 0; i < RECORD_LAYOUTS; i++)
		free(plan->names[i].texts);
	free(plan->sites);
	free(plan);
	return NULL;
}

bool plan_holds_runtime(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct probe_row *row = plan->packs->rows[plan->sites[i].spec];

		if (row_is(row, VERB_OPEN, WORK_RUN) || row_is(row, VERB_OPEN, WORK_OP))
			return true;
	}
	return false;
}

bool plan_is_of_release(const struct pack_set *set, const struct plan_site *site,
			const char *release)
{
	const struct probe_row *row = set->rows[site->spec];

	return row_is_of_release(row, release) &&
	       (site->source != SYMBOL_RTTI || site->slot_known || row->any_release ||
		pack_has_slots(set->owners[site->spec], release));
}

bool plan_has_marks(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->n_sites; i++)
		if (plan->sites[i].source == SYMBOL_USDT)
			return true;
	return false;
}

/* The register of an argument at the site. */
static uint64_t register_of(const struct plan_site *site, uint8_t argument)
{
	return argument == ARGUMENT_NONE ? REGISTER_NONE
					 : site->site.argument_register[argument - 1];
}

static bool is_of_object(const struct probe_row *row)
{
	return row->action == ACTION_OBJECT || row->action == ACTION_OBJECT_FREE;
}

/* Whether the row's value is the number of the site. */
static bool is_named_by_site(const struct pack *pack, const struct probe_row *row)
{
	_Static_assert(PLAN_SITES_MAX <= 1 << 12, "the cookie has room for a site's number");

	return pack->names.in_symbol && row_is(row, VERB_OPEN, WORK_OP);
}

/* Whether the row reads more than the cookie can encode. */
static bool needs_path(const struct probe_row *row)
{
	unsigned direct = is_of_object(row) ? 0 : row->action == ACTION_READ ? 2 : 1;

	return row->tag.deref || row->value2.deref > 1 || row->value.deref > direct ||
	       (row->value.deref > 1 && row->value.then[0]);
}

bool plan_read_path(const struct plan *plan, const struct plan_site *site, struct record_path *ret)
{
	const struct probe_row *row = plan->packs->rows[site->spec];
	const struct probe_read *const reads[PATH_READS] = {
		[PATH_VALUE] = &row->value, [PATH_VALUE2] = &row->value2, [PATH_TAG] = &row->tag
	};

	*ret = (struct record_path){};
	if (!needs_path(row))
		return false;
	for (unsigned i = 0; i < PATH_READS; i++) {
		ret->n_steps[i] = MIN(reads[i]->deref, RECORD_STEPS);
		for (unsigned k = 0; k < ret->n_steps[i]; k++)
			ret->steps[i][k] = k ? reads[i]->then[k - 1] : reads[i]->offset;
	}
	return true;
}

uint64_t plan_cookie(const struct plan *plan, const struct plan_site *site, unsigned target)
{
	const struct probe_row *row = plan->packs->rows[site->spec];
	uint64_t value = row->at_return ? REGISTER_RAX : register_of(site, row->value.argument);
	unsigned layout = (unsigned)MAX(pack_set_named(plan->packs, site->spec), 0);
	bool by_path = needs_path(row);
	uint64_t offset = by_path ? 0
			  : is_named_by_site(plan->packs->owners[site->spec], row)
				  ? (uint64_t)(site - plan->sites)
				  : row->value.offset;
	uint64_t cookie =
		COOKIE_MAKE(site->spec, target, value, register_of(site, row->tag.argument),
			    register_of(site, row->value2.argument), row->action, offset,
			    row->action == ACTION_OBJECT  ? layout
			    : row->action == ACTION_PLAIN ? row->group
			    : by_path                     ? 0
							  : row->value2.offset,
			    site->site.stack_offset);

	if (row->at_return)
		cookie |= COOKIE_RETURN;
	if (by_path)
		return cookie | COOKIE_PATH;
	if (row->value.deref)
		cookie |= COOKIE_DEREF;
	if (row->value.deref > 1)
		cookie |= COOKIE_DEREF_AGAIN;
	if (row->value2.deref)
		cookie |= COOKIE_DEREF2;
	return cookie;
}
