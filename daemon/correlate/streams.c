/*
 * Streams as gRPC's library has them. Each is an object, made of the stream's number by the thread that has read it, and told of its answer by the
 * thread that has the answer, whichever thread writes the bytes then. So the object says whose the runs before are.
 *
 * Which connection the objects of a transport are of is seen when the thread that had an answer writes next: where nobody else is about to
 * write to the connection, it does so itself. All streams of the transport must be that connection's, and no other transport may be taken
 * to be it.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/correlator.h"

/* What is wanted of a stream: the first bits of grpc_transport_stream_op_batch (gRPC 1.85). */
#define SEND_INITIAL_METADATA (1u << 0)
#define SEND_TRAILING_METADATA (1u << 1)

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
	if (t->n_since < THREAD_RUNS_MAX)
		t->since[t->n_since++] = span;
	else
		t->since_overflow = true;
}

/* The transport at that address: a new one, when it has had that stream already. NULL: no room. */
static struct transport *transport_get(struct correlator *c, const struct record_probe2 *r)
{
	struct streams *s = &c->requests->streams;
	uint64_t key = (uint64_t)(r->probe.head.target + 1) << 32 | r->probe.tag, *found = map_get(&s->transport_at, key);
	struct transport *transports;

	if (found && s->transports[*found].last_stream < r->value2)
		return &s->transports[*found];
	transports = correlator_grow(c, s->transports, &s->transports_size, s->n_transports, sizeof(transports[0]));
	if (!transports)
		return NULL;
	s->transports = transports;
	correlator_put(c, &s->transport_at, key, s->n_transports);
	transports[s->n_transports] = (struct transport){ 0 };
	return &transports[s->n_transports++];
}

void streams_on_begin(struct correlator *c, const struct record_probe2 *r)
{
	struct streams *s = &c->requests->streams;
	struct stream_object *objects;
	struct transport *transport;

	/* Those of a client have no number yet. */
	if (!r->value2 || r->value2 > INT32_MAX || s->n_objects >= REQUESTS_MAX)
		return;
	objects = correlator_grow(c, s->objects, &s->objects_size, s->n_objects, sizeof(objects[0]));
	if (!objects)
		return;
	s->objects = objects;
	transport = transport_get(c, r);
	if (!transport)
		return;
	transport->last_stream = (uint32_t)r->value2;
	objects[s->n_objects] = (struct stream_object){ .time = r->probe.head.time, .transport = (uint32_t)(transport - s->transports),
							.stream = transport->last_stream, .process = r->probe.head.target };
	correlator_put(c, &s->object_at, target_key(r->probe.value, r->probe.head.target), s->n_objects++);
}

void streams_on_operations(struct correlator *c, uint32_t thread, const struct record_probe2 *r)
{
	struct streams *s = &c->requests->streams;
	uint64_t *found = map_get(&s->object_at, target_key(r->probe.value, r->probe.head.target));
	struct thread_requests *t = attribution_thread(c, thread);
	struct handed_run *runs;

	if (!t)
		return;
	t->handed = 0;
	/* Of a stream from before the window it is not known which one that is, only that the runs were for it. */
	if (found && !t->since_overflow && r->value2 & (SEND_INITIAL_METADATA | SEND_TRAILING_METADATA)) {
		t->handed = (uint32_t)*found + 1;
		for (uint32_t i = 0; i < t->n_since; i++) {
			runs = correlator_grow(c, s->runs, &s->runs_size, s->n_runs, sizeof(runs[0]));
			if (!runs)
				return;
			s->runs = runs;
			runs[s->n_runs++] = (struct handed_run){ .span = t->since[i], .time = r->probe.head.time, .object = (uint32_t)*found };
		}
	}
	t->n_since = 0;
	t->since_overflow = false;
}

void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection, uint32_t stream)
{
	struct streams *s = &c->requests->streams;
	struct thread_requests *t = attribution_thread(c, thread);

	/* Along with it, or instead, it may write those of other streams of the connection. */
	if (t && t->handed && s->objects[t->handed - 1].stream == stream)
		s->objects[t->handed - 1].connection = connection + 1;
}

