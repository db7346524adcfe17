/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of a connection are found by what both see of it: their ports, and the TCP sequence
 * numbers of the request's first byte and of the answer's. Addresses are not needed, and those of
 * containers differ.
 *
 * The request that makes a call is that of its context, unless a context of that request outlives
 * it. In a process without contexts, and with a thread for each request, it is the request that the
 * thread has read and then answers. On HTTP/2 one thread may send what others have to send.
 */
#include "daemon/correlate/http/hops.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* 80 bytes each. */
#define CALLS_MAX (1u << 20)

struct call {
	uint64_t start_ns, end_ns; /* .end_ns 0: the end of its answer was not seen */
	struct context_work context;
	uint32_t process, thread;
	uint32_t request;                 /* of its thread; NO_REQUEST */
	uint32_t request_at, answer_at;   /* sequence numbers of the first bytes */
	uint32_t next;                    /* that is answered after it; NO_REQUEST */
	uint32_t last;                    /* of the oldest one: the latest */
	uint16_t local_port, server_port; /* the client's, and the server's */
	bool http2, answered;
	bool moved; /* another thread read of its answer */
};

static uint64_t open_key(uint32_t connection, uint32_t stream)
{
	return ((uint64_t)connection + 1) << 32 | stream;
}

static struct call *find_open(const struct hops *h, uint64_t key)
{
	uint64_t *found = map_get(&h->open, key);

	return found && *found != NO_REQUEST ? &h->list[*found] : NULL;
}

static void add_call(struct correlator *c, uint64_t key, uint32_t process,
		     const struct record_message *m)
{
	struct hops *h = &c->hops;
	uint32_t thread = message_thread(c, m), added = h->n;
	struct call *list, *oldest;

	if (h->n == CALLS_MAX) {
		h->n_left_out++;
		return;
	}
	list = correlator_grow(c, h->list, &h->size, h->n, sizeof(*list));
	if (!list || c->error)
		return;
	h->list = list;
	list[h->n++] = (struct call){ .start_ns = m->began,
				      .context = contexts_find(c, thread),
				      .process = process,
				      .thread = thread,
				      .request = attribution_of_thread(c, thread),
				      .request_at = message_first_position(m),
				      .next = NO_REQUEST,
				      .last = added,
				      .local_port = m->local_port,
				      .server_port = m->peer_port,
				      .http2 = m->protocol == MESSAGE_HTTP2 };
	/* HTTP/1: answers come in the order of the requests. */
	oldest = find_open(h, key);
	if (oldest) {
		list[oldest->last].next = added;
		oldest->last = added;
	} else {
		correlator_put(c, &h->open, key, added);
	}
}

static void on_answer(struct correlator *c, uint64_t key, struct call *call, bool begins,
		      const struct record_message *m)
{
	call->moved |= message_thread(c, m) != call->thread;
	if (begins && !call->answered) {
		call->answered = true;
		call->answer_at = message_first_position(m);
	}
	if (!(m->part & MESSAGE_LAST))
		return;
	call->end_ns = m->head.time;
	if (call->next != NO_REQUEST)
		c->hops.list[call->next].last = call->last;
	correlator_put(c, &c->hops.open, key, call->next);
}

/* Of HTTP/2 connections from before the window it can be unknown; then they may be such. */
static bool is_of_client(const struct correlator *c, uint32_t connection,
			 const struct record_message *m)
{
	if (m->protocol == MESSAGE_HTTP2)
		return !connections_get(&c->connections, connection)->server &&
		       !(m->part & MESSAGE_PREFACE);
	return !(m->part & MESSAGE_IS_REQUEST) == (m->direction == MESSAGE_READ);
}

void hops_on_message(struct correlator *c, uint32_t connection, const struct record_message *m)
{
	bool http2 = m->protocol == MESSAGE_HTTP2;
	bool begins = m->part & MESSAGE_FIRST && (!http2 || m->type == FRAME_HEADERS);
	uint64_t key = open_key(connection, http2 ? m->stream : 0);
	struct call *call;

	/* One process alone has no other end. What a library decrypts has no sequence number. */
	if (!targets_get(&c->targets, 1) || !is_of_client(c, connection, m) || !m->local_port ||
	    m->part & MESSAGE_DECRYPTED)
		return;
	call = find_open(&c->hops, key);
	if (m->direction == MESSAGE_WRITTEN) {
		if (begins && !(http2 && call))
			add_call(c, key, connections_get(&c->connections, connection)->process, m);
		return;
	}
	/* The end of the answer before was lost. */
	if (call && begins && call->answered && !http2)
		hops_lose(c, connection);
	else if (call)
		on_answer(c, key, call, begins, m);
}

void hops_lose(struct correlator *c, uint32_t connection)
{
	uint64_t key = open_key(connection, 0);

	if (find_open(&c->hops, key))
		correlator_put(c, &c->hops.open, key, NO_REQUEST);
}

