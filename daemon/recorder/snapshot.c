/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/snapshot.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/result.h"
#include "lib/base/macro.h"

struct snapshot {
	struct snapshot *next;
	struct snapshot_request request;
	struct loop *loop;
	const char *hostname;
	struct journal_budget *budget;
	char *path, *model; /* of the filter */
	uint64_t asked_ns;
	struct flight_view *view;
	struct snapshot_facts facts;
	struct capture_result result;
	pthread_t thread;
	bool has_thread;
	void (*over)(void *data);
	void *data;
};

int snapshot_new(const struct snapshot_request *request, struct loop *loop, const char *hostname,
		 struct journal_budget *budget, struct snapshot **ret)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct request_filter *filter;

	if (!s)
		return -ENOMEM;
	*s = (struct snapshot){ .request = *request,
				.loop = loop,
				.hostname = hostname,
				.budget = budget,
				.asked_ns = loop_now() };
	filter = &s->request.filter;
	s->path = filter->path ? strdup(filter->path) : NULL;
	s->model = filter->model ? strdup(filter->model) : NULL;
	if ((filter->path && !s->path) || (filter->model && !s->model)) {
		snapshot_free(s);
		return -ENOMEM;
	}
	filter->path = s->path;
	filter->model = s->model;
	s->result.filter = *filter;
	*ret = s;
	return 0;
}

struct snapshot *snapshot_free(struct snapshot *s)
{
	if (!s)
		return NULL;
	flight_view_free(s->view);
	result_done(&s->result);
	free(s->path);
	free(s->model);
	free(s);
	return NULL;
}

uint64_t snapshot_asked_ns(const struct snapshot *s)
{
	return s->asked_ns;
}

const struct authority_peer *snapshot_who(const struct snapshot *s)
{
	return &s->request.who;
}

void snapshots_add(struct snapshot **list, struct snapshot *s)
{
	while (*list)
		list = &(*list)->next;
	*list = s;
}

struct snapshot *snapshots_take(struct snapshot **list)
{
	struct snapshot *s = *list;

	if (s)
		*list = s->next;
	return s;
}

void snapshot_warn(struct snapshot *s, const char *text, bool restates)
{
	(restates ? result_restate : result_warn)(&s->result, "%s", text);
}

static void on_done(void *data)
{
	struct snapshot *s = data;

	if (s->has_thread)
		pthread_join(s->thread, NULL);
	s->request.done(&s->result, s->request.data);
	s->over(s->data);
	snapshot_free(s);
}

static void post_done(struct snapshot *s)
{
	loop_post_surely(s->loop, on_done, s);
}

/* Only what was shed within the window is reported. */
static void report_sheds(struct snapshot *s, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < s->facts.n_shed; i++) {
		struct capture_shed shed = s->facts.shed[i];
		const char *name = probe_kind_name(shed.kind);

		if (shed.at_ns > to)
			continue;
		/* The session has a warning for it. */
		if (shed.refused)
			;
		else if (shed.at_ns <= from)
			result_restate(
				&s->result,
				"%s had been disabled before: the probes cost %.1f %% of the CPU time; the recorder's budget is %.4g %%.",
				name, shed.overhead, s->facts.max_overhead);
		else
			result_restate(
				&s->result,
				"%.3f s after the window began, %s were disabled: the probes cost %.1f %% of the CPU time; the recorder's "
				"budget is %.4g %%.",
				(double)(shed.at_ns - from) / 1e9, name, shed.overhead,
				s->facts.max_overhead);
		shed.at_ns -= MIN(shed.at_ns, from);
		s->result.shed[s->result.n_shed++] = shed;
	}
}

/* What was lost in the window, by cause as far as known; for full tables the time of a loss is
 * unknown. */
static struct drain_counts counts_of(const struct drain_counts *all,
				     const struct flight_facts *kept)
{
	uint64_t ring_full = MIN(kept->dropped, all->ring_full);

	return (struct drain_counts){ .records = kept->records,
				      .dropped = kept->dropped,
				      .ring_full = ring_full,
				      .refused = kept->dropped - ring_full,
				      .late = all->late,
				      .skipped = all->skipped,
				      .table_full = all->table_full,
				      .read_failed = all->read_failed,
				      .flows_full = all->flows_full };
}

/* What is known before the records are read; the result gets its warnings. */
static void describe(struct snapshot *s, uint64_t from, uint64_t to)
{
	if (s->request.last_ns && to - from < s->request.last_ns) {
		result_warn(
			&s->result,
			"The last %.3f s were requested, but the recorder holds %.3f s: recorder-last or recorder-memory is too small, or it has "
			"not run that long.",
			(double)s->request.last_ns / 1e9, (double)(to - from) / 1e9);
		s->result.cut = true;
	}
	if (s->asked_ns > to)
		result_warn(&s->result, "Nothing was recorded in the last %.3f s: %s.",
			    (double)(s->asked_ns - to) / 1e9,
			    s->facts.has_failed
				    ? "the recorder was restarted; the daemon's log has the reason"
				    : "every process had ended");
	if (s->facts.n_refused)
		result_warn(&s->result,
			    "%u processes could not be recorded: the daemon's log has the reason.",
			    s->facts.n_refused);
	result_warn_of_steps(&s->result, &s->facts.clock, from, to);
	report_sheds(s, from, to);
	s->result.overhead = s->facts.overhead;
	s->result.max_overhead = s->facts.max_overhead;
}

