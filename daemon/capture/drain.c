/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/drain.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/broker/limits.h"
#include "daemon/record/ring.h"
#include "daemon/record/store.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

/* Of records that wait to be put in order. */
#define STORE_BYTES_MAX (256ull << 20)
/* A record can be sent this much later than its time stamp: its thread can lose the CPU in
 * between. */
#define REORDER_NS 100000000ull

struct drain {
	const struct record_sinks *sinks;
	drain_seen_fn seen;
	void *data;
	const struct record_counters *counters;
	struct ring *rings[RECORD_MAX_RINGS];
	unsigned n_rings;
	struct store *store;
	struct unwinder *unwinder;
	struct unwinder_counts stacks;
	bool begun;    /* the window is open */
	bool finished; /* the last record was read */
	uint64_t records, refused, malformed, copies;
	uint64_t last_ns, late;
	uint64_t settled_ns; /* records before that time were passed on */
	/* When the counters were last read: a new loss happened after that time. */
	uint64_t drained_ns;
	uint64_t n_lost; /* that the sinks have received */
	int error;       /* the first one */
};

/* A record goes where those of its ring, or those that waited, are put in order. */
static void keep(struct drain *d, unsigned stream, const void *record, size_t size)
{
	int r = store_add(d->store, stream, record, size);

	if (r == -ENOBUFS) {
		d->refused++;
	} else if (r < 0) {
		d->malformed++;
	} else {
		d->records++;
		r = d->seen(record, d->data);
		if (r < 0)
			d->error = r;
	}
}

static void on_stack(const struct record *record, size_t size, void *data)
{
	struct drain *d = data;

	keep(d, d->n_rings, record, size);
}

