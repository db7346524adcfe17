/* SPDX-License-Identifier: Apache-2.0 */
/* A set of one pack of the test's own. */
#pragma once

#include <stddef.h>

#include "daemon/plan/packs.h"

static inline const struct pack_set *set_of(const struct pack *pack)
{
	static struct pack_set sets[8];

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (sets[i].n_rows && sets[i].owners[0] == pack)
			return &sets[i];
		if (!sets[i].n_rows)
			return pack_set_add(&sets[i], pack) < 0 ? NULL : &sets[i];
	}
	return NULL;
}
