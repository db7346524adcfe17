/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's library brings its own TLS: at the socket its requests are encrypted, but it has an object
 * for each stream. A stream is added as a request if its process has encrypted connections, and if
 * no socket has shown it: neither is the connection of its transport one that was read, nor has the
 * process, on a connection whose transport is not known, a request with the stream's number at that
 * time. So no request is shown twice. What sockets could not show, since they or the streams were
 * not observed any more, is not encrypted for that: it is left out, and so are more transports than
 * the process has encrypted connections.
 *
 * Only the numbers of streams and times are known: no byte of the connection is read.
 */
#include "daemon/correlate/http/library_requests.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"

/* A request at a socket on a connection whose transport is not known. */
struct candidate {
	uint32_t process, stream;
	uint64_t from, until; /* until: the latest one of this and the ones before it with the same
				 process and stream */
};

struct library_requests {
	struct correlator *c;
	struct candidate *candidates; /* by process, stream and time */
	uint32_t n_candidates;
	uint32_t *connections; /* by transport: index + 1 */
	/* By process: encrypted connections that no transport was found for. */
	uint64_t n_encrypted[RECORD_MAX_TARGETS];
	uint64_t until_ns; /* sockets and streams were observed */
};

static void count_encrypted(struct library_requests *l)
{
	struct encrypted_connections all[RECORD_MAX_TARGETS];

	connections_count_encrypted(&l->c->connections, all);
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++)
		l->n_encrypted[i] = all[i].sockets - MIN(all[i].sockets, all[i].objects);
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static int find_candidates(struct library_requests *l)
{
	struct correlator *c = l->c;
	const struct requests *r = &c->requests;
	_cleanup_free_ uint32_t *n_known =
		calloc((size_t)connections_count(&c->connections) + 1, sizeof(n_known[0]));

	l->candidates = calloc((size_t)requests_count(r) + 1, sizeof(l->candidates[0]));
	if (!n_known || !l->candidates)
		return -ENOMEM;
	for (uint32_t i = 0; i < streams_count(c); i++) {
		struct library_stream s = streams_get(c, i);

		if (s.at_socket && s.request)
			n_known[requests_state(r, s.request - 1)->connection]++;
	}
	for (uint32_t i = 0; i < requests_count(r); i++) {
		const struct request *q = requests_get(r, i);
		uint32_t at = requests_state(r, i)->connection;

		if (q->protocol == PROTOCOL_HTTP2 && !streams_has_connection(c, at) &&
		    n_known[at] <= connections_get(&c->connections, at)->n_requests / 2)
			l->candidates[l->n_candidates++] =
				(struct candidate){ q->process, q->stream, q->read_start_ns,
						    q->end_ns };
	}
	qsort(l->candidates, l->n_candidates, sizeof(l->candidates[0]), compare_candidates);
	for (uint32_t i = 1; i < l->n_candidates; i++) {
		struct candidate *one = &l->candidates[i];

		if (one->process == one[-1].process && one->stream == one[-1].stream)
			one->until = MAX(one->until, one[-1].until);
	}
	return 0;
}

/* Whether a socket may have shown the stream's request. */
static bool may_be_at_socket(const struct library_requests *l, const struct library_stream *s)
{
	const struct candidate at = { s->process, s->stream, s->begin_ns, 0 };
	size_t n =
		SEARCH_FIRST(l->n_candidates, i, compare_candidates(&l->candidates[i], &at) <= 0);
	const struct candidate *last = n ? &l->candidates[n - 1] : NULL;

	return last && last->process == s->process && last->stream == s->stream &&
	       last->until >= s->begin_ns;
}

/* The connection of a transport; NO_REQUEST: no room, or the transport is not encrypted. */
static uint32_t connection_of(struct library_requests *l, const struct library_stream *s)
{
	uint32_t *connection = &l->connections[s->transport], added;

	if (!*connection) {
		added = l->n_encrypted[s->process] ? connection_add(l->c, s->process) : NO_REQUEST;
		if (added == NO_REQUEST)
			return NO_REQUEST;
		l->n_encrypted[s->process]--;
		connections_get(&l->c->connections, added)->at_library = true;
		*connection = added + 1;
	}
	return *connection - 1;
}

static void add(struct library_requests *l, uint32_t object, const struct library_stream *s)
{
	struct correlator *c = l->c;
	uint32_t connection = connection_of(l, s),
		 request = connection == NO_REQUEST ? NO_REQUEST
						    : request_add(c, connection, s->begin_ns);
	uint64_t answered = s->end_ns ?: UINT64_MAX, aborted = s->aborted_ns ?: UINT64_MAX;
	uint64_t end = MIN(MIN(answered, aborted), l->until_ns);
	unsigned flags = answered <= end  ? 0
			 : aborted <= end ? REQUEST_RESET
					  : REQUEST_TRUNCATED_END;
	struct request *q;

	if (request == NO_REQUEST)
		return;
	q = requests_get(&c->requests, request);
	q->protocol = PROTOCOL_HTTP2;
	q->write_thread = answered <= end ? s->end_thread : THREAD_NONE;
	q->flags |= REQUEST_AT_LIBRARY | REQUEST_NO_ARRIVAL;
	requests_state(&c->requests, request)->read = true;
	requests_state(&c->requests, request)->since_ns = s->begin_ns;
	requests_set_stream(c, request, s->stream);
	streams_set_request(c, object, request);
	if (losses_within(&c->losses, s->begin_ns, end)) {
		flags |= REQUEST_LOST;
		requests_state(&c->requests, request)->ambiguous = true;
	}
	request_end_counted(c, request, end, flags);
}

void library_requests_point(struct correlator *c, const struct entry *e)
{
	uint32_t object = streams_point(c, e);
	struct library_stream s =
		object == NO_STREAM ? (struct library_stream){} : streams_get(c, object);
	struct request q = { .start_ns = s.begin_ns,
			     .end_ns = s.end_ns,
			     .process = s.process,
			     .path = TEXT_NONE,
			     .model = TEXT_NONE,
			     .status = -1,
			     .grpc_status = -1 };

	if (s.end_ns && connections_have_encrypted(&c->connections, s.process) && !s.at_socket &&
	    !s.request && !s.aborted_ns && !connections_until(&c->connections))
		finished_add(c, &q);
}

void library_requests_add(struct correlator *c)
{
	struct library_requests l = {
		.c = c, .until_ns = MIN(connections_until(&c->connections), streams_until(c))
	};

	streams_match(c);
	if (c->error || !streams_count(c))
		return;
	count_encrypted(&l);
	l.connections = calloc((size_t)streams_count(c), sizeof(l.connections[0]));
	if (!l.connections || find_candidates(&l) < 0)
		c->error = -ENOMEM;
	for (uint32_t i = 0; i < streams_count(c) && !c->error; i++) {
		struct library_stream s = streams_get(c, i);

		if (s.process < RECORD_MAX_TARGETS && s.begin_ns < l.until_ns && !s.at_socket &&
		    !may_be_at_socket(&l, &s))
			add(&l, i, &s);
	}
	free(l.candidates);
	free(l.connections);
}