/* The request that an object is for, if it is of that connection; NO_REQUEST. */
static uint32_t request_on(const struct requests *r, const struct stream_object *o, uint32_t connection)
{
	uint32_t request = requests_find_stream(r, connection, o->stream);

	return request != NO_REQUEST && r->list[request].read_start_ns && r->list[request].read_start_ns <= o->time ? request : NO_REQUEST;
}

/* Whether the connection should have had the stream's request by then, and has not: what was read before the window is not seen, nor what is lost. */
static bool is_missing(const struct correlator *c, const struct stream_object *o, uint32_t connection)
{
	const struct connection *conn = &c->requests->connections[connection];

	return request_on(c->requests, o, connection) == NO_REQUEST && conn->n_requests && o->stream > conn->first_ordinal && !conn->passed &&
	       !requests_lost_within(c->requests, c->start_ns, o->time);
}

/* Finds the connection of each transport. */
static void find_connections(struct correlator *c, uint32_t *transport_of)
{
	struct requests *r = c->requests;
	struct streams *s = &r->streams;

	for (uint32_t i = 0; i < s->n_objects; i++) {
		struct transport *t = &s->transports[s->objects[i].transport];

		t->doubtful |= t->connection && s->objects[i].connection && s->objects[i].connection != t->connection;
		t->connection = s->objects[i].connection ?: t->connection;
	}
	for (uint32_t i = 0; i < s->n_objects; i++) {
		struct transport *t = &s->transports[s->objects[i].transport];

		t->doubtful |= t->connection && is_missing(c, &s->objects[i], t->connection - 1);
	}
	for (uint32_t i = 0; i < s->n_transports; i++) {
		struct transport *t = &s->transports[i];
		uint32_t *other = t->connection ? &transport_of[t->connection - 1] : NULL;

		if (other && *other)
			t->doubtful = s->transports[*other - 1].doubtful = true;
		else if (other)
			*other = i + 1;
	}
}

/* Whether what was had then, after the run, can have been that request's answer: an object of which the end was lost may be another stream's by then. */
static bool is_its_answer(struct correlator *c, const struct handed_run *run, uint32_t request)
{
	const struct request *q = &c->requests->list[request];

	return attribution_can_be_of(c, run->span, request) && (!q->write_start_ns || run->time <= q->write_start_ns);
}

/* The request of an object; NO_REQUEST: not known. */
static uint32_t request_of(const struct requests *r, const struct stream_object *o)
{
	const struct transport *t = &r->streams.transports[o->transport];

	return t->connection && !t->doubtful ? request_on(r, o, t->connection - 1) : NO_REQUEST;
}

void streams_close(struct correlator *c)
{
	struct requests *r = c->requests;
	struct streams *s = &r->streams;
	bool has_objects[RECORD_MAX_TARGETS] = { 0 };
	uint32_t *transport_of = calloc((size_t)r->n_connections + 1, sizeof(transport_of[0])), request;

	if (!transport_of) {
		c->error = -ENOMEM;
		return;
	}
	find_connections(c, transport_of);
	free(transport_of);
	for (uint32_t i = 0; i < s->n_objects; i++)
		has_objects[s->objects[i].process] = true;
	/* Who reads or writes in its library need not be who works. */
	for (uint64_t i = 0; i < c->t->n_spans && s->n_objects; i++) {
		const struct span *run = &c->t->spans[i];
		const struct request *q = run->kind == SPAN_RUN && run->request ? &r->list[run->request - 1] : NULL;

		if (q && q->protocol == PROTOCOL_HTTP2 && has_objects[q->process])
			attribution_unclaim(c, i);
	}
	for (uint32_t i = 0; i < s->n_runs; i++) {
		request = request_of(r, &s->objects[s->runs[i].object]);
		if (request == NO_REQUEST || !is_its_answer(c, &s->runs[i], request))
			continue;
		attribution_claim(c, s->runs[i].span, request, false);
		r->states[request].handed = true;
	}
}
