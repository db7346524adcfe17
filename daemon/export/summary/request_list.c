/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/summary/request_list.h"

#include <errno.h>
#include <string.h>

#include "daemon/export/summary/hot_functions.h"
#include "daemon/export/summary/members.h"
#include "daemon/export/summary/request_hops.h"
#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define MESSAGE_BYTES (1u << 20)
/* Tags of CaptureReply's fields: number and wire type 2. */
#define TAG_REQUESTS (10 << 3 | 2)
#define TAG_SLOWEST (11 << 3 | 2)
#define HEAD_MAX 6
/* The share of the latency below which pieces are merged: so small that longer ones are at most
 * half of the limit. */
#define FOLD_SHARE (REQUEST_SEGMENTS_MAX / 2)
#define SEGMENTS_ROOM (REQUEST_SEGMENTS_MAX + 1)
#define THREADS_ROOM (3 + REQUEST_RUNS_MAX + 2 * SEGMENTS_ROOM + 2)
#define NAMES_ROOM (SEGMENTS_ROOM + 1)

/* The protocol has the timeline's numbers (of phases: lib/proto/phase.c). */
#define SAME(theirs, own) _Static_assert((int)TFPROFD__##theirs == (int)(own), "")
SAME(ACTIVITY__ACTIVITY_THROTTLED, ACTIVITY_THROTTLED);
SAME(ATTRIBUTION__ATTRIBUTION_INFERRED, ATTRIBUTION_INFERRED);
SAME(PROTOCOL__PROTOCOL_HANDLER, PROTOCOL_HANDLER);

/* A piece of a critical path, or several. */
struct piece {
	struct segment segment;
	uint32_t pieces;
};

struct builder {
	const struct timeline *t;
	struct members runs, tasks, samples;
	struct piece *pieces; /* as many as the longest critical path has */
	/* References of the request at hand, by index + 1; zeros: none yet. */
	uint32_t *thread_slots, *name_slots;
	uint32_t *used_threads, *used_names;
	Tfprofd__RequestThread *threads;
	Tfprofd__RequestRun *run_messages;
	Tfprofd__RequestBatch *batches;
	Tfprofd__RequestSegment *segments;
	Tfprofd__RequestThread **thread_list;
	Tfprofd__RequestRun **run_list;
	Tfprofd__RequestBatch **batch_list;
	Tfprofd__RequestSegment **segment_list;
	char **names;
	Tfprofd__RequestQuota quotas[TIMELINE_QUOTAS_MAX], *quota_list[TIMELINE_QUOTAS_MAX];
	Tfprofd__RequestCause cause;
	struct request_hops hops;
	Tfprofd__HotFunction hot[HOT_FUNCTIONS_MAX], *hot_list[HOT_FUNCTIONS_MAX];
	Tfprofd__Request request;
	uint8_t *message; /* the message that is being filled */
	size_t message_size, message_room;
	uint64_t bytes; /* of all */
	struct request_list *list;
};

static void builder_done(struct builder *b)
{
	void *const memory[] = { b->pieces,       b->thread_slots, b->name_slots,   b->used_threads,
				 b->used_names,   b->threads,      b->run_messages, b->batches,
				 b->segments,     b->thread_list,  b->run_list,     b->batch_list,
				 b->segment_list, b->names,        b->message };

	members_done(&b->runs);
	members_done(&b->tasks);
	members_done(&b->samples);
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		free(memory[i]);
}

static uint32_t owner_of_span(const struct timeline *t, uint64_t item)
{
	return t->spans[item].kind == SPAN_RUN ? t->spans[item].request : 0;
}

static uint32_t owner_of_task(const struct timeline *t, uint64_t item)
{
	return t->batch_tasks[item].request;
}

static uint32_t owner_of_sample(const struct timeline *t, uint64_t item)
{
	return t->stacks.samples[item].request;
}

