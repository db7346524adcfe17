/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/correlation.h"
#include "daemon/correlate/correlate.h"
#include "daemon/record/history.h"
#include "daemon/recorder/lead_in.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"

#define LEAD_IN_SHARE 8
/* Losses that are kept separately; beyond that the two oldest are merged. */
#define LOSSES_MAX 1024
#define SHED_TEXT 160

struct loss {
	uint64_t from, to, n;
};

/* A kind was shed, or recorded again: by turns. */
struct change {
	uint64_t time;
	enum probe_kind kind;
	bool is_shed;
};

/* What is kept besides the records. */
struct context {
	struct correlate_target targets[RECORD_MAX_TARGETS];
	struct record_layout layouts[RECORD_MAX_TARGETS]
				    [RECORD_LAYOUTS]; /* type_offset 0: unknown */
	unsigned n_targets;
	struct change *changes;
	size_t n_changes, n_changes_allocated;
	bool is_shed[KIND_COUNT]; /* after the last change */
	char shed_texts[KIND_COUNT][SHED_TEXT];
	struct loss losses[LOSSES_MAX];
	unsigned n_losses;
};

struct flight {
	struct record_sink sink;
	struct history *history;
	struct lead_in *lead_in;
	struct context context;
};

struct flight_view {
	struct history_view *history;
	struct lead_in *lead_in;
	struct context context;
	uint64_t oldest_ns;
};

static int on_target(const struct correlate_target *target, void *data)
{
	struct flight *f = data;

	if (f->context.n_targets == RECORD_MAX_TARGETS)
		return -E2BIG;
	f->context.targets[f->context.n_targets++] = *target;
	return lead_in_add_target(f->lead_in, target->packs);
}

static int on_layout(unsigned target, unsigned named, const struct record_layout *layout,
		     void *data)
{
	struct flight *f = data;

	f->context.layouts[target][named] = *layout;
	return 0;
}

/* Without those from before the oldest record. */
static int add_change(struct flight *f, enum probe_kind kind, uint64_t time, bool is_shed)
{
	struct context *c = &f->context;
	uint64_t oldest = flight_oldest(f);
	size_t gone = 0;

	c->is_shed[kind] = is_shed;
	while (gone < c->n_changes && c->changes[gone].time < oldest && oldest != UINT64_MAX)
		gone++;
	if (gone > 0) {
		c->n_changes -= gone;
		memmove(c->changes, c->changes + gone, c->n_changes * sizeof(c->changes[0]));
	}
	if (array_reserve(&c->changes, c->n_changes, &c->n_changes_allocated, sizeof(c->changes[0]),
			  1) < 0)
		return -ENOMEM;
	c->changes[c->n_changes++] =
		(struct change){ .time = time, .kind = kind, .is_shed = is_shed };
	return 0;
}

static int on_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	struct flight *f = data;

	snprintf(f->context.shed_texts[kind], SHED_TEXT, "%s", text);
	return add_change(f, kind, time, true);
}

static int on_resume(enum probe_kind kind, uint64_t time, void *data)
{
	return add_change(data, kind, time, false);
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	struct flight *f = data;
	struct context *c = &f->context;

	if (c->n_losses == LOSSES_MAX) {
		c->losses[1] = (struct loss){ .from = MIN(c->losses[0].from, c->losses[1].from),
					      .to = MAX(c->losses[0].to, c->losses[1].to),
					      .n = c->losses[0].n + c->losses[1].n };
		memmove(&c->losses[0], &c->losses[1], --c->n_losses * sizeof(c->losses[0]));
	}
	c->losses[c->n_losses++] = (struct loss){ .from = from, .to = to, .n = n };
	return 0;
}

static int on_record(const struct record *record, void *data)
{
	struct flight *f = data;
	int r = history_add(f->history, record);

	/* A late record is reported as a loss. */
	return r == -EINVAL ? 0 : r;
}

