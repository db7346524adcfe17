/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/live_counter.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/capture/budget/cost.h"
#include "daemon/correlate/correlate.h"
#include "daemon/recorder/lead_in.h"
#include "lib/base/macro.h"

#define RENEW_NS 10000000000ull
/* A limit on records, too: memory grows with them. */
#define RENEW_RECORDS 2000000
/* Of what later records refer to, such as the tables of header fields. */
#define LEAD_IN_BYTES (1u << 20)

/* A correlator, from a time on. */
struct generation {
	struct live_counter *counter;
	struct correlator *correlator; /* NULL: there is none */
	struct rebase *rebase;
	uint64_t since_ns;
};

struct live_counter {
	struct record_sink sink;
	struct live *live;
	struct triggers *triggers; /* NULL: none */
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	bool is_shed[KIND_COUNT];
	struct lead_in *lead_in;
	/* The latest, and the one before it, as long as a request that is older than the latest is
	 * in progress. */
	struct generation latest, before;
	uint64_t n_records;
};

/* A request belongs to the generation in which it was read. */
static void on_finished(const struct finished_request *request, void *data)
{
	const struct generation *g = data;
	struct live_counter *counter = g->counter;

	if (g == &counter->before ? request->read_ns >= counter->latest.since_ns
				  : request->read_ns < g->since_ns)
		return;
	live_add(counter->live, request->process, request->end_ns - request->start_ns);
	triggers_on_request(counter->triggers, request);
}

static void end_generation(struct generation *g)
{
	correlator_free(g->correlator);
	rebase_free(g->rebase);
	*g = (struct generation){ .counter = g->counter };
}

static int recall(const struct record *record, void *data)
{
	return correlator_recall(data, record);
}

static int recall_all(struct live_counter *counter)
{
	struct lead_in *copy = NULL;
	int r = lead_in_copy(counter->lead_in, &copy);

	if (r == 0)
		r = lead_in_read(copy, recall, counter->latest.correlator);
	lead_in_free(copy);
	return r;
}

static int renew(struct live_counter *counter, uint64_t now)
{
	struct generation *g = &counter->latest;
	int r;

	end_generation(&counter->before);
	counter->before = *g;
	if (counter->before.correlator)
		correlator_on_finished(counter->before.correlator, on_finished, &counter->before);
	*g = (struct generation){ .counter = counter, .since_ns = now };
	r = correlator_new(now, &g->correlator);
	if (r == 0)
		r = rebase_new(&g->rebase);
	for (unsigned i = 0; i < counter->n_targets && r >= 0; i++)
		r = correlator_add_target(g->correlator, &counter->targets[i]);
	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (counter->is_shed[kind])
			r = correlator_shed(g->correlator, kind, now, "");
	if (r >= 0)
		r = recall_all(counter);
	if (r < 0)
		return r;
	correlator_on_finished(g->correlator, on_finished, g);
	counter->n_records = 0;
	return 0;
}

static int on_target(const struct correlate_target *target, void *data)
{
	struct live_counter *counter = data;
	int r = counter->n_targets < RECORD_MAX_TARGETS ? 0 : -E2BIG;

	if (r == 0)
		r = lead_in_add_target(counter->lead_in, target->packs);
	if (r == 0 && counter->latest.correlator)
		r = correlator_add_target(counter->latest.correlator, target);
	if (r == 0 && counter->before.correlator)
		r = correlator_add_target(counter->before.correlator, target);
	if (r < 0)
		return r;
	live_set_target(counter->live, counter->n_targets, (pid_t)target->pid);
	triggers_add_target(counter->triggers, target);
	counter->targets[counter->n_targets++] = *target;
	return 0;
}

static int on_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	struct live_counter *counter = data;

	int r = 0;

	counter->is_shed[kind] = true;
	/* Without other kinds the requests that are in progress there would not end any more. */
	if (!(SAMPLED_KINDS & 1u << kind))
		end_generation(&counter->before);
	if (counter->before.correlator)
		r = correlator_shed(counter->before.correlator, kind, time, text);
	return r == 0 && counter->latest.correlator
		       ? correlator_shed(counter->latest.correlator, kind, time, text)
		       : r;
}

