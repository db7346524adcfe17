/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as gRPC's library has them. Each is an object that is created with the stream's number.
 * The thread that works for the stream takes it up with an operation on the object, and passes the
 * answer to the object, whichever thread writes the bytes later. So the object identifies the
 * request of the runs in between.
 *
 * The connection of a transport is known when the thread that passed an answer writes next: unless
 * another thread is about to write to the connection, it does so itself. Transport and connection
 * must have had the same streams, and no other transport may match the connection.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/attribute/answers.h"
#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/contexts.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

/* In place of an object's index: its stream is unknown; it is of a request that the process itself
 * sends. */
#define UNKNOWN UINT32_MAX
#define CLIENT (UINT32_MAX - 1)

/* Kept until the window closes: 100 MB. */
#define HANDED_RUNS_MAX (4u << 20)

#define RUNS_MAX 32
#define TAKEN_MAX 8
#define READ_MAX 128

/* An object of the library for a connection. */
struct transport {
	uint32_t last_stream;
	uint32_t connection;   /* index + 1; 0: unknown */
	uint32_t first_stream; /* of those that were seen */
	uint32_t n_objects, n_read;
	bool ambiguous; /* it matches more than one connection */
};

/* Its object for a stream. */
struct stream_object {
	uint64_t time; /* it was made */
	uint64_t end_ns, aborted_ns, gone_ns;
	uint32_t transport, stream, process;
	bool open;      /* of an encrypted connection, as far as known, and in progress */
	bool streaming; /* its answer has messages, each of an own run */
	uint32_t end_thread;
	uint32_t read;    /* request at a socket that its thread had read before: index + 1 */
	uint32_t request; /* that was not read at a socket: index + 1 */
};

/* A run whose thread then passed the answer of a stream. */
struct handed_run {
	uint64_t span, time; /* the answer was passed then */
	uint32_t object;
	bool is_message;   /* it made one message of the answer, not all of it */
	uint64_t taken_ns; /* the thread had taken the stream up then, before the run, and no other
			      one since; 0: it had not */
};

struct taken {
	uint64_t since_ns;
	uint32_t object; /* index */
};

/* What is known of a thread's streams. */
struct thread_streams {
	uint32_t last_object; /* index + 1 of the object that it last used; 0: none */
	uint32_t handed;      /* the same, if that was to pass its answer and the thread did nothing
				 since */
	struct taken taken[TAKEN_MAX]; /* objects that it used and that are not answered */
	uint32_t n_taken;
	uint64_t since[RUNS_MAX]; /* outermost runs since it took up a stream or passed an answer */
	uint32_t n_since;
	bool overflow;           /* there were more of those */
	uint32_t read[READ_MAX]; /* the last requests that it read at sockets: index + 1 */
	uint32_t n_read;
};

/* NULL: no memory. */
static struct thread_streams *thread_get(struct correlator *c, uint32_t thread)
{
	struct streams *s = &c->streams;

	return correlator_element(c, &s->threads, &s->threads_size, thread, sizeof(*s->threads));
}

void streams_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_streams *t = thread_get(c, thread);

	if (!t)
		return;
	t->handed = 0;
	if (t->n_since < RUNS_MAX)
		t->since[t->n_since++] = span;
	else
		t->overflow = true;
}

/* The transport at that address: a new one if that one has had the stream already. NULL: no room.
 */