static int on_gone(const struct record *record, void *data)
{
	struct flight *f = data;

	return lead_in_add(f->lead_in, record);
}

int flight_new(uint64_t bytes, uint64_t last_ns, struct flight **ret)
{
	struct flight *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->sink = (struct record_sink){ .target = on_target,
					.layout = on_layout,
					.shed = on_shed,
					.resume = on_resume,
					.loss = on_loss,
					.record = on_record,
					.data = f };
	/* At the worst it uses three times as much, between two cleanups. */
	r = lead_in_new(bytes / LEAD_IN_SHARE / 3, &f->lead_in);
	if (r == 0)
		r = history_new(bytes - bytes / LEAD_IN_SHARE, last_ns, on_gone, f, &f->history);
	if (r < 0) {
		flight_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

struct flight *flight_free(struct flight *f)
{
	if (!f)
		return NULL;
	history_free(f->history);
	lead_in_free(f->lead_in);
	free(f->context.changes);
	free(f);
	return NULL;
}

const struct record_sink *flight_sink(struct flight *f)
{
	return &f->sink;
}

uint64_t flight_bytes(const struct flight *f)
{
	return history_bytes(f->history) + lead_in_bytes(f->lead_in);
}

uint64_t flight_oldest(const struct flight *f)
{
	return history_oldest(f->history);
}

static int copy_context(const struct context *c, struct context *ret)
{
	size_t n = c->n_changes;

	*ret = *c;
	ret->changes = n ? malloc(n * sizeof(c->changes[0])) : NULL;
	if (!ret->changes)
		return n ? -ENOMEM : 0;
	memcpy(ret->changes, c->changes, n * sizeof(c->changes[0]));
	return 0;
}

int flight_view_new(const struct flight *f, struct flight_view **ret)
{
	struct flight_view *view = calloc(1, sizeof(*view));
	int r;

	if (!view)
		return -ENOMEM;
	r = copy_context(&f->context, &view->context);
	view->oldest_ns = flight_oldest(f);
	if (r == 0)
		r = lead_in_copy(f->lead_in, &view->lead_in);
	if (r == 0)
		r = history_view_new(f->history, &view->history);
	if (r < 0) {
		flight_view_free(view);
		return r;
	}
	*ret = view;
	return 0;
}

uint64_t flight_view_oldest(const struct flight_view *view)
{
	return view->oldest_ns;
}

struct flight_view *flight_view_free(struct flight_view *view)
{
	if (!view)
		return NULL;
	history_view_free(view->history);
	lead_in_free(view->lead_in);
	free(view->context.changes);
	free(view);
	return NULL;
}

/* One reading of a view. */
struct reading {
	const struct flight_view *view;
	uint64_t from, to;
	const struct record_sinks *sinks;
	struct lead_in *lead_in;
	bool began; /* the lead-in was passed on */
	struct rebase *rebase;
	size_t n_changes; /* that were passed on */
	uint64_t records;
};

/* What was shed at the beginning, which the first change of a kind after it shows. */
static int report_shed(struct reading *reading)
{
	const struct context *c = &reading->view->context;
	bool is_shed[KIND_COUNT];
	int r = 0;

	memcpy(is_shed, c->is_shed, sizeof(is_shed));
	while (reading->n_changes < c->n_changes &&
	       c->changes[reading->n_changes].time <= reading->from)
		reading->n_changes++;
	for (size_t i = c->n_changes; i-- > reading->n_changes;)
		is_shed[c->changes[i].kind] = !c->changes[i].is_shed;
	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (is_shed[kind])
			r = sinks_shed(reading->sinks, kind, reading->from, c->shed_texts[kind]);
	return r;
}

/* What changed until that time. */
static int report_changes(struct reading *reading, uint64_t time)
{
	const struct context *c = &reading->view->context;
	int r = 0;

	for (; r >= 0 && reading->n_changes < c->n_changes &&
	       c->changes[reading->n_changes].time <= time;
	     reading->n_changes++) {
		const struct change *change = &c->changes[reading->n_changes];

		r = change->is_shed ? sinks_shed(reading->sinks, change->kind, change->time,
						 c->shed_texts[change->kind])
				    : sinks_resume(reading->sinks, change->kind, change->time);
	}
	return r;
}

static int on_lead_in(const struct record *record, void *data)
{
	return sinks_recall(((struct reading *)data)->sinks, record);
}

static int begin(struct reading *reading)
{
	reading->began = true;
	return lead_in_read(reading->lead_in, on_lead_in, reading);
}

static int on_reading(const struct record *record, void *data)
{
	struct reading *reading = data;
	struct record_headers copy;
	int r = 0;

	if (record->time < reading->from)
		return lead_in_add(reading->lead_in, record);
	if (!reading->began)
		r = begin(reading);
	/* The threads' names are recorded when a snapshot is requested. */
	if (r < 0 || (record->time >= reading->to && record->kind != RECORD_THREAD))
		return r;
	r = report_changes(reading, record->time);
	if (r < 0)
		return r;
	reading->records++;
	record = rebase_record(reading->rebase, record, &copy);
	return record ? sinks_record(reading->sinks, record) : -ENOMEM;
}

static int read_context(struct reading *reading, struct flight_facts *facts)
{
	const struct context *c = &reading->view->context;
	int r = sinks_begin(reading->sinks, reading->from);

	for (unsigned i = 0; i < c->n_targets && r >= 0; i++) {
		r = sinks_target(reading->sinks, &c->targets[i]);
		for (unsigned k = 0; k < RECORD_LAYOUTS && r >= 0; k++)
			if (c->layouts[i][k].type_offset)
				r = sinks_layout(reading->sinks, i, k, &c->layouts[i][k]);
	}
	for (unsigned i = 0; i < c->n_losses && r >= 0; i++) {
		if (c->losses[i].to < reading->from || c->losses[i].from > reading->to)
			continue;
		facts->dropped += c->losses[i].n;
		r = sinks_loss(reading->sinks, c->losses[i].from, c->losses[i].to, c->losses[i].n);
	}
	return r < 0 ? r : report_shed(reading);
}

static int read_all(struct reading *reading, struct flight_facts *facts)
{
	int r = lead_in_copy(reading->view->lead_in, &reading->lead_in);

	if (r == 0)
		r = rebase_new(&reading->rebase);
	if (r < 0)
		return r;
	r = read_context(reading, facts);
	if (r >= 0)
		r = history_view_read(reading->view->history, on_reading, reading);
	if (r >= 0 && !reading->began)
		r = begin(reading);
	return r < 0 ? r : report_changes(reading, reading->to);
}

int flight_view_read(const struct flight_view *view, uint64_t from, uint64_t to,
		     const struct record_sinks *sinks, struct flight_facts *ret_facts)
{
	struct reading reading = { .view = view, .from = from, .to = to, .sinks = sinks };
	struct flight_facts facts = {};
	int r = read_all(&reading, &facts);

	if (r >= 0) {
		facts.records = reading.records;
		facts.lead_in_is_incomplete = lead_in_is_incomplete(reading.lead_in);
		*ret_facts = facts;
	}
	rebase_free(reading.rebase);
	lead_in_free(reading.lead_in);
	return r;
}

int flight_view_correlate(const struct flight_view *view, uint64_t from, uint64_t to,
			  uint64_t from_unix_ns, const struct request_filter *filter,
			  struct flight_facts *ret_facts, struct timeline **ret)
{
	struct correlation *correlation;
	struct record_sinks sinks = {};
	int r = correlation_new(filter, NULL, NULL, &correlation);

	if (r < 0)
		return r;
	sinks_add(&sinks, correlation_sink(correlation));
	r = flight_view_read(view, from, to, &sinks, ret_facts);
	if (r >= 0)
		r = correlation_finish(correlation, to, from_unix_ns, ret);
	correlation_free(correlation);
	return r;
}
