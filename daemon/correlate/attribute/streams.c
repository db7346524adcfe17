/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as gRPC's library has them. Each is an object, made of the stream's number; the thread
 * that works for it takes it up, by wanting something of it, and tells it of the answer, whichever
 * thread writes the bytes then. So the object says whose the runs between are.
 *
 * Which connection the objects of a transport are of is seen when the thread that had an answer
 * writes next: where nobody else is about to write to the connection, it does so itself. Both must
 * have had the same streams, and no other transport may be taken to be it.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* Of an object that no stream is known of, and one that the process asks others by. */
#define UNKNOWN UINT32_MAX
#define CLIENT (UINT32_MAX - 1)

/* What is kept of runs until the window closes: 100 MB. */
#define HANDED_RUNS_MAX (4u << 20)

void streams_done(struct streams *s)
{
	free(s->transports);
	free(s->objects);
	free(s->runs);
	map_done(&s->transport_at);
	map_done(&s->object_at);
}

void streams_on_run(struct thread_requests *t, uint64_t span)
{
	t->handed = 0;
	if (t->n_since < THREAD_RUNS_MAX)
		t->since[t->n_since++] = span;
	else
		t->since_overflow = true;
}

/* The transport at that address: a new one, when it has had that stream already. NULL: no room. */
static struct transport *transport_get(struct correlator *c, const struct record_probe2 *r)
{
	struct streams *s = &c->requests->streams;
	uint64_t key = (uint64_t)(r->probe.head.target + 1) << 32 | r->probe.tag,
		 *found = map_get(&s->transport_at, key);
	struct transport *transports;

	if (found && s->transports[*found].last_stream < r->value2)
		return &s->transports[*found];
	transports = correlator_grow(c, s->transports, &s->transports_size, s->n_transports,
				     sizeof(transports[0]));
	if (!transports)
		return NULL;
	s->transports = transports;
	correlator_put(c, &s->transport_at, key, s->n_transports);
	transports[s->n_transports] = (struct transport){ .first_stream = (uint32_t)r->value2 };
	return &transports[s->n_transports++];
}

void streams_open(struct correlator *c, const struct entry *e)
{
	const struct record_probe2 *r = entry_values(e);
	struct streams *s = &c->requests->streams;
	uint64_t key = target_key(r->probe.value, r->probe.head.target);
	struct stream_object *objects;
	struct transport *transport;

	/* What was at that address before is no more. Those of a client have no number yet. */
	correlator_put(c, &s->object_at, key, r->value2 ? UNKNOWN : CLIENT);
	if (!r->value2 || r->value2 > INT32_MAX || s->n_objects >= REQUESTS_MAX)
		return;
	objects =
		correlator_grow(c, s->objects, &s->objects_size, s->n_objects, sizeof(objects[0]));
	if (!objects)
		return;
	s->objects = objects;
	transport = transport_get(c, r);
	if (!transport)
		return;
	transport->last_stream = (uint32_t)r->value2;
	objects[s->n_objects] =
		(struct stream_object){ .time = r->probe.head.time,
					.transport = (uint32_t)(transport - s->transports),
					.stream = transport->last_stream };
	correlator_put(c, &s->object_at, key, s->n_objects++);
}

/* The request that an object is for, if it is of that connection; NO_REQUEST. */
static uint32_t request_on(const struct requests *r, const struct stream_object *o,
			   uint32_t connection)
{
	uint32_t request = requests_find_stream(r, connection, o->stream);

	return request != NO_REQUEST && r->list[request].read_start_ns &&
			       r->list[request].read_start_ns <= o->time
		       ? request
		       : NO_REQUEST;
}

/* The request of an object; NO_REQUEST: not known. */
static uint32_t request_of(const struct requests *r, const struct stream_object *o)
{
	const struct transport *t = &r->streams.transports[o->transport];

	return t->connection && !t->doubtful ? request_on(r, o, t->connection - 1) : NO_REQUEST;
}

/* Whether nobody will answer any more. */
static bool is_over(const struct requests *r, const struct stream_object *o)
{
	uint32_t request = o->ended ? NO_REQUEST : request_of(r, o);

	return o->ended || (request != NO_REQUEST && r->states[request].done);
}

/* The thread wants something of a stream. Whether it had taken it up already; *ret_alone: it has no
 * other one. */
static bool take(struct correlator *c, struct thread_requests *t, uint32_t object, bool *ret_alone)
{
	const struct requests *r = c->requests;
	bool known = false;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_taken; i++)
		if (t->taken[i] == object || !is_over(r, &r->streams.objects[t->taken[i]])) {
			known |= t->taken[i] == object;
			t->taken[n++] = t->taken[i];
		}
	*ret_alone = n <= known;
	t->n_taken = n;
	if (!known && n < STREAMS_TAKEN_MAX)
		t->taken[t->n_taken++] = object;
	return known;
}

/* What the thread has done since it last wanted something of a stream was for this one, if it was
 * for any. */
static void hand_over(struct correlator *c, const struct thread_requests *t, uint32_t object,
		      uint64_t time, bool taken)
{
	struct streams *s = &c->requests->streams;

	for (uint32_t i = 0; i < t->n_since && s->n_runs < HANDED_RUNS_MAX; i++) {
		struct handed_run *runs =
			correlator_grow(c, s->runs, &s->runs_size, s->n_runs, sizeof(runs[0]));

		if (!runs)
			return;
		s->runs = runs;
		runs[s->n_runs++] = (struct handed_run){
			.span = t->since[i], .time = time, .object = object, .taken = taken
		};
	}
}

