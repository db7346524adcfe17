/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/correlation.h"

#include <errno.h>
#include <stdlib.h>

struct correlation {
	struct record_sink sink;
	struct request_filter filter;
	correlator_finished_fn finished;
	void *data;
	struct correlator *correlator; /* NULL: the window is not open yet */
};

static int on_begin(uint64_t start_ns, void *data)
{
	struct correlation *c = data;
	int r = correlator_new(start_ns, &c->correlator);

	if (r < 0)
		return r;
	correlator_set_filter(c->correlator, &c->filter);
	correlator_on_finished(c->correlator, c->finished, c->data);
	return 0;
}

static int on_target(const struct correlate_target *target, void *data)
{
	return correlator_add_target(((struct correlation *)data)->correlator, target);
}

static int on_layout(unsigned target, unsigned named, const struct record_layout *layout,
		     void *data)
{
	return correlator_set_layout(((struct correlation *)data)->correlator, target, named,
				     layout);
}

static int on_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	return correlator_shed(((struct correlation *)data)->correlator, kind, time, text);
}

static int on_resume(enum probe_kind kind, uint64_t time, void *data)
{
	return correlator_resume(((struct correlation *)data)->correlator, kind, time);
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	return correlator_note_loss(((struct correlation *)data)->correlator, from, to);
}

static int on_recall(const struct record *record, void *data)
{
	return correlator_recall(((struct correlation *)data)->correlator, record);
}

static int on_record(const struct record *record, void *data)
{
	return correlator_feed(((struct correlation *)data)->correlator, record);
}

int correlation_new(const struct request_filter *filter, correlator_finished_fn finished,
		    void *data, struct correlation **ret)
{
	struct correlation *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct correlation){ .filter = *filter, .finished = finished, .data = data };
	c->sink = (struct record_sink){ .begin = on_begin,
					.target = on_target,
					.layout = on_layout,
					.shed = on_shed,
					.resume = on_resume,
					.loss = on_loss,
					.recall = on_recall,
					.record = on_record,
					.data = c };
	*ret = c;
	return 0;
}

struct correlation *correlation_free(struct correlation *c)
{
	if (!c)
		return NULL;
	correlator_free(c->correlator);
	free(c);
	return NULL;
}

const struct record_sink *correlation_sink(const struct correlation *c)
{
	return &c->sink;
}

uint64_t correlation_n_finished(const struct correlation *c)
{
	return c->correlator ? correlator_n_finished(c->correlator) : 0;
}

int correlation_finish(struct correlation *c, uint64_t stop, uint64_t start_unix_ns,
		       struct timeline **ret)
{
	int r = correlator_finish(c->correlator, stop, start_unix_ns, ret);

	c->correlator = correlator_free(c->correlator);
	return r;
}