static void note_kept(struct snapshot *s, const struct flight_facts *kept,
		      struct result_facts *facts)
{
	if (kept->lead_in_is_incomplete)
		result_warn(
			&s->result,
			"Names of operations and paths of requests may be missing: the recorder did not have enough memory for all of them.");
	facts->counts = counts_of(&s->facts.counts, kept);
}

/* The note follows the head of the recording. */
struct noting {
	struct record_sink sink;
	struct snapshot *snapshot;
	const struct result_facts *facts;
};

static int on_begin(uint64_t start_ns, void *data)
{
	const struct noting *n = data;

	recording_add_note(n->snapshot->result.recording, &n->snapshot->request.keeping.note,
			   n->facts->start_unix_ns, n->facts->stop_ns - n->facts->start_ns);
	return 0;
}

static int record(struct snapshot *s, struct result_facts *facts)
{
	struct recording *recording = calloc(1, sizeof(*recording));
	struct noting noting = { .snapshot = s, .facts = facts };
	struct record_sinks sinks = {};
	struct flight_facts kept;
	int r = recording ? journal_new(s->budget, &s->result.recording) : -ENOMEM;

	noting.sink = (struct record_sink){ .begin = on_begin, .data = &noting };
	if (r >= 0) {
		sinks_add(&sinks,
			  recording_init(recording, s->result.recording, &s->request.filter));
		sinks_add(&sinks, &noting.sink);
		r = flight_view_read(s->view, facts->start_ns, facts->stop_ns, &sinks, &kept);
	}
	free(recording);
	if (r < 0)
		return r;
	note_kept(s, &kept, facts);
	s->result.window_ns = facts->stop_ns - facts->start_ns;
	r = recording_end(s->result.recording, facts, &s->result);
	return r < 0 ? r : journal_finish(s->result.recording);
}

/* The recorder goes on meanwhile; the budget is its own, and may end with it. */
static int keep(struct snapshot *s, struct result_facts *facts)
{
	int r = record(s, facts);

	s->view = flight_view_free(s->view);
	if (r >= 0) {
		r = s->request.keeping.keep(&s->result, s->facts.capture, s->request.data);
		s->result.error = r;
	}
	s->result.recording = journal_free(s->result.recording);
	return s->result.error ? 0 : r;
}

static int correlate(struct snapshot *s, struct result_facts *facts)
{
	struct flight_facts kept;
	struct timeline *timeline;
	int r = flight_view_correlate(s->view, facts->start_ns, facts->stop_ns,
				      facts->start_unix_ns, &s->request.filter, &kept, &timeline);

	if (r < 0)
		return r;
	note_kept(s, &kept, facts);
	r = result_make(timeline, facts, &s->result);
	timeline_free(timeline);
	return r;
}

static int make(struct snapshot *s)
{
	uint64_t to = s->facts.until_ns,
		 from = MAX(s->facts.since_ns,
			    s->request.last_ns ? to - MIN(to, s->request.last_ns) : 0);
	struct result_facts facts = { .start_ns = from,
				      .stop_ns = to,
				      .start_unix_ns =
					      from + clock_steps_offset_at(&s->facts.clock, from),
				      .detail = s->facts.detail,
				      .hostname = s->hostname,
				      .n_left_out = s->facts.n_left_out,
				      .requests = s->request.requests,
				      .extras = s->request.extras };

	if (s->request.keeping.keep)
		result_warn(&s->result, "Kept by the trigger %s: %s.",
			    s->request.keeping.note.trigger, s->request.keeping.note.reason);
	describe(s, from, to);
	return s->request.keeping.keep ? keep(s, &facts) : correlate(s, &facts);
}

static void note_error(struct snapshot *s, int error, const char *text)
{
	s->result.error = error;
	snprintf(s->result.text, sizeof(s->result.text), "%s", text);
}

static void *snapshot_thread(void *data)
{
	struct snapshot *s = data;
	int r = make(s);

	if (r == -EFBIG)
		note_error(
			s, r,
			"the trace would exceed 2 GiB, which no client accepts: use a shorter --last");
	else if (r < 0)
		note_error(s, r, strerror(-r));
	s->view = flight_view_free(s->view);
	malloc_trim(0);
	post_done(s);
	return NULL;
}

void snapshot_begin(struct snapshot *s, struct flight_view *view,
		    const struct snapshot_facts *facts, void (*over)(void *data), void *data)
{
	s->view = view;
	s->facts = *facts;
	s->over = over;
	s->data = data;
	s->has_thread = true;
	if (pthread_create(&s->thread, NULL, snapshot_thread, s) == 0)
		return;
	s->has_thread = false;
	note_error(s, -EAGAIN, "no thread could be created for it");
	post_done(s);
}

void snapshot_fail(struct snapshot *s, int error, const char *text, void (*over)(void *data),
		   void *data)
{
	s->over = over;
	s->data = data;
	note_error(s, error, text);
	post_done(s);
}