static struct transport *transport_get(struct correlator *c, const struct record_probe2 *r)
{
	struct streams *s = &c->streams;
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

void streams_on_read(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_streams *t = thread_get(c, thread);

	if (t)
		t->read[t->n_read++ % READ_MAX] = request + 1;
}

/* The request of that stream which the thread has read, and has not made an object for: index + 1;
 * 0: none. */
static uint32_t take_read(struct correlator *c, uint32_t thread, const struct record_probe2 *r)
{
	struct thread_streams *t = thread_get(c, thread);

	for (uint32_t i = 0; t && i < MIN(t->n_read, (uint32_t)READ_MAX); i++) {
		uint32_t *read = &t->read[(t->n_read - 1 - i) % READ_MAX], found = *read;

		if (found && requests_get(&c->requests, found - 1)->stream == r->value2 &&
		    requests_get(&c->requests, found - 1)->process == r->probe.head.target) {
			*read = 0;
			return found;
		}
	}
	return 0;
}

/* It is not in progress any more. */
static void note_end(struct correlator *c, struct stream_object *o)
{
	if (o->open)
		requests_note_unread_end(&c->requests, o->process);
	o->open = false;
}

/* The object at that address, if it is of a server's stream, is gone. */
static void end_object(struct correlator *c, uint64_t key, uint64_t time)
{
	uint64_t *found = map_get(&c->streams.object_at, key);

	if (!found || *found >= CLIENT || c->streams.objects[*found].gone_ns)
		return;
	c->streams.objects[*found].gone_ns = time;
	note_end(c, &c->streams.objects[*found]);
}

void streams_end_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint32_t i = 0; i < c->streams.n_objects; i++) {
		struct stream_object *o = &c->streams.objects[i];

		if (o->process != process || o->gone_ns)
			continue;
		o->gone_ns = time;
		note_end(c, o);
	}
}

void streams_end(struct correlator *c, uint64_t time)
{
	struct streams *s = &c->streams;

	s->until_ns = time;
	for (; s->first_open < s->n_objects; s->first_open++)
		note_end(c, &s->objects[s->first_open]);
}

uint64_t streams_until(const struct correlator *c)
{
	return c->streams.until_ns ?: UINT64_MAX;
}

static void note_begin(struct correlator *c, struct stream_object *o)
{
	o->open = !o->read && connections_have_encrypted(&c->connections, o->process);
	if (o->open)
		requests_note_unread(&c->requests, o->process);
}

void streams_open(struct correlator *c, const struct entry *e)
{
	const struct record_probe2 *r = entry_values(e);
	struct streams *s = &c->streams;
	uint64_t key = target_key(r->probe.value, r->probe.head.target);
	struct stream_object *objects;
	struct transport *transport;

	end_object(c, key, r->probe.head.time);
	/* Streams of a client have no number yet. */
	correlator_put(c, &s->object_at, key, r->value2 ? UNKNOWN : CLIENT);
	if (!r->value2 || r->value2 > INT32_MAX)
		return;
	if (!shares_take(&s->shares, c, e->thread, REQUESTS_MAX)) {
		s->n_left_out++;
		return;
	}
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
					.stream = transport->last_stream,
					.process = r->probe.head.target,
					.end_thread = THREAD_NONE,
					.read = take_read(c, e->thread, r) };
	transport->n_objects++;
	transport->n_read += objects[s->n_objects].read != 0;
	note_begin(c, &objects[s->n_objects]);
	correlator_put(c, &s->object_at, key, s->n_objects++);
}

/* The request of an object, if the object is of that connection; NO_REQUEST. */
static uint32_t request_on(const struct requests *r, const struct stream_object *o,
			   uint32_t connection)
{
	uint32_t request = requests_find_stream(r, connection, o->stream);

	return request != NO_REQUEST && requests_get(r, request)->read_start_ns &&
			       requests_get(r, request)->read_start_ns <= o->time
		       ? request
		       : NO_REQUEST;
}

/* The request of an object; NO_REQUEST: unknown. */
static uint32_t request_of(const struct correlator *c, const struct stream_object *o)
{
	const struct transport *t = &c->streams.transports[o->transport];

	if (o->request)
		return o->request - 1;
	return t->connection && !t->ambiguous ? request_on(&c->requests, o, t->connection - 1)
					      : NO_REQUEST;
}

uint32_t streams_request(const struct correlator *c, uint32_t object)
{
	return request_of(c, &c->streams.objects[object]);
}

