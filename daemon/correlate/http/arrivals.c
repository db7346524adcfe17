/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/arrivals.h"

#include "lib/base/macro.h"

/* A position is behind another one by less than this; sequence numbers wrap. */
#define POSITION_MAX (1u << 30)

static struct arrivals *arrivals_get(struct correlator *c, uint64_t socket)
{
	struct requests *r = c->requests;
	uint64_t *found = map_get(&r->arrivals_of_socket, requests_socket_key(socket));
	struct arrivals *a;

	if (found)
		return &r->arrivals[*found];
	if (r->n_arrivals >= CONNECTIONS_MAX)
		return NULL;
	a = correlator_grow(c, r->arrivals, &r->arrivals_size, r->n_arrivals, sizeof(*a));
	if (!a)
		return NULL;
	r->arrivals = a;
	correlator_put(c, &r->arrivals_of_socket, requests_socket_key(socket), r->n_arrivals);
	a[r->n_arrivals] = (struct arrivals){};
	return &a[r->n_arrivals++];
}

void arrivals_on_ready(struct correlator *c, const struct record_ready *record)
{
	struct arrivals *a = arrivals_get(c, record->socket);

	c->requests->n_ready++;
	if (!a)
		return;
	/* The same bytes can be told of more than once. */
	if (a->n && a->entries[(a->n - 1) % READY_MAX].position == record->position)
		return;
	a->entries[a->n % READY_MAX].time = record->head.time;
	a->entries[a->n % READY_MAX].position = record->position;
	a->entries[a->n % READY_MAX].more = record->more;
	a->n++;
}

uint64_t arrivals_find(struct correlator *c, uint64_t socket, uint32_t position,
		       uint64_t *ret_since, uint32_t *ret_until)
{
	const struct arrivals *a = arrivals_get(c, socket);
	uint32_t most = POSITION_MAX;
	uint64_t first = 0;
	unsigned n;

	*ret_since = c->start_ns;
	if (!a)
		return 0;
	n = MIN(a->n, (unsigned)READY_MAX);
	for (unsigned i = 1; i <= n; i++) {
		uint64_t time = a->entries[(a->n - i) % READY_MAX].time;
		uint32_t behind = a->entries[(a->n - i) % READY_MAX].position - position;

		/* The earliest that tells of more than what came before; those of an earlier
		 * connection are not in their order. */
		if (!behind || behind > most) {
			*ret_since = time;
			/* Perhaps it came with these. */
			return a->entries[(a->n - i) % READY_MAX].more ? 0 : first;
		}
		most = behind;
		first = time;
		*ret_until = position + behind;
	}
	if (a->n <= READY_MAX)
		return first;
	/* When even the oldest one does, an older one may have been forgotten. */
	*ret_since = first;
	return 0;
}