static int builder_init(struct builder *b, const struct timeline *t, struct request_list *list)
{
	uint64_t longest = 0;
	int r;

	*b = (struct builder){ .t = t, .list = list };
	for (uint32_t i = 0; i < t->n_requests; i++)
		longest = MAX(longest, t->requests[i].n_segments);
	b->pieces = malloc((longest + 1) * sizeof(*b->pieces));
	b->thread_slots = calloc((size_t)t->n_threads + 1, sizeof(*b->thread_slots));
	b->name_slots = calloc((size_t)t->n_names + 1, sizeof(*b->name_slots));
	b->used_threads = malloc(THREADS_ROOM * sizeof(*b->used_threads));
	b->used_names = malloc(NAMES_ROOM * sizeof(*b->used_names));
	b->threads = malloc(THREADS_ROOM * sizeof(*b->threads));
	b->thread_list = malloc(THREADS_ROOM * sizeof(*b->thread_list));
	b->names = malloc(NAMES_ROOM * sizeof(*b->names));
	b->run_messages = malloc(REQUEST_RUNS_MAX * sizeof(*b->run_messages));
	b->run_list = malloc(REQUEST_RUNS_MAX * sizeof(*b->run_list));
	b->batches = malloc(REQUEST_RUNS_MAX * sizeof(*b->batches));
	b->batch_list = malloc(REQUEST_RUNS_MAX * sizeof(*b->batch_list));
	b->segments = malloc(SEGMENTS_ROOM * sizeof(*b->segments));
	b->segment_list = malloc(SEGMENTS_ROOM * sizeof(*b->segment_list));
	if (!b->pieces || !b->thread_slots || !b->name_slots || !b->used_threads ||
	    !b->used_names || !b->threads || !b->thread_list || !b->names || !b->run_messages ||
	    !b->run_list || !b->batches || !b->batch_list || !b->segments || !b->segment_list)
		return -ENOMEM;
	r = members_make(t, t->n_spans, owner_of_span, &b->runs);
	if (r >= 0)
		r = members_make(t, t->n_batch_tasks, owner_of_task, &b->tasks);
	return r < 0 ? r : members_make(t, t->stacks.n_samples, owner_of_sample, &b->samples);
}

/* Index + 1 of a thread in the request's list of threads. */
static uint32_t reference_thread(struct builder *b, uint32_t thread)
{
	Tfprofd__Request *m = &b->request;
	Tfprofd__RequestThread *shown;

	if (thread >= b->t->n_threads)
		return 0;
	if (b->thread_slots[thread])
		return b->thread_slots[thread];
	shown = &b->threads[m->n_threads];
	*shown = (Tfprofd__RequestThread)TFPROFD__REQUEST_THREAD__INIT;
	shown->tid = b->t->threads[thread].tid;
	shown->name = b->t->threads[thread].name;
	b->thread_list[m->n_threads] = shown;
	b->used_threads[m->n_threads++] = thread;
	return b->thread_slots[thread] = (uint32_t)m->n_threads;
}

static uint32_t reference_name(struct builder *b, uint32_t name)
{
	Tfprofd__Request *m = &b->request;

	if (name >= b->t->n_names)
		return 0;
	if (b->name_slots[name])
		return b->name_slots[name];
	b->names[m->n_names] = b->t->names[name].name;
	b->used_names[m->n_names++] = name;
	return b->name_slots[name] = (uint32_t)m->n_names;
}

/* Those whose cgroups the request names. */
static void fill_quotas(struct builder *b)
{
	for (uint32_t i = 0; i < b->t->n_quotas; i++) {
		const struct quota *quota = &b->t->quotas[i];
		Tfprofd__RequestQuota *shown = &b->quotas[i];

		*shown = (Tfprofd__RequestQuota)TFPROFD__REQUEST_QUOTA__INIT;
		shown->name = quota->name < b->t->n_names ? b->name_slots[quota->name] : 0;
		shown->quota_ns = quota->quota_ns;
		shown->period_ns = quota->period_ns;
		if (shown->name)
			b->quota_list[b->request.n_quotas++] = shown;
	}
	b->request.quotas = b->quota_list;
}