int drain_new(int counters, const int *rings, unsigned n_rings, const struct record_sinks *sinks,
	      drain_seen_fn seen, void *data, struct proxy *proxy, struct drain **ret)
{
	struct drain *d;
	int r = 0;

	if (n_rings > RECORD_MAX_RINGS)
		return -EBADMSG;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = (struct drain){ .sinks = sinks, .seen = seen, .data = data };
	d->counters = mmap(NULL, RECORD_MAX_CPUS * sizeof(*d->counters), PROT_READ, MAP_SHARED,
			   counters, 0);
	if (d->counters == MAP_FAILED) {
		d->counters = NULL;
		r = -errno;
	}
	for (unsigned i = 0; i < n_rings && r >= 0; i++) {
		r = ring_open(rings[i],
			      i + 1 < n_rings ? BROKER_RING_BYTES : BROKER_SPARE_RING_BYTES,
			      &d->rings[i]);
		d->n_rings += r >= 0;
	}
	if (r >= 0)
		r = store_new(d->n_rings + 1, STORE_BYTES_MAX, &d->store);
	if (r >= 0)
		r = unwinder_new(proxy, on_stack, d, &d->unwinder);
	if (r < 0) {
		drain_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

static void close_rings(struct drain *d)
{
	for (unsigned i = 0; i < d->n_rings; i++)
		ring_close(d->rings[i]);
	d->n_rings = 0;
}

struct drain *drain_free(struct drain *d)
{
	if (!d)
		return NULL;
	close_rings(d);
	if (d->counters)
		munmap((void *)d->counters, RECORD_MAX_CPUS * sizeof(*d->counters));
	unwinder_free(d->unwinder);
	store_free(d->store);
	free(d);
	return NULL;
}

void drain_set_target(struct drain *d, unsigned target, pid_t pid)
{
	unwinder_set_target(d->unwinder, target, pid);
}

void drain_begin(struct drain *d)
{
	d->begun = true;
}

/* One ring while it is read. */
struct stream {
	struct drain *drain;
	unsigned index;
};

static int on_ring(const void *record, size_t size, void *data)
{
	struct stream *stream = data;
	struct drain *d = stream->drain;
	const struct record *head = record;
	bool is_copy = size >= sizeof(*head) && head->kind == RECORD_STACK_COPY;

	if (is_copy || (size >= sizeof(*head) && head->kind == RECORD_STACK)) {
		if (!unwinder_add(d->unwinder, record, size))
			d->malformed++;
		else
			d->copies += is_copy;
	} else {
		keep(d, stream->index, record, size);
	}
	return 0;
}

static void note_loss(struct drain *d, uint64_t from, uint64_t to, uint64_t n)
{
	if (sinks_loss(d->sinks, from, to, n) < 0)
		d->error = -ENOMEM;
}

static int pass_on(const struct record *record, void *data)
{
	struct drain *d = data;

	if (record->time < d->last_ns) {
		d->late++;
		note_loss(d, record->time, d->last_ns, 0);
	}
	d->last_ns = MAX(d->last_ns, record->time);
	return sinks_record(d->sinks, record);
}

/* Whether anything was lost since the counters were last read, and when. */
static void check_for_loss(struct drain *d)
{
	uint64_t before = loop_now(), lost = d->refused + d->malformed;

	for (unsigned i = 0; i < RECORD_MAX_CPUS; i++)
		lost += d->counters[i].ring_full;
	/* The rings can also fill up while they are read. */
	if (lost > d->n_lost && d->begun)
		note_loss(d, d->drained_ns, loop_now(), lost - d->n_lost);
	d->n_lost = lost;
	d->drained_ns = before;
}

int drain_read(struct drain *d)
{
	uint64_t now = loop_now();
	bool whole = true;
	int r;

	for (unsigned i = 0; i < d->n_rings; i++) {
		struct stream stream = { .drain = d, .index = i };

		whole &= ring_consume(d->rings[i], on_ring, &stream) == 0;
	}
	unwinder_work(d->unwinder);
	check_for_loss(d);
	/* A ring that waits for an incomplete record holds back later ones, and those that must be
	 * ordered with them. */
	if (whole) {
		uint64_t settled = MIN(now - MIN(now, REORDER_NS), unwinder_oldest(d->unwinder));

		r = store_take(d->store, settled, pass_on, d);
		if (r < 0)
			d->error = r;
		d->settled_ns = settled;
	}
	return d->error;
}

bool drain_is_empty(const struct drain *d)
{
	bool empty = true;

	for (unsigned i = 0; i < d->n_rings; i++)
		empty &= ring_is_empty(d->rings[i]);
	return empty && !drain_is_waiting(d);
}

bool drain_is_waiting(const struct drain *d)
{
	return unwinder_oldest(d->unwinder) != UINT64_MAX;
}

void drain_count_stacks(const struct drain *d, struct unwinder_counts *ret)
{
	*ret = d->stacks;
	if (d->unwinder)
		unwinder_count(d->unwinder, ret);
}

int drain_finish(struct drain *d)
{
	int r;

	d->finished = true;
	for (unsigned i = 0; i < d->n_rings; i++)
		if (!ring_is_empty(d->rings[i]))
			note_loss(d, d->last_ns, UINT64_MAX, 0);
	unwinder_finish(d->unwinder);
	drain_count_stacks(d, &d->stacks);
	r = store_take(d->store, UINT64_MAX, pass_on, d);
	if (r < 0)
		d->error = r;
	/* The following steps need memory, too. */
	close_rings(d);
	d->unwinder = unwinder_free(d->unwinder);
	d->store = store_free(d->store);
	return d->error;
}

uint64_t drain_settled_ns(const struct drain *d)
{
	return d->settled_ns;
}

void drain_count(const struct drain *d, struct drain_counts *ret)
{
	uint64_t submitted = 0, seen = d->records + d->refused + d->malformed + d->copies;

	*ret = (struct drain_counts){ .records = d->records,
				      .refused = d->refused,
				      .malformed = d->malformed,
				      .late = d->late };
	for (unsigned i = 0; i < RECORD_MAX_CPUS; i++) {
		submitted += d->counters[i].records;
		ret->ring_full += d->counters[i].ring_full;
		ret->table_full += d->counters[i].table_full;
		ret->read_failed += d->counters[i].read_failed;
		ret->flows_full += d->counters[i].flows_full;
	}
	if (d->finished && submitted > seen)
		ret->unread = submitted - seen;
	ret->dropped = ret->ring_full + ret->refused + ret->malformed + ret->unread;
}
