/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/knowledge.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"

enum { RUN, OP, END, ANY_RELEASE };

static const struct probe_row rows[] = {
	[RUN] = { .verb = VERB_OPEN, .work = WORK_RUN },
	[OP] = { .verb = VERB_OPEN, .work = WORK_OP },
	[END] = { .verb = VERB_CLOSE, .work = WORK_OP },
	[ANY_RELEASE] = { .verb = VERB_OPEN, .work = WORK_OP, .any_release = true },
};
static const char *const releases[] = { "2.", NULL };
static const struct pack runtime = {
	.name = "runtime", .rows = rows, .n_rows = ARRAY_SIZE(rows), .slots_releases = releases
};
static const struct pack beside = {
	.name = "beside", .rows = rows, .n_rows = ARRAY_SIZE(rows), .everywhere = true
};

static const char *name_of(const struct pack *pack, struct plan_site *sites, unsigned n)
{
	struct plan plan = { .packs = set_of(pack), .sites = sites, .n_sites = n };

	return knowledge_name(knowledge_of_plan(&plan, "1.0"));
}

TEST(a_runtime_is_known_as_its_functions_were_found)
{
	struct plan_site sites[] = { { .spec = RUN, .source = SYMBOL_TABLE },
				     { .spec = END, .source = SYMBOL_RTTI, .slot_known = true } };

	CHECK_STR(knowledge_name(0), "");
	CHECK_STR(name_of(&runtime, sites, 0), "requests only");
	CHECK_STR(name_of(&runtime, sites, 1), "exact");
	CHECK_STR(name_of(&runtime, sites, 2), "by RTTI");
	CHECK_STR(name_of(&runtime, &sites[1], 1), "requests only");
	CHECK_STR(name_of(&beside, sites, 2), "requests only");
}

TEST(functions_that_cannot_be_probed_are_not_known)
{
	struct plan_site other_release = { .spec = OP, .source = SYMBOL_RTTI };
	struct plan_site any_release = { .spec = ANY_RELEASE, .source = SYMBOL_RTTI };
	struct plan_site refused = { .spec = RUN, .site.class = SITE_REFUSED };

	CHECK_STR(name_of(&runtime, &other_release, 1), "requests only");
	CHECK_STR(name_of(&runtime, &any_release, 1), "by RTTI");
	CHECK_STR(name_of(&runtime, &refused, 1), "requests only");
}

CHECK_MAIN()
