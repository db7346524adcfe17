/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/request_hops.h"

#include "lib/base/macro.h"

static void fill(const struct timeline *t, const struct hop *hop, uint32_t request,
		 uint32_t process, Tfprofd__RequestHop *m)
{
	*m = (Tfprofd__RequestHop)TFPROFD__REQUEST_HOP__INIT;
	m->request = request;
	m->pid = timeline_pid(t, process);
	m->start_ns = hop->start_ns;
	m->end_ns = hop->end_ns;
}

void request_hops_fill(struct request_hops *h, const struct timeline *t, const struct request *r,
		       Tfprofd__Request *m)
{
	uint32_t shown = MIN(r->n_calls, (uint32_t)REQUEST_CALLS_MAX);
	const struct hop *own = r->hop ? &t->hops[r->hop - 1] : NULL;

	for (uint32_t i = 0; i < shown; i++) {
		const struct hop *hop = &t->hops[r->first_call + i];

		h->list[i] = &h->calls[i];
		fill(t, hop, hop->callee, t->requests[hop->callee - 1].process, h->list[i]);
	}
	m->calls = h->list;
	m->n_calls = shown;
	m->calls_left_out = r->n_calls - shown;
	if (!own)
		return;
	fill(t, own, own->caller, own->process, &h->called_by);
	m->called_by = &h->called_by;
}
