/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "include/record_types.h"
#include "lib/base/macro.h"

#define CODE_MAX (64u << 10)

uint64_t plan_arguments(const struct probe_row *row)
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
		site_choose_behind_call(code, size, plan_arguments(row), &site->site);
	else if (site_choose(code, size,
			     plan_arguments(row) | (row->at_return ? SITE_AT_RETURN : 0),
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

bool plan_has_function(const struct plan *plan, uint64_t function)
{
	for (unsigned i = 0; i < plan->n_sites; i++)
		if (plan->sites[i].function == function)
			return true;
	return false;
}

bool plan_finds(const struct plan *plan, unsigned spec)
{
	for (unsigned i = 0; i < plan->n_sites; i++)
		if (plan->sites[i].spec == spec)
			return true;
	return false;
}

bool plan_lacks(int error)
{
	return error == -ENOENT || error == -ENOTUNIQ || error == -E2BIG || error == -EBADMSG ||
	       error == -EOPNOTSUPP;
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