static void forget_names(struct builder *b)
{
	for (size_t i = 0; i < b->request.n_threads; i++)
		b->thread_slots[b->used_threads[i]] = 0;
	for (size_t i = 0; i < b->request.n_names; i++)
		b->name_slots[b->used_names[i]] = 0;
}

static int compare_kinds(const struct segment *a, const struct segment *b)
{
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	if (a->activity != b->activity)
		return a->activity < b->activity ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return a->by < b->by ? -1 : a->by > b->by;
}

static int compare_pieces(const void *a, const void *b)
{
	return compare_kinds(&((const struct piece *)a)->segment,
			     &((const struct piece *)b)->segment);
}

static uint64_t length_of(const struct segment *s)
{
	return s->end_ns - s->start_ns;
}

/* What most of the longest phase was spent on. The pieces are used as memory. */
static void fill_cause(struct builder *b, const struct request *r)
{
	const struct segment *segments = b->t->segments + r->first_segment, *best = NULL;
	Tfprofd__RequestCause *cause = &b->cause;
	uint64_t n = 0, sum = 0, most = 0;
	unsigned phase = 0;

	for (unsigned i = 1; i < PHASE_COUNT; i++)
		if (r->phases[i] > r->phases[phase])
			phase = i;
	if (!r->phases[phase])
		return;
	for (uint64_t i = 0; i < r->n_segments; i++)
		if (segments[i].phase == phase)
			b->pieces[n++].segment = segments[i];
	qsort(b->pieces, n, sizeof(b->pieces[0]), compare_pieces);
	for (uint64_t i = 0; i < n; i++) {
		sum = i && !compare_pieces(&b->pieces[i - 1], &b->pieces[i]) ? sum : 0;
		sum += length_of(&b->pieces[i].segment);
		if (sum > most) {
			most = sum;
			best = &b->pieces[i].segment;
		}
	}
	*cause = (Tfprofd__RequestCause)TFPROFD__REQUEST_CAUSE__INIT;
	cause->phase = (Tfprofd__Phase)phase;
	cause->phase_ns = r->phases[phase];
	if (best) {
		cause->activity = (Tfprofd__Activity)best->activity;
		cause->thread = reference_thread(b, best->thread);
		cause->name = reference_name(b, best->name);
		cause->by = best->by < 0 ? 0 : reference_thread(b, (uint32_t)best->by);
		cause->cause_ns = most;
	}
	b->request.cause = cause;
}

/* Merges equal consecutive pieces. */
static uint64_t merge_equal(struct builder *b, const struct request *r)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < r->n_segments; i++) {
		const struct segment *s = &b->t->segments[r->first_segment + i];
		struct piece *last = n ? &b->pieces[n - 1] : NULL;

		if (s->end_ns == s->start_ns)
			continue;
		if (last && last->segment.end_ns == s->start_ns &&
		    !compare_kinds(&last->segment, s))
			last->segment.end_ns = s->end_ns;
		else
			b->pieces[n++] = (struct piece){ *s, 1 };
	}
	return n;
}

/* Merges short consecutive pieces: there is room for all others. */
static uint64_t fold_short(struct builder *b, const struct request *r, uint64_t n)
{
	uint64_t shortest = (r->end_ns - r->start_ns) / FOLD_SHARE, kept = 0;
	bool was_short = false;

	for (uint64_t i = 0; i < n; i++) {
		bool is_short = length_of(&b->pieces[i].segment) <= shortest;

		if (is_short && was_short) {
			b->pieces[kept - 1].segment.end_ns = b->pieces[i].segment.end_ns;
			b->pieces[kept - 1].pieces++;
		} else {
			b->pieces[kept++] = b->pieces[i];
		}
		was_short = is_short;
	}
	return kept;
}