void streams_point(struct correlator *c, const struct entry *e)
{
	const struct stream_bits *bits = &e->pack->stream_bits;
	const struct record_probe2 *r = entry_values(e);
	struct streams *s = &c->requests->streams;
	uint64_t *found = map_get(&s->object_at, target_key(r->probe.value, r->probe.head.target));
	uint32_t object = found ? (uint32_t)*found : UNKNOWN;
	struct thread_requests *t = claims_thread(c, e->thread);
	bool known, alone;

	/* What the process asks of others is part of its work. */
	if (!t || object == CLIENT)
		return;
	t->handed = 0;
	if (object != UNKNOWN) {
		known = take(c, t, object, &alone);
		if (r->value2 & (bits->begins | bits->ends)) {
			t->handed = object + 1;
			if (alone && !t->since_overflow)
				hand_over(c, t, object, r->probe.head.time,
					  known && t->last_object == object + 1);
		}
		s->objects[object].ended |= (r->value2 & bits->ends) != 0;
	}
	t->last_object = object == UNKNOWN ? 0 : object + 1;
	t->n_since = 0;
	t->since_overflow = false;
}

void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection, uint32_t stream)
{
	struct streams *s = &c->requests->streams;
	struct thread_requests *t = claims_thread(c, thread);
	struct transport *transport;

	/* Along with it, or instead, it may write those of other streams of the connection. */
	if (!t || !t->handed || s->objects[t->handed - 1].stream != stream)
		return;
	transport = &s->transports[s->objects[t->handed - 1].transport];
	transport->doubtful |= transport->connection && transport->connection != connection + 1;
	transport->connection = connection + 1;
	c->requests->connections[connection].has_transport = true;
	t->handed = 0;
}

/* Whether the connection should have had the stream's request by then, and has not: it had later
 * ones. */
static bool is_missing(const struct correlator *c, const struct stream_object *o,
		       uint32_t connection)
{
	const struct connection *conn = &c->requests->connections[connection];

	return request_on(c->requests, o, connection) == NO_REQUEST && conn->n_requests &&
	       o->stream > conn->first_ordinal && o->stream < conn->read_ordinal && !conn->passed &&
	       !losses_within(&c->losses, c->start_ns, o->time);
}

/* Whether the library should have an object for the request, and has not: it has made those of an
 * earlier and of a later one. */
static bool is_strange(const struct requests *r, uint32_t request, const struct transport *t)
{
	const struct request *q = &r->list[request];

	return !r->states[request].has_object && q->stream > t->first_stream &&
	       q->stream < t->last_stream && !(q->flags & REQUEST_NOT_WHOLE);
}

/* Which transport is each connection's: index + 1, in transport_of; those that are not certain
 * become doubtful. */
static void find_connections(struct correlator *c, uint32_t *transport_of)
{
	struct requests *r = c->requests;
	struct streams *s = &r->streams;

	for (uint32_t i = 0; i < s->n_transports; i++) {
		struct transport *t = &s->transports[i];
		uint32_t *other = t->connection ? &transport_of[t->connection - 1] : NULL;

		if (other && *other)
			t->doubtful = s->transports[*other - 1].doubtful = true;
		else if (other)
			*other = i + 1;
	}
	for (uint32_t i = 0; i < s->n_objects; i++) {
		struct transport *t = &s->transports[s->objects[i].transport];
		uint32_t request = t->connection ? request_on(r, &s->objects[i], t->connection - 1)
						 : NO_REQUEST;

		if (request != NO_REQUEST)
			r->states[request].has_object = true;
		t->doubtful |= t->connection && is_missing(c, &s->objects[i], t->connection - 1);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t transport = transport_of[r->states[i].connection];

		if (transport && is_strange(r, i, &s->transports[transport - 1]) &&
		    !losses_within(&c->losses, c->start_ns, r->list[i].end_ns))
			s->transports[transport - 1].doubtful = true;
	}
}

/*
 * The request that a run was for, NO_REQUEST: not known. Where its thread had not taken up the
 * stream, only if it then also wrote the answer. An object of which the end was lost may be another
 * stream's by then.
 */
static uint32_t request_of_run(struct correlator *c, const struct handed_run *run)
{
	const struct requests *r = c->requests;
	const struct span *span = &c->t->spans[run->span];
	uint32_t request = request_of(r, &r->streams.objects[run->object]);
	const struct request *q = request == NO_REQUEST ? NULL : &r->list[request];

	if (!q || !claims_can_be_of(c, run->span, request) || run->time > q->end_ns ||
	    (q->write_start_ns && run->time > q->write_start_ns))
		return NO_REQUEST;
	return run->taken || (span->request == request + 1 && !(span->flags & SPAN_INFERRED))
		       ? request
		       : NO_REQUEST;
}

void streams_close(struct correlator *c)
{
	struct requests *r = c->requests;
	struct streams *s = &r->streams;
	_cleanup_free_ uint32_t *transport_of =
		calloc((size_t)r->n_connections + 1, sizeof(transport_of[0]));
	_cleanup_free_ uint32_t *requests = calloc((size_t)s->n_runs + 1, sizeof(requests[0]));

	if (!transport_of || !requests) {
		c->error = -ENOMEM;
		return;
	}
	find_connections(c, transport_of);
	for (uint32_t i = 0; i < s->n_runs; i++)
		requests[i] = request_of_run(c, &s->runs[i]);
	/* Who reads or writes in its library need not be who works. */
	for (uint64_t i = 0; i < c->t->n_spans && s->n_objects; i++) {
		const struct span *run = &c->t->spans[i];

		if (run->kind == SPAN_RUN && run->request &&
		    r->connections[r->states[run->request - 1].connection].has_transport)
			claims_remove(c, i);
	}
	for (uint32_t i = 0; i < s->n_runs; i++)
		if (requests[i] != NO_REQUEST) {
			claims_add(c, s->runs[i].span, requests[i], false);
			r->states[requests[i]].handed = true;
		}
}
