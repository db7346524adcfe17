/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what passed through sockets, and what is true of all requests when the window closes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/http/arrivals.h"
#include "daemon/correlate/http/connections.h"
#include "daemon/correlate/http/fields.h"
#include "daemon/correlate/http/http1.h"
#include "daemon/correlate/http/http2.h"
#include "daemon/correlate/http/messages.h"
#include "lib/base/macro.h"

static void on_unseen(struct correlator *c, const struct record_unseen *record)
{
	if (record->head.site <= UNSEEN_OTHER)
		c->requests->n_unseen[record->head.site]++;
}

static void on_message(struct correlator *c, const struct record_message *m)
{
	uint32_t at = connection_get(c, m->socket, m->inode, m->head.target, m->head.time);

	if (at == NO_REQUEST)
		return;
	c->requests->connections[at].last_ns = m->head.time;
	if (m->part & MESSAGE_LOST) {
		fields_forget(&c->requests->connections[at], m->direction);
		connection_end_requests(c, at, m->head.time, REQUEST_LOST);
		c->requests->connections[at].counts_lost = true;
		if (m->direction == MESSAGE_READ)
			c->requests->connections[at].passed = PASSED_ANY;
		return;
	}
	if (m->part & MESSAGE_PASSED)
		c->requests->connections[at].passed =
			MAX(c->requests->connections[at].passed, PASSED_FIRST);
	else if (m->protocol == MESSAGE_HTTP1)
		http1_on_message(c, at, m);
	else if (m->protocol == MESSAGE_HTTP2 && !(m->part & MESSAGE_CLOSED))
		http2_on_message(c, at, m);
	/* Whoever closes in the middle of a request breaks it off. */
	if (m->part & MESSAGE_CLOSED)
		connection_close(c, at, m->head.time, REQUEST_RESET);
}

void messages_on_record(struct correlator *c, const struct record *r)
{
	if (r->kind == RECORD_MESSAGE)
		on_message(c, (const void *)r);
	else if (r->kind == RECORD_FIELD)
		fields_on_field(c, (const void *)r);
	else if (r->kind == RECORD_READY)
		arrivals_on_ready(c, (const void *)r);
	else if (r->kind == RECORD_UNSEEN)
		on_unseen(c, (const void *)r);
}

/* Of what went on while records were lost something may be missing: its times, its end, whose it
 * is. */
static void mark_lost(struct requests *r, const struct losses *losses)
{
	for (uint32_t i = 0; i < r->n && losses->n; i++)
		if (losses_within(losses, MIN(r->list[i].start_ns, r->states[i].since_ns),
				  r->list[i].end_ns)) {
			r->list[i].flags |= REQUEST_LOST;
			r->states[i].doubtful = true;
		}
}

/* What was read and never came has come before the window; where nothing is seen to come, that is
 * not known. */
static void mark_cut(struct requests *r)
{
	for (uint32_t i = 0; i < r->n && r->n_ready; i++)
		if (r->states[i].came_before && !(r->list[i].flags & REQUEST_LOST))
			r->list[i].flags |= REQUEST_CUT_START;
}

void messages_end(struct correlator *c, uint64_t time)
{
	struct requests *r = c->requests;

	for (uint32_t i = 0; i < r->n; i++)
		if (!r->states[i].done)
			request_end(c, i, time, REQUEST_CUT_END);
}

static void warn_of_unseen(struct correlator *c)
{
	static const char *const texts[] = {
		[UNSEEN_IO_URING] =
			"A process uses io_uring: requests that pass through it are not seen.",
		[UNSEEN_TLS] = "Some connections are encrypted: requests on them are not seen.",
		[UNSEEN_OTHER] =
			"Some connections speak a protocol that is not known: requests on them are not seen.",
	};
	const struct requests *r = c->requests;

	for (unsigned i = 0; i < ARRAY_SIZE(texts) && !c->error; i++)
		if (r->n_unseen[i] && timeline_warn(c->t, "%s", texts[i]) < 0)
			c->error = -ENOMEM;
	if (r->n_left_out && timeline_warn(c->t, "%llu requests were left out: a capture holds %u.",
					   (unsigned long long)r->n_left_out, REQUESTS_MAX) < 0)
		c->error = -ENOMEM;
	if (r->n_unknown_role && !r->n &&
	    timeline_warn(
		    c->t,
		    "Requests on some connections are not shown: it is not known which side serves.") <
		    0)
		c->error = -ENOMEM;
}

void messages_close(struct correlator *c)
{
	struct requests *r = c->requests;

	messages_end(c, c->end_ns);
	mark_lost(r, &c->losses);
	mark_cut(r);
	attribution_close(c);
	warn_of_unseen(c);
	c->t->requests = TAKE_PTR(r->list);
	c->t->n_requests = r->n;
	r->n = 0;
}