static void fill_path(struct builder *b, const struct request *r)
{
	uint64_t n = merge_equal(b, r);

	if (n > REQUEST_SEGMENTS_MAX)
		n = fold_short(b, r, n);
	for (uint64_t i = 0; i < MIN(n, (uint64_t)SEGMENTS_ROOM); i++) {
		const struct segment *s = &b->pieces[i].segment;
		Tfprofd__RequestSegment *shown = b->segment_list[i] = &b->segments[i];

		*shown = (Tfprofd__RequestSegment)TFPROFD__REQUEST_SEGMENT__INIT;
		shown->start_ns = s->start_ns;
		shown->end_ns = s->end_ns;
		b->request.n_critical_path++;
		if (b->pieces[i].pieces > 1) {
			shown->phase = TFPROFD__PHASE__PHASE_UNKNOWN;
			shown->pieces = b->pieces[i].pieces;
			continue;
		}
		shown->phase = (Tfprofd__Phase)s->phase;
		shown->activity = (Tfprofd__Activity)s->activity;
		shown->thread = reference_thread(b, s->thread);
		shown->name = reference_name(b, s->name);
		shown->by = s->by < 0 ? 0 : reference_thread(b, (uint32_t)s->by);
	}
	b->request.critical_path = b->segment_list;
}

