/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/http/arrivals.h"

#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

#define SOCKETS_MAX CONNECTIONS_MAX
#define READY_MAX 16

/* Two positions of one connection differ by less than this; sequence numbers wrap. */
#define POSITION_MAX (1u << 30)

struct socket_arrivals {
	struct {
		uint64_t time;
		uint32_t position;
		bool more; /* bytes behind it may have come, too */
		bool unaccepted;
	} entries[READY_MAX]; /* a ring */
	unsigned n;           /* so far */
	uint64_t accepted_ns;
};

static struct socket_arrivals *socket_get(struct correlator *c, uint64_t socket)
{
	struct arrivals *all = &c->arrivals;
	uint64_t *found = map_get(&all->of_socket, connections_socket_key(socket));
	struct socket_arrivals *a;

	if (found)
		return &all->sockets[*found];
	if (all->n >= SOCKETS_MAX)
		return NULL;
	a = correlator_grow(c, all->sockets, &all->size, all->n, sizeof(*a));
	if (!a)
		return NULL;
	all->sockets = a;
	correlator_put(c, &all->of_socket, connections_socket_key(socket), all->n);
	a[all->n] = (struct socket_arrivals){};
	return &a[all->n++];
}

void arrivals_on_ready(struct correlator *c, const struct record_ready *record)
{
	struct socket_arrivals *a = socket_get(c, record->socket);

	c->arrivals.n_seen++;
	if (!a)
		return;
	/* The same bytes can be reported more than once. */
	if (a->n && a->entries[(a->n - 1) % READY_MAX].position == record->position)
		return;
	a->entries[a->n % READY_MAX].time = record->head.time;
	a->entries[a->n % READY_MAX].unaccepted = record->unaccepted;
	a->entries[a->n % READY_MAX].position = record->position;
	a->entries[a->n % READY_MAX].more = record->more;
	a->n++;
}

void arrivals_on_accepted(struct correlator *c, const struct record_accepted *record)
{
	struct socket_arrivals *a = socket_get(c, record->socket);

	if (a)
		a->accepted_ns = record->head.time;
}

uint64_t arrivals_accepted_ns(struct correlator *c, uint64_t socket)
{
	const struct socket_arrivals *a = socket_get(c, socket);

	return a ? a->accepted_ns : 0;
}

struct arrival arrivals_find(struct correlator *c, uint64_t socket, uint32_t position,
			     uint64_t *ret_since, uint32_t *ret_until)
{
	const struct socket_arrivals *a = socket_get(c, socket);
	uint32_t most = POSITION_MAX;
	struct arrival first = {};
	unsigned n;

	*ret_since = c->start_ns;
	if (!a)
		return first;
	n = MIN(a->n, (unsigned)READY_MAX);
	for (unsigned i = 1; i <= n; i++) {
		struct arrival arrival = { a->entries[(a->n - i) % READY_MAX].time,
					   a->entries[(a->n - i) % READY_MAX].unaccepted };
		uint32_t behind = a->entries[(a->n - i) % READY_MAX].position - position;

		/* The earliest entry beyond this position; those of an earlier connection are out
		 * of order. */
		if (!behind || behind > most) {
			*ret_since = arrival.time;
			/* The byte may have come with these. */
			return a->entries[(a->n - i) % READY_MAX].more ? (struct arrival){} : first;
		}
		most = behind;
		first = arrival;
		*ret_until = position + behind;
	}
	if (a->n <= READY_MAX)
		return first;
	/* If even the oldest entry is beyond it, an older one may have been overwritten. */
	*ret_since = first.time;
	return (struct arrival){};
}

bool arrivals_seen(const struct correlator *c)
{
	return c->arrivals.n_seen > 0;
}

void arrivals_done(struct arrivals *a)
{
	free(a->sockets);
	map_done(&a->of_socket);
}
