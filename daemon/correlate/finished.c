/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/finished.h"

#include "daemon/correlate/correlator.h"

void finished_add(struct correlator *c, const struct request *q)
{
	struct finished *f = &c->finished;
	struct finished_request request = { .process = q->process,
					    .start_ns = q->start_ns,
					    .end_ns = q->end_ns,
					    .read_ns = q->read_start_ns ?: q->start_ns,
					    .status = q->status,
					    .grpc_status = q->grpc_status };

	if (q->flags & REQUEST_NOT_WHOLE || !request_filter_passes(&f->filter, c->t, q))
		return;
	f->n++;
	if (q->model < c->t->n_texts)
		request.model = c->t->texts[q->model];
	if (f->fn)
		f->fn(&request, f->data);
}

const struct request_filter *finished_filter(const struct correlator *c)
{
	return &c->finished.filter;
}

void correlator_set_filter(struct correlator *c, const struct request_filter *filter)
{
	c->finished.filter = *filter;
}

void correlator_on_finished(struct correlator *c, correlator_finished_fn fn, void *data)
{
	c->finished.fn = fn;
	c->finished.data = data;
}

uint64_t correlator_n_finished(const struct correlator *c)
{
	return c->finished.n;
}
