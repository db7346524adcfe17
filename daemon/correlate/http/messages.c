/* SPDX-License-Identifier: Apache-2.0 */
/* Records of socket traffic, and what is done with all requests when the window closes. */
#include "daemon/correlate/http/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/hand_overs.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/http/hops.h"
#include "daemon/correlate/http/library_requests.h"
#include "lib/base/macro.h"

static void on_unseen(struct correlator *c, const struct record_unseen *record)
{
	uint32_t at;

	if (record->head.site > UNSEEN_OTHER)
		return;
	c->messages.n_unseen[record->head.site]++;
	if (record->head.site != UNSEEN_TLS)
		return;
	at = connection_get(c, record->socket, record->inode, record->head.target,
			    record->head.time);
	if (at != NO_REQUEST)
		connection_note_encrypted(c, at);
}

static void on_message(struct correlator *c, const struct record_message *m)
{
	uint32_t at = connection_get(c, m->socket, m->inode, m->head.target, m->head.time);

	if (at == NO_REQUEST)
		return;
	connections_get(&c->connections, at)->last_ns = m->head.time;
	if (m->part & MESSAGE_DECRYPTED)
		connection_note_decrypted(c, at);
	if (m->part & MESSAGE_LOST) {
		fields_forget(connections_get(&c->connections, at), m->direction);
		connection_end_requests(c, at, m->head.time, REQUEST_LOST);
		http1_lose_count(connections_get(&c->connections, at));
		hops_lose(c, at);
		if (m->direction == MESSAGE_READ)
			connections_get(&c->connections, at)->passed = PASSED_ANY;
		return;
	}
	if (m->part & MESSAGE_PASSED) {
		connections_get(&c->connections, at)->passed =
			MAX(connections_get(&c->connections, at)->passed, PASSED_FIRST);
	} else if (m->protocol == MESSAGE_HTTP1) {
		http1_on_message(c, at, m);
		hops_on_message(c, at, m);
	} else if (m->protocol == MESSAGE_HTTP2 && !(m->part & MESSAGE_CLOSED)) {
		http2_on_message(c, at, m);
		hops_on_message(c, at, m);
	}
	/* Closing in the middle of a request resets it. */
	if (m->part & MESSAGE_CLOSED)
		connection_close(c, at, m->head.time, REQUEST_RESET);
}

static void on_field(struct correlator *c, const struct record_field *r)
{
	uint32_t at = connection_get(c, r->socket, r->inode, r->head.target, r->head.time);

	if (at != NO_REQUEST)
		fields_on_field(c, at, r);
}

void messages_on_record(struct correlator *c, const struct record *r)
{
	if (r->kind == RECORD_MESSAGE) {
		on_message(c, (const void *)r);
		connection_note_call(c, (const void *)r);
	} else if (r->kind == RECORD_FIELD)
		on_field(c, (const void *)r);
	else if (r->kind == RECORD_READY)
		arrivals_on_ready(c, (const void *)r);
	else if (r->kind == RECORD_ACCEPTED)
		arrivals_on_accepted(c, (const void *)r);
	else if (r->kind == RECORD_DEPARTURE)
		connection_on_departure(c, (const void *)r);
	else if (r->kind == RECORD_UNSEEN)
		on_unseen(c, (const void *)r);
}

/* A request that was open while records were lost may lack times, its end, or its runs. */
static void mark_lost(struct requests *r, const struct losses *losses)
{
	for (uint32_t i = 0; i < requests_count(r); i++)
		if (losses_within(losses,
				  MIN(requests_get(r, i)->start_ns, requests_state(r, i)->since_ns),
				  requests_get(r, i)->end_ns)) {
			requests_get(r, i)->flags |= REQUEST_LOST;
			requests_state(r, i)->ambiguous = true;
		}
}

/* Bytes that were read but not seen to arrive came before the window. */
static void mark_truncated(struct requests *r)
{
	for (uint32_t i = 0; i < requests_count(r); i++)
		if (requests_state(r, i)->came_before &&
		    !(requests_get(r, i)->flags & REQUEST_LOST))
			requests_get(r, i)->flags |= REQUEST_TRUNCATED_START;
}