/* Whether no thread will answer any more. */
static bool is_over(const struct correlator *c, const struct stream_object *o)
{
	uint32_t request = o->end_ns ? NO_REQUEST : request_of(c, o);

	return o->end_ns || (request != NO_REQUEST && requests_state(&c->requests, request)->done);
}

/* The thread uses a stream. Returns since when it has had it, 0: it had not; *ret_alone: it has no
 * other one. */
static uint64_t take(struct correlator *c, struct thread_streams *t, uint32_t object,
		     bool *ret_alone)
{
	uint64_t since = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_taken; i++) {
		struct taken taken = t->taken[i];

		if (taken.object == object)
			since = taken.since_ns;
		if (taken.object == object || !is_over(c, &c->streams.objects[taken.object]))
			t->taken[n++] = taken;
	}
	*ret_alone = n <= (since != 0);
	t->n_taken = n;
	if (!since && n < TAKEN_MAX)
		t->taken[t->n_taken++] = (struct taken){ c->now, object };
	return since;
}

static void add_handed(struct correlator *c, struct handed_run run)
{
	struct streams *s = &c->streams;
	struct handed_run *runs;

	if (s->n_runs >= HANDED_RUNS_MAX)
		return;
	runs = correlator_grow(c, s->runs, &s->runs_size, s->n_runs, sizeof(runs[0]));
	if (!runs)
		return;
	s->runs = runs;
	runs[s->n_runs++] = run;
}

/* The runs of the thread since it last used a stream were for this one, if for any. */
static void hand_over(struct correlator *c, const struct thread_streams *t, uint32_t object,
		      uint64_t time, uint64_t taken_ns)
{
	for (uint32_t i = 0; i < t->n_since; i++)
		add_handed(c, (struct handed_run){ t->since[i], time, object, false, taken_ns });
}

/* The object is passed the answer, or a message of it, that a run made, whichever thread that was
 * on. */
static void hand_over_answer(struct correlator *c, const struct entry *e, uint32_t object,
			     uint64_t answer, bool is_message)
{
	uint64_t run = answers_take_run(c, answer);

	c->streams.objects[object].streaming |= is_message;
	if (run != NO_SPAN)
		add_handed(c, (struct handed_run){ run, e->record->head.time, object, is_message,
						   c->t->spans[run].start_ns });
}

uint32_t streams_point(struct correlator *c, const struct entry *e)
{
	const struct stream_bits *bits = &e->pack->stream_bits;
	const struct record_probe2 *r = entry_values(e);
	struct streams *s = &c->streams;
	uint64_t *found = map_get(&s->object_at, target_key(r->probe.value, r->probe.head.target));
	uint32_t object = found ? (uint32_t)*found : UNKNOWN;
	struct thread_streams *t = thread_get(c, e->thread);
	uint64_t answer = answers_passed(c, e->thread), taken;
	uint32_t answered = NO_STREAM;
	bool alone;

	/* Requests that the process itself sends are part of its work. */
	if (!t || object == CLIENT)
		return NO_STREAM;
	t->handed = 0;
	if (object != UNKNOWN) {
		taken = take(c, t, object, &alone);
		if (answer && r->value2 & (bits->begins | bits->message | bits->ends))
			hand_over_answer(c, e, object, answer, !(r->value2 & bits->ends));
		if (r->value2 & (bits->begins | bits->ends)) {
			t->handed = object + 1;
			if (alone && !t->overflow)
				hand_over(c, t, object, r->probe.head.time,
					  t->last_object == object + 1 ? taken : 0);
		}
		contexts_on_stream(c, e->thread, object);
		if (r->value2 & bits->ends && !s->objects[object].end_ns) {
			s->objects[object].end_ns = r->probe.head.time;
			s->objects[object].end_thread = e->thread;
			note_end(c, &s->objects[object]);
			answered = object;
		}
		/* Its thread may go on with its work. */
		if (r->value2 & bits->aborts && !s->objects[object].aborted_ns) {
			s->objects[object].aborted_ns = r->probe.head.time;
			note_end(c, &s->objects[object]);
		}
	}
	t->last_object = object == UNKNOWN ? 0 : object + 1;
	t->n_since = 0;
	t->overflow = false;
	return answered;
}

