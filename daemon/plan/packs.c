/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/packs/list.h"
#include "lib/base/glob.h"
#include "lib/base/macro.h"

#define DECLARE(name) extern const struct pack pack_##name;
#define LIST(name) &pack_##name,
PACKS(DECLARE)
const struct pack *const packs[] = { PACKS(LIST) NULL };

static bool matches_any(const char *const *patterns, const char *string)
{
	for (; patterns && *patterns; patterns++)
		if (glob_matches(*patterns, string))
			return true;
	return false;
}

uint64_t packs_of_file(const char *base_name)
{
	uint64_t bits = 0;

	for (unsigned i = 0; packs[i]; i++)
		if (matches_any(packs[i]->files, base_name) ||
		    matches_any(packs[i]->executables, base_name))
			bits |= UINT64_C(1) << i;
	return bits;
}

bool packs_are_news(const char *base_name)
{
	uint64_t bits = packs_of_file(base_name);

	for (unsigned i = 0; packs[i]; i++)
		if (packs[i]->mapped_first)
			bits &= ~(UINT64_C(1) << i);
	return bits;
}

static bool begins_with_any(const char *const *known, const char *release)
{
	while (*known && strncmp(release, *known, strlen(*known)))
		known++;
	return *known;
}

bool pack_has_slots(const struct pack *pack, const char *release)
{
	if (!pack->slots_releases)
		return !pack->builds;
	return begins_with_any(pack->slots_releases, release);
}

bool row_is_of_release(const struct probe_row *row, const char *release)
{
	return !row->releases || begins_with_any(row->releases, release) != row->except;
}

const char *pack_release_of_build(const struct pack *pack, const char *build_id)
{
	for (const struct known_build *b = pack->builds; b && b->id; b++)
		if (!strcmp(b->id, build_id))
			return b->release;
	return NULL;
}

/* The packs that are in every set. */
static uint64_t packs_everywhere(void)
{
	uint64_t bits = 0;

	for (unsigned i = 0; packs[i]; i++)
		if (packs[i]->everywhere)
			bits |= UINT64_C(1) << i;
	return bits;
}

uint64_t packs_of_runtimes(uint64_t bits)
{
	return bits & ~packs_everywhere();
}

int pack_set_add(struct pack_set *set, const struct pack *pack)
{
	size_t used = strlen(set->name);

	if (set->n_rows + pack->n_rows > ROWS_MAX)
		return -E2BIG;
	if (pack->names.is_name) {
		if (set->n_named == RECORD_LAYOUTS)
			return -E2BIG;
		set->named[set->n_named++] = pack;
	}
	for (unsigned i = 0; i < pack->n_rows; i++) {
		set->owners[set->n_rows] = pack;
		set->rows[set->n_rows++] = &pack->rows[i];
	}
	if (!pack->everywhere)
		snprintf(set->name + used, sizeof(set->name) - used, "%s%s", used ? ", " : "",
			 pack->name);
	return 0;
}

bool pack_set_has_runtime(const struct pack_set *set)
{
	return *set->name;
}

bool pack_set_works_for_parent(const struct pack_set *set)
{
	for (unsigned i = 0; packs[i]; i++)
		if (set->bits & UINT64_C(1) << i && packs[i]->works_for_parent)
			return true;
	return false;
}

const struct probe_row *pack_set_row(const struct pack_set *set, unsigned number)
{
	return number < set->n_rows ? set->rows[number] : NULL;
}

int pack_set_named(const struct pack_set *set, unsigned number)
{
	for (unsigned i = 0; number < set->n_rows && i < set->n_named; i++)
		if (set->named[i] == set->owners[number])
			return (int)i;
	return -1;
}

const struct pack_set *pack_set_get(uint64_t bits)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct made {
		struct made *next;
		struct pack_set set;
	} * all;
	struct made *made;
	int r = 0;

	/* The front chooses them: a set of packs that do not exist must not be another one. */
	bits = (bits | packs_everywhere()) & UINT64_MAX >> (64 - (ARRAY_SIZE(packs) - 1));
	pthread_mutex_lock(&lock);
	for (made = all; made && made->set.bits != bits; made = made->next)
		;
	if (!made) {
		made = calloc(1, sizeof(*made));
		for (unsigned i = 0; made && packs[i] && r >= 0; i++)
			if (bits & UINT64_C(1) << i)
				r = pack_set_add(&made->set, packs[i]);
		if (made && r < 0) {
			free(made);
			made = NULL;
		}
		if (made) {
			made->set.bits = bits;
			made->next = all;
			all = made;
		}
	}
	pthread_mutex_unlock(&lock);
	return made ? &made->set : NULL;
}