static int compare_runs(const void *a, const void *b)
{
	const Tfprofd__RequestRun *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* After filling, the start of a request's items is that of the next request's. */
static void fill_runs(struct builder *b, uint32_t index)
{
	uint64_t first = b->runs.first[index], n = b->runs.first[index + 1] - first,
		 shown = MIN(n, (uint64_t)REQUEST_RUNS_MAX);

	for (uint64_t i = 0; i < shown; i++) {
		const struct span *span = &b->t->spans[b->runs.items[first + i]];
		Tfprofd__RequestRun *run = b->run_list[i] = &b->run_messages[i];

		*run = (Tfprofd__RequestRun)TFPROFD__REQUEST_RUN__INIT;
		run->start_ns = span->start_ns;
		run->end_ns = span->end_ns;
		run->thread = reference_thread(b, span->thread);
		run->id = span->step;
		run->not_whole = span->flags & SPAN_NOT_WHOLE;
	}
	qsort(b->run_messages, shown, sizeof(b->run_messages[0]), compare_runs);
	b->request.runs = b->run_list;
	b->request.n_runs = shown;
	b->request.runs_left_out = n - shown;
}

static void fill_batches(struct builder *b, uint32_t index)
{
	uint64_t first = b->tasks.first[index], n = b->tasks.first[index + 1] - first,
		 shown = MIN(n, (uint64_t)REQUEST_RUNS_MAX);

	for (uint64_t i = 0; i < shown; i++) {
		const struct batch_task *task = &b->t->batch_tasks[b->tasks.items[first + i]];
		Tfprofd__RequestBatch *m = b->batch_list[i] = &b->batches[i];

		*m = (Tfprofd__RequestBatch)TFPROFD__REQUEST_BATCH__INIT;
		m->queued_ns = task->queued_ns;
		if (task->batch >= b->t->n_batches)
			continue;
		m->number = task->batch + 1;
		m->start_ns = b->t->batches[task->batch].start_ns;
		m->end_ns = b->t->batches[task->batch].end_ns;
		m->tasks = (uint32_t)b->t->batches[task->batch].n_tasks;
		m->rows = b->t->batches[task->batch].size;
		m->padded_rows = b->t->batches[task->batch].padded;
	}
	b->request.batches = b->batch_list;
	b->request.n_batches = shown;
	b->request.batches_left_out = n - shown;
}

static void fill_hot(struct builder *b, uint32_t index)
{
	uint64_t first = b->samples.first[index], n = b->samples.first[index + 1] - first;
	struct hot_function hot[HOT_FUNCTIONS_MAX];

	b->request.samples = n;
	b->request.n_hot = hot_functions_of(&b->t->stacks, b->samples.items + first, n, hot);
	b->request.hot = b->hot_list;
	for (size_t i = 0; i < b->request.n_hot; i++) {
		Tfprofd__HotFunction *m = b->hot_list[i] = &b->hot[i];

		*m = (Tfprofd__HotFunction)TFPROFD__HOT_FUNCTION__INIT;
		m->name = hot[i].name;
		m->file = hot[i].file;
		m->self = hot[i].self;
		m->total = hot[i].total;
	}
}

static char *text_of(const struct builder *b, uint32_t text)
{
	return text < b->t->n_texts ? b->t->texts[text] : (char *)"";
}

static void fill_request(struct builder *b, uint32_t index)
{
	const struct request *r = &b->t->requests[index];
	Tfprofd__Request *m = &b->request;

	*m = (Tfprofd__Request)TFPROFD__REQUEST__INIT;
	m->number = index + 1ull;
	m->start_unix_ns = b->t->start_unix_ns + (r->start_ns - b->t->start_ns);
	m->start_ns = r->start_ns;
	m->read_start_ns = r->read_start_ns;
	m->read_end_ns = r->read_end_ns;
	m->write_start_ns = r->write_start_ns;
	m->end_ns = r->end_ns;
	m->phases = (uint64_t *)r->phases;
	m->n_phases = PHASE_COUNT;
	m->pid = timeline_pid(b->t, r->process);
	m->protocol = (Tfprofd__Protocol)r->protocol;
	m->connection = r->connection;
	m->stream = r->stream;
	m->local_port = r->local_port;
	m->peer_port = r->peer_port;
	m->bytes_in = r->bytes_in;
	m->bytes_out = r->bytes_out;
	m->method = text_of(b, r->method);
	m->path = text_of(b, r->path);
	m->model = text_of(b, r->model);
	m->version = text_of(b, r->version);
	m->status = (uint32_t)(r->status + 1);
	m->grpc_status = (uint32_t)(r->grpc_status + 1);
	m->held_reason = (Tfprofd__HeldReason)r->held_reason;
	m->held_bytes = r->held_bytes;
	m->id = r->id;
	m->attribution = (Tfprofd__Attribution)r->attribution;
	m->cut_start = r->flags & REQUEST_TRUNCATED_START;
	m->cut_end = r->flags & REQUEST_TRUNCATED_END;
	m->lost = r->flags & REQUEST_LOST;
	m->reset = r->flags & REQUEST_RESET;
	m->no_arrival = r->flags & REQUEST_NO_ARRIVAL;
	m->at_library = r->flags & REQUEST_AT_LIBRARY;
	m->streaming = r->flags & REQUEST_STREAMING;
	m->unaccepted = r->flags & REQUEST_UNACCEPTED;
	m->accepted_ns = r->accepted_ns;
	m->threads = b->thread_list;
	m->names = b->names;
	m->read_thread = reference_thread(b, r->read_thread);
	m->run_thread = reference_thread(b, r->run_thread);
	m->write_thread = reference_thread(b, r->write_thread);
	fill_cause(b, r);
	fill_path(b, r);
	fill_runs(b, index);
	fill_batches(b, index);
	request_hops_fill(&b->hops, b->t, r, m);
	fill_quotas(b);
	fill_hot(b, index);
	forget_names(b);
}

/* Adds the filled message to the list. */
static int end_message(struct builder *b)
{
	struct request_list *list = b->list;

	if (!b->message_size)
		return 0;
	if (array_reserve(&list->messages, list->n_messages, &list->messages_allocated,
			  sizeof(list->messages[0]), 1) < 0)
		return -ENOMEM;
	list->messages[list->n_messages++] =
		(struct request_message){ TAKE_PTR(b->message), b->message_size };
	b->message_size = b->message_room = 0;
	return 0;
}

static int make_room(struct builder *b, size_t size)
{
	int r = b->message_size && b->message_size + size > MESSAGE_BYTES ? end_message(b) : 0;
	size_t room = MAX((size_t)MESSAGE_BYTES, size);

	if (r < 0 || b->message)
		return r;
	b->message = malloc(room);
	if (!b->message)
		return -ENOMEM;
	b->message_room = room;
	return 0;
}

/* 1: there is no room for it. */
static int add_request(struct builder *b, uint32_t index, uint8_t tag, uint64_t max_bytes)
{
	size_t size, left;
	int r;

	fill_request(b, index);
	size = tfprofd__request__get_packed_size(&b->request);
	if (b->bytes + size + HEAD_MAX > max_bytes)
		return 1;
	r = make_room(b, size + HEAD_MAX);
	if (r < 0)
		return r;
	b->bytes += size + HEAD_MAX;
	b->message[b->message_size++] = tag;
	for (left = size; left >= 0x80; left >>= 7)
		b->message[b->message_size++] = (uint8_t)(left | 0x80);
	b->message[b->message_size++] = (uint8_t)left;
	b->message_size += tfprofd__request__pack(&b->request, b->message + b->message_size);
	return 0;
}

struct ranked {
	uint64_t latency_ns;
	uint32_t index;
};

/* The slowest first; of equal ones the earlier first. */
static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->latency_ns != y->latency_ns)
		return x->latency_ns > y->latency_ns ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int add_slowest(struct builder *b, unsigned count, uint64_t max_bytes)
{
	_cleanup_free_ struct ranked *ranked =
		malloc(((size_t)b->t->n_requests + 1) * sizeof(*ranked));
	uint64_t n = 0;
	int r = 0;

	if (!ranked)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->t->n_requests; i++)
		if (!(b->t->requests[i].flags & REQUEST_NOT_WHOLE))
			ranked[n++] = (struct ranked){
				b->t->requests[i].end_ns - b->t->requests[i].start_ns, i
			};
	qsort(ranked, n, sizeof(*ranked), compare_ranked);
	n = MIN(n, (uint64_t)MIN(count, (unsigned)REQUEST_SLOWEST_MAX));
	for (uint64_t i = 0; i < n && r >= 0; i++) {
		r = add_request(b, ranked[i].index, TAG_SLOWEST, max_bytes);
		b->list->n_left_out += r > 0;
	}
	return r < 0 ? r : 0;
}