void streams_on_written(struct correlator *c, uint32_t thread, uint32_t connection, uint32_t stream)
{
	struct streams *s = &c->streams;
	struct thread_streams *t = thread_get(c, thread);
	struct transport *transport;

	/* The thread may also write, or write only, answers of other streams of the connection. */
	if (!t || !t->handed || s->objects[t->handed - 1].stream != stream)
		return;
	transport = &s->transports[s->objects[t->handed - 1].transport];
	transport->ambiguous |= transport->connection && transport->connection != connection + 1;
	transport->connection = connection + 1;
	correlator_put(c, &s->connections, connection, 1);
	t->handed = 0;
}

/* Whether the connection should have had the stream's request by then, since it had later ones, but
 * did not. */
static bool is_missing(const struct correlator *c, const struct stream_object *o,
		       uint32_t connection)
{
	return request_on(&c->requests, o, connection) == NO_REQUEST &&
	       connection_skipped(connections_get(&c->connections, connection), o->stream) &&
	       !losses_within(&c->losses, c->start_ns, o->time);
}

/* Whether the library should have an object for a request without one: it has made those of an
 * earlier and of a later request. */
static bool has_no_object(const struct request *q, const struct transport *t)
{
	return q->stream > t->first_stream && q->stream < t->last_stream &&
	       !(q->flags & REQUEST_NOT_WHOLE);
}

/* Finds the transport of each connection: index + 1, in transport_of. Transports that may be wrong
 * become ambiguous. */
static void find_connections(struct correlator *c, uint32_t *transport_of, bool *has_object)
{
	struct requests *r = &c->requests;
	struct streams *s = &c->streams;

	for (uint32_t i = 0; i < s->n_transports; i++) {
		struct transport *t = &s->transports[i];
		uint32_t *other = t->connection ? &transport_of[t->connection - 1] : NULL;

		if (other && *other)
			t->ambiguous = s->transports[*other - 1].ambiguous = true;
		else if (other)
			*other = i + 1;
	}
	for (uint32_t i = 0; i < s->n_objects; i++) {
		struct transport *t = &s->transports[s->objects[i].transport];
		uint32_t request = t->connection ? request_on(r, &s->objects[i], t->connection - 1)
						 : NO_REQUEST;

		if (request != NO_REQUEST)
			has_object[request] = true;
		t->ambiguous |= t->connection && is_missing(c, &s->objects[i], t->connection - 1);
	}
	for (uint32_t i = 0; i < requests_count(r); i++) {
		uint32_t transport = transport_of[requests_state(r, i)->connection];

		if (transport && !has_object[i] &&
		    has_no_object(requests_get(r, i), &s->transports[transport - 1]) &&
		    !losses_within(&c->losses, c->start_ns, requests_get(r, i)->end_ns))
			s->transports[transport - 1].ambiguous = true;
	}
}

/*
 * The request that a run worked for, NO_REQUEST: unknown. If its thread had not taken up the
 * stream, and it made no message of an answer, the thread must also have written the answer. An
 * object whose end was lost may be of another stream by then.
 */
static uint32_t request_of_run(struct correlator *c, const struct handed_run *run)
{
	const struct requests *r = &c->requests;
	const struct span *span = &c->t->spans[run->span];
	uint32_t request = request_of(c, &c->streams.objects[run->object]);
	const struct request *q = request == NO_REQUEST ? NULL : requests_get(r, request);

	if (!q || run->time > q->end_ns)
		return NO_REQUEST;
	/* The stream goes on to be read when its answer has begun. */
	if (run->is_message)
		return span->start_ns >= c->streams.objects[run->object].time ? request
									      : NO_REQUEST;
	if (!claims_can_be_of(c, run->span, request) ||
	    (q->write_start_ns && run->time > q->write_start_ns))
		return NO_REQUEST;
	return run->taken_ns || (span->request == request + 1 && !(span->flags & SPAN_INFERRED))
		       ? request
		       : NO_REQUEST;
}

