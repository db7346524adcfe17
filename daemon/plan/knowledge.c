/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/knowledge.h"

unsigned knowledge_of_plan(const struct plan *plan, const char *release)
{
	const struct pack_set *set = plan->packs;
	unsigned knowledge = KNOWLEDGE_PLANNED;

	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct plan_site *site = &plan->sites[i];
		const struct probe_row *row = set->rows[site->spec];

		if (set->owners[site->spec]->everywhere || site->site.class == SITE_REFUSED ||
		    !plan_is_of_release(set, site, release))
			continue;
		if (row_is(row, VERB_OPEN, WORK_RUN) || row_is(row, VERB_OPEN, WORK_OP))
			knowledge |= KNOWLEDGE_WORK;
		if (site->source == SYMBOL_RTTI)
			knowledge |= KNOWLEDGE_BY_RTTI;
	}
	return knowledge;
}

const char *knowledge_name(unsigned knowledge)
{
	if (!(knowledge & KNOWLEDGE_PLANNED))
		return "";
	if (!(knowledge & KNOWLEDGE_WORK))
		return "requests only";
	return knowledge & KNOWLEDGE_BY_RTTI ? "by RTTI" : "exact";
}
