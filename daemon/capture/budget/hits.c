/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/budget/hits.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/plan/packs.h"
#include "lib/base/macro.h"

/* The interrupt of a CPU, and a stack of about 20 frames (docs/cost.md). */
#define SAMPLE_NS 15000

int hits_add(struct hits *h, unsigned target, const struct prepared *p)
{
	if (!h->each_ns[target])
		h->each_ns[target] = calloc(p->target.packs->n_rows, sizeof(h->each_ns[target][0]));
	if (!h->each_ns[target])
		return -ENOMEM;
	h->packs[target] = p->target.packs;
	/* Of a probe with several sites it is that of the most expensive one. */
	for (unsigned f = 0; f < p->n_files; f++)
		for (unsigned i = 0; i < p->files[f].plan->n_sites; i++) {
			const struct plan_site *site = &p->files[f].plan->sites[i];
			uint32_t *each = &h->each_ns[target][site->spec];

			*each = MAX(*each, forecast_site(h->forecast, site));
		}
	return 0;
}

static void count_probe(struct hits *h, const struct record *r)
{
	const struct pack_set *set = r->target < RECORD_MAX_TARGETS ? h->packs[r->target] : NULL;

	if (set && r->site < set->n_rows)
		h->cost_ns[probe_kind_of_row(set->rows[r->site])] += h->each_ns[r->target][r->site];
}

void hits_count(struct hits *h, const struct record *r)
{
	switch (r->kind) {
	case RECORD_MESSAGE:
		h->cost_ns[KIND_SOCKETS] += h->forecast->calibration.call_ns;
		break;
	case RECORD_SWITCH:
	case RECORD_WAKE:
		h->cost_ns[KIND_SWITCHES] += h->forecast->calibration.switch_ns;
		break;
	case RECORD_STACK:
		h->cost_ns[KIND_STACKS] += SAMPLE_NS;
		break;
	case RECORD_PROBE:
	case RECORD_TEXT:
		count_probe(h, r);
		break;
	}
}

void hits_done(struct hits *h)
{
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		free(h->each_ns[i]);
}
