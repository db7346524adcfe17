/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/recorded_rows.h"
#include "daemon/capture/symbols.h"
#include "daemon/correlate/correlate.h"
#include "daemon/record/journal.h"
#include "lib/base/macro.h"
#include "proto/recording.pb-c.h"

struct replaying {
	struct journal_reader reader;
	struct replay *replay;
	Tfprofd__RecordingHead *head;
	Tfprofd__RecordingTarget *targets[RECORD_MAX_TARGETS];
	struct recorded_rows rows[RECORD_MAX_TARGETS]; /* by target */
	unsigned n_targets;
	struct correlator *correlator;
	bool has_result;
	struct journal_section symbols; /* .size 0: none */
	/* Buffer for a modified copy of one record. */
	uint8_t *record;
	size_t record_size;
};

static int unsupported(struct replaying *p, uint64_t offset, const char *what, const char *name)
{
	journal_bad(&p->reader, offset, "%s '%.80s', which this version of tfprofctl does not know",
		    what, name);
	return -EPROTONOSUPPORT;
}

static int set_filter_texts(struct replaying *p)
{
	struct replay *replay = p->replay;

	replay->path = strdup(p->head->path);
	replay->model = strdup(p->head->model);
	if (!replay->path || !replay->model)
		return -ENOMEM;
	replay->result.filter.path = *replay->path ? replay->path : NULL;
	replay->result.filter.model = *replay->model ? replay->model : NULL;
	return 0;
}

static int read_head(struct replaying *p, const struct journal_section *s)
{
	int r;

	if (p->head)
		return journal_bad(&p->reader, s->offset, "it begins twice");
	p->head = tfprofd__recording_head__unpack(NULL, s->size, s->bytes);
	if (!p->head)
		return journal_bad(&p->reader, s->offset, "its first section is malformed");
	p->replay->result.filter =
		(struct request_filter){ .slower_than_ns = p->head->slower_than_ns,
					 .count = p->head->count };
	r = set_filter_texts(p);
	if (r >= 0)
		r = correlator_new(p->head->start_ns, &p->correlator);
	if (r >= 0)
		correlator_set_filter(p->correlator, &p->replay->result.filter);
	return r;
}

/* Recordings of release 0.1 have the rows of all packs at their beginning. */
static int find_rows(struct replaying *p, const Tfprofd__RecordingTarget *m, uint64_t offset,
		     struct recorded_rows *ret)
{
	const Tfprofd__RecordingPack *pack =
		!m->n_rows && m->pack < p->head->n_packs ? p->head->packs[m->pack] : NULL;
	int r;

	if (!m->n_rows && !pack)
		return journal_bad(&p->reader, offset, "a process in it is malformed");
	r = pack ? recorded_rows_find(pack->probes, pack->n_probes, false, ret)
		 : recorded_rows_find(m->rows, m->n_rows, !*m->runtime, ret);
	return r == -ENOENT ? unsupported(p, offset, "a process in it has the runtime",
					  pack ? pack->name : m->runtime)
			    : r;
}

static int read_target(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingTarget *m = tfprofd__recording_target__unpack(NULL, s->size, s->bytes);
	struct correlate_target target = {};
	int r;

	if (!m || p->n_targets == RECORD_MAX_TARGETS) {
		if (m)
			tfprofd__recording_target__free_unpacked(m, NULL);
		return journal_bad(&p->reader, s->offset, "a process in it is malformed");
	}
	p->targets[p->n_targets] = m;
	r = find_rows(p, m, s->offset, &p->rows[p->n_targets++]);
	if (r < 0)
		return r;
	target = (struct correlate_target){ .pid = m->pid,
					    .parent = m->parent,
					    .own_pid = m->own_pid,
					    .is_child = m->is_child,
					    .packs = p->rows[p->n_targets - 1].set,
					    .since_ns = m->since_ns,
					    .ops_at_entry = m->ops_at_entry,
					    .has_handlers = m->has_handlers };
	snprintf(target.name, sizeof(target.name), "%s", m->name);
	return correlator_add_target(p->correlator, &target);
}

/* Which of the target's packs with named operations a recorded row belongs to; -1: none. */
static int find_named(const struct replaying *p, const Tfprofd__RecordingLayout *m)
{
	const struct recorded_rows *rows = m->target < p->n_targets ? &p->rows[m->target] : NULL;

	return rows && m->row < rows->n && rows->numbers[m->row] >= 0
		       ? pack_set_named(rows->set, (unsigned)rows->numbers[m->row])
		       : -1;
}