void messages_note_unknown_role(struct correlator *c)
{
	c->messages.n_unknown_role++;
}

void messages_end(struct correlator *c, uint64_t time, bool decrypted)
{
	struct requests *r = &c->requests;

	if (!decrypted)
		connections_end(&c->connections, time);
	for (uint32_t i = 0; i < requests_count(r); i++)
		if (!requests_state(r, i)->done &&
		    (!decrypted ||
		     connections_get(&c->connections, requests_state(r, i)->connection)->decrypted))
			request_end(c, i, time, REQUEST_TRUNCATED_END);
}

/* Encrypted connections, and how many of them no request is known of. */
static uint64_t count_encrypted(const struct correlator *c, uint64_t *ret_unseen)
{
	struct encrypted_connections all[RECORD_MAX_TARGETS];
	uint64_t n = 0;

	*ret_unseen = 0;
	connections_count_encrypted(&c->connections, all);
	for (unsigned i = 0; i < RECORD_MAX_TARGETS; i++) {
		uint64_t objects = all[i].objects + all[i].at_library;
		uint64_t unseen = all[i].sockets - MIN(all[i].sockets, objects);

		*ret_unseen += unseen;
		n += unseen + all[i].decrypted + all[i].at_library;
	}
	return n;
}

static void warn_of_encrypted(struct correlator *c)
{
	uint64_t unseen, n = count_encrypted(c, &unseen);
	int r = 0;

	if (unseen && unseen == n)
		r = timeline_warn(
			c->t,
			"Some connections are encrypted: requests on %llu of them were not read. Those of OpenSSL's library are, if decrypted-requests in a section [access] of the configuration allows it.",
			(unsigned long long)unseen);
	else if (unseen)
		r = timeline_warn(
			c->t,
			"Some connections are encrypted: on %llu of %llu no request was read. There was none, or the library is neither OpenSSL's nor gRPC's.",
			(unsigned long long)unseen, (unsigned long long)n);
	if (r < 0)
		c->error = -ENOMEM;
}

static void warn_of_unseen(struct correlator *c)
{
	static const char *const texts[] = {
		[UNSEEN_IO_URING] =
			"A process uses io_uring: requests that pass through it are not seen.",
		[UNSEEN_OTHER] =
			"Some connections use an unknown protocol: requests on them are not seen.",
	};
	const struct messages *m = &c->messages;
	uint64_t n_left_out = requests_left_out(&c->requests);

	for (unsigned i = 0; i < ARRAY_SIZE(texts) && !c->error; i++)
		if (texts[i] && m->n_unseen[i] && timeline_warn(c->t, "%s", texts[i]) < 0)
			c->error = -ENOMEM;
	warn_of_encrypted(c);
	if (n_left_out && timeline_warn(c->t, "%llu requests were left out: a capture holds %u.",
					(unsigned long long)n_left_out, REQUESTS_MAX) < 0)
		c->error = -ENOMEM;
	n_left_out = streams_left_out(c);
	if (n_left_out &&
	    timeline_warn(
		    c->t,
		    "%llu streams of gRPC's library were left out: a capture holds %u. Runs of their requests are not known, and encrypted ones are not shown.",
		    (unsigned long long)n_left_out, REQUESTS_MAX) < 0)
		c->error = -ENOMEM;
	if (m->n_unknown_role && !requests_count(&c->requests) &&
	    timeline_warn(
		    c->t,
		    "Requests on some connections are not shown: it is unknown which side is the server.") <
		    0)
		c->error = -ENOMEM;
}

void messages_close(struct correlator *c)
{
	struct requests *r = &c->requests;

	messages_end(c, c->end_ns, false);
	mark_lost(r, &c->losses);
	if (arrivals_seen(c))
		mark_truncated(r);
	library_requests_add(c);
	hand_overs_claim(c);
	attribution_close(c);
	hops_close(c);
	warn_of_unseen(c);
	requests_take(r, c->t);
}