void streams_match(struct correlator *c)
{
	struct streams *s = &c->streams;
	_cleanup_free_ bool *has_object =
		calloc((size_t)requests_count(&c->requests) + 1, sizeof(has_object[0]));

	s->n_matched = connections_count(&c->connections);
	s->transport_of = calloc((size_t)s->n_matched + 1, sizeof(s->transport_of[0]));
	if (s->transport_of && has_object)
		find_connections(c, s->transport_of, has_object);
	else
		c->error = -ENOMEM;
}

uint64_t streams_oldest_open(struct correlator *c)
{
	struct streams *s = &c->streams;

	while (s->first_open < s->n_objects && !s->objects[s->first_open].open)
		s->first_open++;
	return s->first_open < s->n_objects ? s->objects[s->first_open].time : UINT64_MAX;
}

uint64_t streams_left_out(const struct correlator *c)
{
	return c->streams.n_left_out;
}

uint32_t streams_count(const struct correlator *c)
{
	return c->streams.n_objects;
}

struct library_stream streams_get(const struct correlator *c, uint32_t object)
{
	const struct stream_object *o = &c->streams.objects[object];
	const struct transport *t = &c->streams.transports[o->transport];

	return (struct library_stream){ .begin_ns = o->time,
					.end_ns = o->end_ns,
					.aborted_ns = o->aborted_ns ?: o->gone_ns,
					.process = o->process,
					.transport = o->transport,
					.stream = o->stream,
					.end_thread = o->end_thread,
					.request = o->read,
					.at_socket = (t->connection && !t->ambiguous) ||
						     t->n_read > t->n_objects / 2 };
}

bool streams_has_connection(const struct correlator *c, uint32_t connection)
{
	const struct streams *s = &c->streams;

	return connection < s->n_matched && s->transport_of[connection] &&
	       !s->transports[s->transport_of[connection] - 1].ambiguous;
}

void streams_set_request(struct correlator *c, uint32_t object, uint32_t request)
{
	c->streams.objects[object].request = request + 1;
}

/* At a socket it is known from when on a thread can have worked for it; here, when it did. */
static void note_taken(const struct requests *r, const struct handed_run *run, uint32_t request)
{
	struct request *q = requests_get(r, request);

	if (q->flags & REQUEST_AT_LIBRARY && !q->taken_ns)
		q->taken_ns = run->taken_ns;
}

void streams_close(struct correlator *c)
{
	struct requests *r = &c->requests;
	struct streams *s = &c->streams;
	_cleanup_free_ uint32_t *requests = calloc((size_t)s->n_runs + 1, sizeof(requests[0]));

	if (!requests) {
		c->error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->n_runs; i++)
		requests[i] = request_of_run(c, &s->runs[i]);
	/* The threads that read and write in the library need not be those that work. */
	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN) {
		const struct span *run = &c->t->spans[i];

		if (s->n_objects && run->request &&
		    map_get(&s->connections, requests_state(r, run->request - 1)->connection))
			claims_remove(c, i);
	}
	for (uint32_t i = 0; i < s->n_runs; i++)
		if (requests[i] != NO_REQUEST) {
			claims_add(c, s->runs[i].span, requests[i], false);
			claims_note_stream(c, requests[i]);
			note_taken(r, &s->runs[i], requests[i]);
		}
	for (uint32_t i = 0; i < s->n_objects; i++) {
		uint32_t request =
			s->objects[i].streaming ? request_of(c, &s->objects[i]) : NO_REQUEST;

		if (request != NO_REQUEST)
			requests_get(r, request)->flags |= REQUEST_STREAMING;
	}
}

void streams_done(struct streams *s)
{
	free(s->transports);
	free(s->objects);
	free(s->runs);
	free(s->threads);
	free(s->transport_of);
	map_done(&s->transport_at);
	map_done(&s->object_at);
	map_done(&s->connections);
}