/* Of a request, or a call: what both ends see of it. */
static uint64_t join_key(uint16_t client_port, uint16_t server_port, uint32_t request_at)
{
	return (uint64_t)client_port << 48 | (uint64_t)server_port << 32 | request_at;
}

static uint64_t key_of(const struct call *call)
{
	return join_key(call->local_port, call->server_port, call->request_at);
}

/* Of two with the same key none is found. */
static void put_once(struct correlator *c, struct map *map, uint64_t key, uint32_t value)
{
	correlator_put(c, map, key, map_get(map, key) ? NO_REQUEST : value);
}

static void index_requests(struct correlator *c, struct map *ret)
{
	const struct requests *r = &c->requests;

	for (uint32_t i = 0; i < requests_count(r); i++) {
		const struct request *q = requests_get(r, i);

		if (q->local_port && requests_state(r, i)->has_first)
			put_once(c, ret,
				 join_key(q->peer_port, q->local_port,
					  requests_state(r, i)->first_at),
				 i);
	}
}

static uint32_t find_callee(const struct correlator *c, const struct map *requests,
			    const struct call *call)
{
	uint64_t *found = map_get(requests, key_of(call));
	const struct request_state *s;

	if (!found || *found == NO_REQUEST)
		return NO_REQUEST;
	s = requests_state(&c->requests, (uint32_t)*found);
	if (call->start_ns > requests_get(&c->requests, (uint32_t)*found)->end_ns ||
	    (call->answered && (!s->answering || s->answer_at != call->answer_at)))
		return NO_REQUEST;
	return (uint32_t)*found;
}

/* The request of the context in which the call is sent. */
static uint32_t context_request(const struct correlator *c, const struct call *call)
{
	return call->http2 ? NO_REQUEST : contexts_request(c, &call->context, call->process);
}

/* Whether the call began while the request was worked for, and nothing was lost until then. */
static bool is_within(const struct correlator *c, const struct call *call, uint32_t request)
{
	const struct request *q = requests_get(&c->requests, request);
	uint64_t since = MIN(q->start_ns, call->context.since_ns ?: q->start_ns);

	return q->process == call->process && !requests_state(&c->requests, request)->ambiguous &&
	       q->start_ns <= call->start_ns && call->start_ns <= requests_answered_ns(q) &&
	       !losses_within(&c->losses, since, call->start_ns);
}

static uint32_t find_caller(const struct correlator *c, const struct call *call)
{
	uint32_t request = context_request(c, call);

	if (request != NO_REQUEST)
		return !requests_state(&c->requests, request)->outlived &&
				       is_within(c, call, request)
			       ? request
			       : NO_REQUEST;
	if (call->request == NO_REQUEST || call->http2 || call->moved ||
	    contexts_seen(c, call->process))
		return NO_REQUEST;
	return attribution_is_of(c, call->request, call->process, call->thread, call->start_ns) &&
			       is_within(c, call, call->request)
		       ? call->request
		       : NO_REQUEST;
}

static void add_hops(struct correlator *c, const struct map *requests, const struct map *calls)
{
	const struct hops *h = &c->hops;

	for (uint32_t i = 0; i < h->n && !c->error; i++) {
		const struct call *call = &h->list[i];
		uint64_t *found = map_get(calls, key_of(call));
		uint32_t callee =
			found && *found == i ? find_callee(c, requests, call) : NO_REQUEST;
		uint32_t caller = callee == NO_REQUEST ? NO_REQUEST : find_caller(c, call);

		if (callee == NO_REQUEST)
			continue;
		c->t->hops[c->t->n_hops++] = (struct hop){
			.start_ns = call->start_ns,
			.end_ns = losses_within(&c->losses, call->start_ns, call->end_ns)
					  ? 0
					  : call->end_ns,
			.process = call->process,
			.caller = caller == NO_REQUEST ? 0 : caller + 1,
			.callee = callee + 1,
		};
	}
}

void hops_close(struct correlator *c)
{
	struct hops *h = &c->hops;
	struct map requests = {}, calls = {};

	if (!h->n || c->error)
		return;
	c->t->hops = calloc(h->n, sizeof(c->t->hops[0]));
	if (!c->t->hops) {
		c->error = -ENOMEM;
		return;
	}
	index_requests(c, &requests);
	for (uint32_t i = 0; i < h->n; i++) {
		uint32_t request = context_request(c, &h->list[i]);

		put_once(c, &calls, key_of(&h->list[i]), i);
		if (request != NO_REQUEST)
			contexts_note_work(c, request, h->list[i].start_ns);
	}
	add_hops(c, &requests, &calls);
	map_done(&requests);
	map_done(&calls);
	if (h->n_left_out &&
	    timeline_warn(c->t, "%llu calls to other servers were left out: a capture holds %u.",
			  (unsigned long long)h->n_left_out, CALLS_MAX) < 0)
		c->error = -ENOMEM;
}

void hops_done(struct hops *h)
{
	free(h->list);
	map_done(&h->open);
}
