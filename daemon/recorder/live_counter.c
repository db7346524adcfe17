/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/live_counter.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/correlate.h"
#include "daemon/recorder/lead_in.h"
#include "lib/base/macro.h"

#define RENEW_NS 10000000000ull
/* A limit on records, too: memory grows with them. */
#define RENEW_RECORDS 2000000

struct live_counter {
	struct record_sink sink;
	struct live *live;
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	bool is_shed[KIND_COUNT];
	struct correlator *correlator;
	struct rebase *rebase;
	uint64_t renewed_ns, n_records;
};

static void on_finished(uint32_t process, uint64_t latency_ns, void *data)
{
	struct live_counter *counter = data;

	live_add(counter->live, process, latency_ns);
}

static int renew(struct live_counter *counter, uint64_t now)
{
	int r;

	counter->correlator = correlator_free(counter->correlator);
	counter->rebase = rebase_free(counter->rebase);
	r = correlator_new(now, &counter->correlator);
	if (r == 0)
		r = rebase_new(&counter->rebase);
	for (unsigned i = 0; i < counter->n_targets && r >= 0; i++)
		r = correlator_add_target(counter->correlator, &counter->targets[i]);
	for (enum probe_kind kind = 0; kind < KIND_COUNT && r >= 0; kind++)
		if (counter->is_shed[kind])
			r = correlator_shed(counter->correlator, kind, now, "");
	if (r < 0)
		return r;
	correlator_on_finished(counter->correlator, on_finished, counter);
	counter->renewed_ns = now;
	counter->n_records = 0;
	return 0;
}

static int on_target(const struct correlate_target *target, void *data)
{
	struct live_counter *counter = data;
	int r = counter->n_targets < RECORD_MAX_TARGETS ? 0 : -E2BIG;

	if (r == 0 && counter->correlator)
		r = correlator_add_target(counter->correlator, target);
	if (r < 0)
		return r;
	live_set_target(counter->live, counter->n_targets, (pid_t)target->pid);
	counter->targets[counter->n_targets++] = *target;
	return 0;
}

static int on_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	struct live_counter *counter = data;

	counter->is_shed[kind] = true;
	return counter->correlator ? correlator_shed(counter->correlator, kind, time, text) : 0;
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	struct live_counter *counter = data;

	return counter->correlator ? correlator_note_loss(counter->correlator, from, to) : 0;
}

static bool is_of_memory(const struct live_counter *counter, const struct record *r)
{
	const struct probe_row *row =
		r->target < counter->n_targets
			? pack_set_row(counter->targets[r->target].packs, r->site)
			: NULL;

	return r->kind == RECORD_PROBE && row && row->work == WORK_ALLOC;
}

static int on_record(const struct record *record, void *data)
{
	struct live_counter *counter = data;
	int r = 0;

	if (!counter->correlator || record->time > counter->renewed_ns + RENEW_NS ||
	    ++counter->n_records > RENEW_RECORDS)
		r = renew(counter, record->time);
	/* Names and allocations do not matter here. */
	if (r == 0 && record->kind != RECORD_NAME && record->kind != RECORD_OBJECT &&
	    !is_of_memory(counter, record))
		r = rebase_feed(counter->rebase, counter->correlator, record);
	return r;
}

int live_counter_new(struct live *live, struct live_counter **ret)
{
	struct live_counter *counter = calloc(1, sizeof(*counter));

	if (!counter)
		return -ENOMEM;
	*counter = (struct live_counter){ .live = live };
	counter->sink = (struct record_sink){ .target = on_target,
					      .shed = on_shed,
					      .loss = on_loss,
					      .record = on_record,
					      .data = counter };
	*ret = counter;
	return 0;
}

struct live_counter *live_counter_free(struct live_counter *counter)
{
	if (!counter)
		return NULL;
	correlator_free(counter->correlator);
	rebase_free(counter->rebase);
	free(counter);
	return NULL;
}

const struct record_sink *live_counter_sink(struct live_counter *counter)
{
	return &counter->sink;
}