static int on_resume(enum probe_kind kind, uint64_t time, void *data)
{
	struct live_counter *counter = data;
	int r = 0;

	counter->is_shed[kind] = false;
	if (counter->before.correlator)
		r = correlator_resume(counter->before.correlator, kind, time);
	return r == 0 && counter->latest.correlator
		       ? correlator_resume(counter->latest.correlator, kind, time)
		       : r;
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	struct live_counter *counter = data;
	int r = 0;

	if (counter->before.correlator)
		r = correlator_note_loss(counter->before.correlator, from, to);
	return r == 0 && counter->latest.correlator
		       ? correlator_note_loss(counter->latest.correlator, from, to)
		       : r;
}

static bool is_of(enum work work, const struct live_counter *counter, const struct record *r)
{
	const struct probe_row *row =
		r->target < counter->n_targets
			? pack_set_row(counter->targets[r->target].packs, r->site)
			: NULL;

	return r->kind == RECORD_PROBE && row && row->work == work;
}

static int feed(struct generation *g, const struct record *record)
{
	struct record_headers copy;

	record = rebase_record(g->rebase, record, &copy);
	return record ? correlator_feed(g->correlator, record) : -ENOMEM;
}

/* The one before the latest, while there is one, has all that are in progress. */
static void look_at_queue(struct live_counter *counter, const struct record *record)
{
	const struct generation *g =
		counter->before.correlator ? &counter->before : &counter->latest;

	if (record->target < counter->n_targets && triggers_count_queue(counter->triggers) &&
	    (record->kind == RECORD_MESSAGE || is_of(WORK_STREAM, counter, record)))
		triggers_on_queue(counter->triggers, record->target,
				  correlator_n_open(g->correlator, record->target));
}

static int on_record(const struct record *record, void *data)
{
	struct live_counter *counter = data;
	struct generation *before = &counter->before;
	int r = 0;

	if (!counter->latest.correlator || record->time > counter->latest.since_ns + RENEW_NS ||
	    ++counter->n_records > RENEW_RECORDS)
		r = renew(counter, record->time);
	/* Names and allocations do not matter here. */
	if (r < 0 || record->kind == RECORD_NAME || record->kind == RECORD_OBJECT ||
	    is_of(WORK_ALLOC, counter, record))
		return r;
	r = lead_in_add(counter->lead_in, record);
	if (r >= 0 && before->correlator) {
		r = feed(before, record);
		if (correlator_oldest_open(before->correlator) >= counter->latest.since_ns)
			end_generation(before);
	}
	if (r >= 0)
		r = feed(&counter->latest, record);
	look_at_queue(counter, record);
	return r;
}

int live_counter_new(struct live *live, struct triggers *triggers, struct live_counter **ret)
{
	struct live_counter *counter = calloc(1, sizeof(*counter));
	int r;

	if (!counter)
		return -ENOMEM;
	*counter = (struct live_counter){ .live = live, .triggers = triggers };
	counter->latest.counter = counter->before.counter = counter;
	counter->sink = (struct record_sink){ .target = on_target,
					      .shed = on_shed,
					      .resume = on_resume,
					      .loss = on_loss,
					      .record = on_record,
					      .data = counter };
	r = lead_in_new(LEAD_IN_BYTES, &counter->lead_in);
	if (r < 0) {
		free(counter);
		return r;
	}
	triggers_begin(triggers);
	*ret = counter;
	return 0;
}

struct live_counter *live_counter_free(struct live_counter *counter)
{
	if (!counter)
		return NULL;
	end_generation(&counter->before);
	end_generation(&counter->latest);
	lead_in_free(counter->lead_in);
	free(counter);
	return NULL;
}

const struct record_sink *live_counter_sink(struct live_counter *counter)
{
	return &counter->sink;
}
