/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/sites.h"

#include <stdio.h>
#include <string.h>

/* The kind that a site is left out with: where there are no operations, nobody asks what their
 * objects are called. */
static enum probe_kind kind_of_site(const struct plan *plan, const struct plan_site *site)
{
	const struct probe_row *row = plan->packs->rows[site->spec];

	return row_is(row, VERB_FREE, WORK_OP) ? KIND_OPS : probe_kind_of_row(row);
}

void sites_count(const struct prepared *p, const struct detail *detail, unsigned ret[KIND_COUNT])
{
	memset(ret, 0, KIND_COUNT * sizeof(ret[0]));
	for (unsigned f = 0; f < p->n_files; f++) {
		const struct plan *plan = p->files[f].plan;

		for (unsigned i = 0; i < plan->n_sites; i++)
			if (prepared_wants(p, &plan->sites[i], detail))
				ret[kind_of_site(plan, &plan->sites[i])]++;
	}
}

enum probe_kind sites_excess(const unsigned counts[KIND_COUNT], unsigned left_out, unsigned room)
{
	enum probe_kind most = KIND_COUNT;
	unsigned n = 0;

	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		if (left_out & 1u << kind)
			continue;
		n += counts[kind];
		if (kind > KIND_EXECUTORS && counts[kind] &&
		    (most == KIND_COUNT || counts[kind] > counts[most]))
			most = kind;
	}
	return n > room ? most : KIND_COUNT;
}

unsigned sites_room(const struct forecast *forecast)
{
	return forecast->perf_events ? BROKER_MAX_PERF_EVENTS : BROKER_MAX_SITES;
}

unsigned sites_left_out(const struct capture_plan *plan)
{
	unsigned counts[KIND_COUNT], left_out = 0;
	enum probe_kind kind;

	for (unsigned i = 0; i < plan->n_targets; i++) {
		sites_count(&plan->targets[i], &plan->detail, counts);
		while ((kind = sites_excess(counts, left_out, sites_room(&plan->forecast))) <
		       KIND_COUNT)
			left_out |= 1u << kind;
	}
	return left_out;
}

void sites_explain(enum probe_kind kind, unsigned n, unsigned room, char *ret_text,
		   size_t text_size)
{
	snprintf(
		ret_text, text_size,
		"Not captured: %s. They need %u probes, and a capture has room for %u (before Linux 6.6): use a later kernel, or level 1.",
		probe_kind_name(kind), n, room);
}

int sites_send(struct proxy *proxy, uint32_t capture, unsigned target, const struct prepared *p,
	       unsigned file, unsigned refused_kinds, const struct detail *detail, char *ret_text,
	       size_t text_size)
{
	const struct plan *plan = p->files[file].plan;
	struct broker_message m = { .type = BROKER_SITES,
				    .id = capture,
				    .index = target,
				    .file = p->files[file].opened.id };
	bool any = false;
	int r;

	for (unsigned i = 0; i < plan->n_sites; i++) {
		const struct plan_site *site = &plan->sites[i];

		if (!prepared_wants(p, site, detail) ||
		    refused_kinds & 1u << kind_of_site(plan, site))
			continue;
		m.sites.words[i / 64] |= UINT64_C(1) << i % 64;
		any = true;
	}
	if (!any)
		return 0;
	r = proxy_call(proxy, &m, NULL, NULL);
	if (r < 0)
		snprintf(ret_text, text_size, "%s", m.text);
	return r;
}