static int add_all(struct builder *b, uint64_t max_requests, uint64_t max_bytes)
{
	uint64_t n = 0;
	int r = 0;

	for (uint32_t i = 0; i < b->t->n_requests && r >= 0; i++) {
		if (b->t->requests[i].flags & REQUEST_FILTERED)
			continue;
		/* After the first request for which there is no room, all others are left out: a
		 * list with holes is misleading. */
		if (r == 0)
			r = n++ < max_requests ? add_request(b, i, TAG_REQUESTS, max_bytes) : 1;
		b->list->n_left_out += r > 0;
	}
	return r < 0 ? r : 0;
}

int request_list_make(const struct timeline *t, const struct request_list_options *options,
		      struct request_list *ret)
{
	uint64_t max_bytes = options->max_bytes ?: REQUEST_LIST_BYTES_MAX;
	_cleanup_(request_list_done) struct request_list list = {};
	_cleanup_(builder_done) struct builder b = {};
	int r = 0;

	if (!t->n_requests || (!options->all && !options->slowest)) {
		*ret = list;
		return 0;
	}
	r = builder_init(&b, t, &list);
	/* The slowest first, since there may be too many of all requests. */
	if (r >= 0)
		r = add_slowest(&b, options->slowest, max_bytes);
	if (r >= 0 && options->all)
		r = add_all(&b, options->max_requests ?: REQUEST_LIST_MAX, max_bytes);
	if (r >= 0)
		r = end_message(&b);
	if (r < 0)
		return r;
	*ret = list;
	list = (struct request_list){}; /* now the caller's */
	return 0;
}

void request_list_done(struct request_list *list)
{
	for (size_t i = 0; i < list->n_messages; i++)
		free(list->messages[i].bytes);
	free(list->messages);
	*list = (struct request_list){};
}