static int read_layout(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingLayout *m = tfprofd__recording_layout__unpack(NULL, s->size, s->bytes);
	int named = m ? find_named(p, m) : -1, r = 0;

	if (!m || m->target >= p->n_targets)
		r = journal_bad(&p->reader, s->offset, "a layout in it is malformed");
	else if (named >= 0)
		r = correlator_set_layout(p->correlator, m->target, (unsigned)named,
					  &(struct record_layout){ .name_offset = m->name_offset,
								   .type_offset = m->type_offset });
	if (m)
		tfprofd__recording_layout__free_unpacked(m, NULL);
	return r;
}

static bool find_kind(const char *name, enum probe_kind *ret)
{
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++)
		if (!strcmp(name, probe_kind_name(kind))) {
			*ret = kind;
			return true;
		}
	return false;
}

static int read_shed(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingShed *m = tfprofd__recording_shed__unpack(NULL, s->size, s->bytes);
	enum probe_kind kind;
	int r;

	if (!m)
		r = journal_bad(&p->reader, s->offset,
				"a list of disabled probes in it is malformed");
	else if (!find_kind(m->kind, &kind))
		r = unsupported(p, s->offset, "it disables probes of the kind", m->kind);
	else
		r = correlator_shed(p->correlator, kind, m->time_ns, m->text);
	if (m)
		tfprofd__recording_shed__free_unpacked(m, NULL);
	return r;
}

static int read_resumed(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingResumed *m = tfprofd__recording_resumed__unpack(NULL, s->size, s->bytes);
	enum probe_kind kind;
	int r;

	if (!m || !find_kind(m->kind, &kind))
		r = -EINVAL;
	else
		r = correlator_resume(p->correlator, kind, m->time_ns);
	if (m)
		tfprofd__recording_resumed__free_unpacked(m, NULL);
	return r == -EINVAL
		       ? journal_bad(&p->reader, s->offset, "what it enables again is malformed")
		       : r;
}

static int read_loss(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingLoss *m = tfprofd__recording_loss__unpack(NULL, s->size, s->bytes);
	int r;

	if (!m)
		return journal_bad(&p->reader, s->offset, "a loss in it is malformed");
	r = correlator_note_loss(p->correlator, m->from_ns, m->to_ns);
	tfprofd__recording_loss__free_unpacked(m, NULL);
	return r;
}

typedef int (*feed_fn)(struct correlator *c, const struct record *record);

/* The correlator gets a copy with this program's site number. */
static int feed(struct replaying *p, feed_fn pass, const struct record *record, size_t size,
		uint64_t offset)
{
	const struct recorded_rows *known =
		record->target < p->n_targets ? &p->rows[record->target] : NULL;
	struct record *copy;

	if (size > p->record_size) {
		uint8_t *bigger = realloc(p->record, size);

		if (!bigger)
			return -ENOMEM;
		p->record = bigger;
		p->record_size = size;
	}
	copy = memcpy(p->record, record, size);
	if (record->kind == RECORD_PROBE || record->kind == RECORD_TEXT ||
	    record->kind == RECORD_NAME || record->kind == RECORD_OBJECT) {
		/* A record that was not understood when it was captured is passed on unchanged. */
		if (!known || record->site >= known->n)
			return 0;
		if (known->numbers[record->site] < 0)
			return unsupported(p, offset, "it contains hits of the probe",
					   known->rows[record->site]->symbol);
		copy->site = (uint8_t)known->numbers[record->site];
	}
	return pass(p->correlator, copy);
}

