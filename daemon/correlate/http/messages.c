/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what passed through sockets, and what is true of all requests when the window closes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/http/messages.h"
#include "lib/base/macro.h"

int requests_new(struct requests **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct requests *requests_free(struct requests *r)
{
	if (!r)
		return NULL;
	for (uint32_t i = 0; i < r->n_connections; i++)
		free(r->connections[i].fields);
	free(r->list);
	free(r->states);
	free(r->connections);
	free(r->arrivals);
	free(r->threads);
	free(r->waiting);
	free(r->losses);
	map_done(&r->connection_of_socket);
	map_done(&r->arrivals_of_socket);
	map_done(&r->request_of_stream);
	streams_done(&r->streams);
	free(r);
	return NULL;
}

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

void requests_on_record(struct correlator *c, const struct record *r)
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

void requests_note_finished(struct correlator *c, uint64_t span)
{
	const struct span *s = &c->t->spans[span];
	uint32_t process = c->t->threads[s->thread].process;
	struct request q = {
		.start_ns = s->start_ns, .end_ns = s->end_ns, .path = TEXT_NONE, .model = TEXT_NONE
	};

	/* What is marked within a request at a socket is that one. */
	for (uint32_t i = c->requests->n; s->kind == SPAN_RUN && i > 0; i--)
		if (c->requests->list[i - 1].process == process)
			return;
	if (s->flags & SPAN_NOT_WHOLE)
		return;
	if (s->kind == SPAN_HANDLER && s->id >= 0 && (uint64_t)s->id < c->t->n_handlers) {
		q.path = c->t->handlers[s->id].path;
		q.model = c->t->handlers[s->id].model;
	}
	if (request_filter_passes(&c->filter, c->t, &q))
		correlator_finished(c, process, q.end_ns - q.start_ns);
}

void requests_note_loss(struct correlator *c, uint64_t from, uint64_t to)
{
	struct requests *r = c->requests;
	uint32_t at = r->n_losses, end;
	struct loss *losses;

	/* They come nearly in order. */
	while (at > 0 && r->losses[at - 1].to_ns >= from)
		at--;
	for (end = at; end < r->n_losses && r->losses[end].from_ns <= to; end++) {
		from = MIN(from, r->losses[end].from_ns);
		to = MAX(to, r->losses[end].to_ns);
	}
	losses = correlator_grow(c, r->losses, &r->losses_size, r->n_losses, sizeof(*losses));
	if (!losses)
		return;
	r->losses = losses;
	memmove(&losses[at + 1], &losses[end], (r->n_losses - end) * sizeof(losses[0]));
	losses[at] = (struct loss){ .from_ns = from, .to_ns = to };
	r->n_losses += 1 - (end - at);
}

bool requests_lost_within(const struct requests *r, uint64_t from, uint64_t to)
{
	uint32_t low = 0, high = r->n_losses;

	/* The first that ends at or after from. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (r->losses[middle].to_ns < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n_losses && r->losses[low].from_ns <= to;
}

/* Of what went on while records were lost something may be missing: its times, its end, whose it
 * is. */
static void mark_lost(struct requests *r)
{
	for (uint32_t i = 0; i < r->n && r->n_losses; i++)
		if (requests_lost_within(r, MIN(r->list[i].start_ns, r->states[i].since_ns),
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

void requests_cut(struct correlator *c, uint64_t time)
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

void requests_close(struct correlator *c)
{
	struct requests *r = c->requests;

	requests_cut(c, c->end_ns);
	mark_lost(r);
	mark_cut(r);
	attribution_close(c);
	warn_of_unseen(c);
	c->t->requests = TAKE_PTR(r->list);
	c->t->n_requests = r->n;
	r->n = 0;
}