static int read_records(struct replaying *p, feed_fn fn, const struct journal_section *s)
{
	const struct record *record;
	size_t at = 0, size;
	int r;

	while ((r = journal_next_record(&p->reader, s, &at, &record, &size)) > 0) {
		r = feed(p, fn, record, size, s->offset + at - size);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_given_up(struct replaying *p, const Tfprofd__RecordingGivenUp *m, uint64_t offset)
{
	struct capture_result *result = &p->replay->result;
	struct capture_shed *shed = &result->shed[result->n_shed];

	if (result->n_shed == KIND_COUNT)
		return journal_bad(&p->reader, offset,
				   "it disables more kinds of probes than there are");
	if (!find_kind(m->kind, &shed->kind))
		return unsupported(p, offset, "it disables probes of the kind", m->kind);
	shed->at_ns = m->at_ns;
	shed->overhead = m->overhead;
	shed->refused = m->refused;
	result->n_shed++;
	return 0;
}

static int take_result(struct replaying *p, const Tfprofd__RecordingResult *m, uint64_t offset)
{
	struct result_facts *facts = &p->replay->facts;
	struct capture_result *result = &p->replay->result;
	int r = 0;

	if (p->has_result || !m->counts || m->stop_ns < m->start_ns || m->level > 3)
		return journal_bad(&p->reader, offset, "its result is inconsistent");
	p->has_result = true;
	p->replay->hostname = strdup(m->hostname);
	if (!p->replay->hostname)
		return -ENOMEM;
	*facts = (struct result_facts){ .start_ns = m->start_ns,
					.stop_ns = m->stop_ns,
					.start_unix_ns = m->start_unix_ns,
					.detail = { .level = m->level,
						    .ops_at_entry = m->ops_at_entry,
						    .stacks_hz = m->stacks_hz },
					.hostname = p->replay->hostname,
					.n_left_out = m->left_out,
					.ended = m->ended,
					.extras = { .device_plane = m->device_plane,
						    .input_stages = m->input_stages } };
	facts->counts = (struct drain_counts){ .records = m->counts->records,
					       .dropped = m->counts->dropped,
					       .ring_full = m->counts->ring_full,
					       .skipped = m->counts->skipped,
					       .refused = m->counts->refused,
					       .malformed = m->counts->malformed,
					       .unread = m->counts->unread,
					       .late = m->counts->late,
					       .table_full = m->counts->table_full,
					       .read_failed = m->counts->read_failed,
					       .flows_full = m->counts->flows_full };
	result->cut = m->cut;
	result->overhead = m->overhead;
	result->max_overhead = m->max_overhead;
	for (size_t i = 0; i < m->n_warnings; i++)
		(i < 64 && m->restating_warnings >> i & 1 ? result_restate : result_warn)(
			result, "%s", m->warnings[i]);
	for (size_t i = 0; i < m->n_given_up && r >= 0; i++)
		r = read_given_up(p, m->given_up[i], offset);
	return r;
}

static int read_result(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingResult *m = tfprofd__recording_result__unpack(NULL, s->size, s->bytes);
	int r;

	if (!m)
		return journal_bad(&p->reader, s->offset, "its result is malformed");
	r = take_result(p, m, s->offset);
	tfprofd__recording_result__free_unpacked(m, NULL);
	return r;
}

static bool is_startup(const Tfprofd__RecordingStartup *m)
{
	if (!m || m->n_phases > STARTUP_PHASES_MAX)
		return false;
	for (size_t i = 0; i < m->n_phases; i++)
		if (m->phases[i]->kind > STARTUP_SERVING ||
		    m->phases[i]->path.len >= STARTUP_PATH_MAX)
			return false;
	return true;
}

static int read_startup(struct replaying *p, const struct journal_section *s)
{
	Tfprofd__RecordingStartup *m = tfprofd__recording_startup__unpack(NULL, s->size, s->bytes);
	struct startup_track *track =
		is_startup(m) ? startups_add(&p->replay->result.startups, m->pid) : NULL;
	int r = track ? 0
		      : journal_bad(&p->reader, s->offset,
				    "the startup of a process in it is malformed");

	for (size_t i = 0; track && i < m->n_phases; i++) {
		const Tfprofd__RecordingPhase *from = m->phases[i];
		struct startup_phase *to = &track->phases[track->n++];

		*to = (struct startup_phase){ .kind = (enum startup_phase_kind)from->kind,
					      .start_ns = from->start_ns,
					      .end_ns = from->end_ns,
					      .runs = from->runs,
					      .failed = from->failed,
					      .goes_on = from->goes_on,
					      .start_is_bound = from->start_is_bound,
					      .end_is_bound = from->end_is_bound };
		if (from->path.len)
			memcpy(to->path, from->path.data, from->path.len);
	}
	if (m)
		tfprofd__recording_startup__free_unpacked(m, NULL);
	return r;
}

static int read_module(struct replaying *p, const struct journal_section *s)
{
	int r = modules_add(&p->replay->result.modules, s->bytes, s->size);

	/* An earlier release accepted such modules. */
	if (r == -EINVAL) {
		result_warn(&p->replay->result,
			    "An XLA module is not shown: its name is not one of XLA's.");
		return 0;
	}
	return r == -EBADMSG || r == -ENOBUFS
		       ? journal_bad(&p->reader, s->offset, "an XLA module in it is malformed")
		       : r;
}

static int read_section(struct replaying *p, const struct journal_section *s)
{
	if (!p->head && s->kind != JOURNAL_HEAD)
		return journal_bad(&p->reader, s->offset,
				   "it does not begin with the head section");
	if (p->has_result && !(s->kind & JOURNAL_OPTIONAL))
		return journal_bad(&p->reader, s->offset, "something follows its result");
	switch (s->kind) {
	case JOURNAL_HEAD:
		return read_head(p, s);
	case JOURNAL_TARGET:
		return read_target(p, s);
	case JOURNAL_LAYOUT:
		return read_layout(p, s);
	case JOURNAL_SHED:
		return read_shed(p, s);
	case JOURNAL_RESUMED:
		return read_resumed(p, s);
	case JOURNAL_LOSS:
		return read_loss(p, s);
	case JOURNAL_RECORDS:
		return read_records(p, correlator_feed, s);
	case JOURNAL_RECALLED:
		return read_records(p, correlator_recall, s);
	case JOURNAL_RESULT:
		return read_result(p, s);
	case JOURNAL_STARTUP:
		return read_startup(p, s);
	case JOURNAL_MODULE:
		return read_module(p, s);
	case JOURNAL_SNAPSHOT:
		return 0;
	case JOURNAL_SYMBOLS:
		p->symbols = *s;
		return 0;
	default:
		p->replay->plan = s->bytes;
		p->replay->plan_size = s->size;
		return 0;
	}
}

static int read_all(struct replaying *p)
{
	struct journal_section section;
	int r = journal_open(&p->reader);

	while (r >= 0 && (r = journal_next(&p->reader, &section)) > 0)
		r = read_section(p, &section);
	if (r >= 0 && !p->has_result)
		r = journal_bad(&p->reader, p->reader.size, "it has no result");
	return r;
}

static int make(struct replaying *p)
{
	struct result_facts *facts = &p->replay->facts;
	struct timeline *timeline;
	int r;

	r = correlator_finish(p->correlator, facts->stop_ns, facts->start_unix_ns, &timeline);
	if (r < 0)
		return r;
	if (p->symbols.size)
		r = symbols_recall(timeline, p->symbols.bytes, p->symbols.size);
	if (r == -EBADMSG)
		r = journal_bad(&p->reader, p->symbols.offset,
				"its names of functions are malformed");
	if (r >= 0)
		r = symbols_complete(timeline);
	if (r >= 0)
		r = result_make(timeline, facts, &p->replay->result);
	timeline_free(timeline);
	return r;
}

int replay_make(const void *recording, size_t size, const struct request_list_options *requests,
		const struct replay_extras *extras, struct replay *ret, char *ret_text,
		size_t text_size)
{
	struct replaying p = { .reader = { .bytes = recording, .size = size }, .replay = ret };
	int r;

	*ret = (struct replay){};
	r = read_all(&p);
	ret->facts.requests = *requests;
	if (extras->device_plane)
		ret->facts.extras.device_plane = *extras->device_plane;
	if (extras->input_stages)
		ret->facts.extras.input_stages = *extras->input_stages;
	ret->facts.extras.n_others = extras->n_others;
	for (unsigned i = 0; i < extras->n_others && r >= 0; i++) {
		ret->facts.extras.others[i] = exporter_find(extras->others[i]);
		r = ret->facts.extras.others[i] ? 0 : -EINVAL;
	}
	if (r >= 0)
		r = make(&p);
	if (r < 0) {
		snprintf(ret_text, text_size, "%s",
			 *p.reader.error ? p.reader.error : strerror(-r));
		replay_done(ret);
	}
	correlator_free(p.correlator);
	if (p.head)
		tfprofd__recording_head__free_unpacked(p.head, NULL);
	for (unsigned i = 0; i < p.n_targets; i++)
		tfprofd__recording_target__free_unpacked(p.targets[i], NULL);
	free(p.record);
	return r;
}

void replay_done(struct replay *replay)
{
	result_done(&replay->result);
	free(replay->hostname);
	free(replay->path);
	free(replay->model);
	*replay = (struct replay){};
}
