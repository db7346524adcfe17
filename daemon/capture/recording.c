/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/recording.h"

#include <errno.h>
#include <string.h>

#include "daemon/capture/recorded_rows.h"
#include "daemon/correlate/runtime/layout.h"
#include "lib/base/macro.h"
#include "proto/recording.pb-c.h"

/* -ENOMEM, -ENOBUFS: the journal is abandoned. */
static int add_message(struct journal *j, enum journal_kind kind, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	_cleanup_free_ uint8_t *bytes = malloc(MAX(size, (size_t)1));

	if (!bytes)
		return journal_abandon(j, -ENOMEM);
	protobuf_c_message_pack(message, bytes);
	return journal_add(j, kind, bytes, size);
}

/* A target's message and its rows, in one block of memory. */
struct target_message {
	Tfprofd__RecordingTarget message;
	Tfprofd__RecordingProbe *list[ROWS_MAX];
	Tfprofd__RecordingProbe rows[ROWS_MAX];
};

static void add_rows(struct target_message *m, const struct pack_set *set)
{
	for (unsigned i = 0; i < set->n_rows; i++) {
		const struct probe_row *row = set->rows[i];

		m->list[i] = &m->rows[i];
		m->rows[i] = (Tfprofd__RecordingProbe)TFPROFD__RECORDING_PROBE__INIT;
		m->rows[i].symbol = (char *)recorded_row_place(row, &m->rows[i].class_slot);
		m->rows[i].usdt = row->usdt != NULL;
		m->rows[i].verb = row->verb;
		m->rows[i].work = row->work;
	}
	m->message.runtime = (char *)set->name;
	m->message.n_rows = set->n_rows;
	m->message.rows = m->list;
}

void recording_begin(struct journal *j, uint64_t start_ns, const struct request_filter *filter)
{
	Tfprofd__RecordingHead head = TFPROFD__RECORDING_HEAD__INIT;

	if (!j)
		return;
	head.program = (char *)TFPROFD_VERSION;
	head.start_ns = start_ns;
	head.slower_than_ns = filter->slower_than_ns;
	head.path = (char *)(filter->path ?: "");
	head.model = (char *)(filter->model ?: "");
	head.count = filter->count;
	add_message(j, JOURNAL_HEAD, &head.base);
}

void recording_add_target(struct journal *j, const struct correlate_target *target)
{
	_cleanup_free_ struct target_message *m = NULL;
	char name[sizeof(target->name) + 1] = "";

	if (!j)
		return;
	m = calloc(1, sizeof(*m));
	if (!m) {
		journal_abandon(j, -ENOMEM);
		return;
	}
	m->message = (Tfprofd__RecordingTarget)TFPROFD__RECORDING_TARGET__INIT;
	memcpy(name, target->name, sizeof(target->name));
	m->message.pid = target->pid;
	m->message.parent = target->parent;
	m->message.own_pid = target->own_pid;
	m->message.is_child = target->is_child;
	m->message.name = name;
	m->message.since_ns = target->since_ns;
	m->message.ops_at_entry = target->ops_at_entry;
	m->message.has_handlers = target->has_handlers;
	add_rows(m, target->packs);
	add_message(j, JOURNAL_TARGET, &m->message.base);
}

void recording_set_layout(struct journal *j, unsigned target, unsigned row,
			  const struct record_layout *layout)
{
	Tfprofd__RecordingLayout m = TFPROFD__RECORDING_LAYOUT__INIT;

	m.target = target;
	m.row = row;
	m.name_offset = layout->name_offset;
	m.type_offset = layout->type_offset;
	if (j)
		add_message(j, JOURNAL_LAYOUT, &m.base);
}

void recording_shed(struct journal *j, enum probe_kind kind, uint64_t time, const char *text)
{
	Tfprofd__RecordingShed m = TFPROFD__RECORDING_SHED__INIT;

	m.kind = (char *)probe_kind_name(kind);
	m.time_ns = time;
	m.text = (char *)text;
	if (j)
		add_message(j, JOURNAL_SHED, &m.base);
}

void recording_loss(struct journal *j, uint64_t from, uint64_t to)
{
	Tfprofd__RecordingLoss m = TFPROFD__RECORDING_LOSS__INIT;

	m.from_ns = from;
	m.to_ns = to;
	if (j)
		add_message(j, JOURNAL_LOSS, &m.base);
}

void recording_feed(struct journal *j, const struct record *record)
{
	if (j && journal_add_record(j, record) == -EINVAL)
		journal_abandon(j, -EINVAL);
}

void recording_recall(struct journal *j, const struct record *record)
{
	if (j && journal_add_recalled(j, record) == -EINVAL)
		journal_abandon(j, -EINVAL);
}

static int on_begin(uint64_t start_ns, void *data)
{
	const struct recording *r = data;

	recording_begin(r->journal, start_ns, r->filter);
	return 0;
}

static int on_target(const struct correlate_target *target, void *data)
{
	struct recording *r = data;

	if (r->n_targets < RECORD_MAX_TARGETS)
		r->sets[r->n_targets++] = target->packs;
	recording_add_target(r->journal, target);
	return 0;
}

static int on_layout(unsigned target, unsigned named, const struct record_layout *layout,
		     void *data)
{
	struct recording *r = data;
	const struct pack_set *set = target < r->n_targets ? r->sets[target] : NULL;
	unsigned row = 0;

	while (set && row < set->n_rows && set->owners[row] != set->named[named])
		row++;
	if (set && named < RECORD_LAYOUTS) {
		r->layouts[target][named] = *layout;
		r->is_known[target][named] = true;
	}
	recording_set_layout(r->journal, target, row, layout);
	return 0;
}

static int on_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	recording_shed(((struct recording *)data)->journal, kind, time, text);
	return 0;
}

static int on_resume(enum probe_kind kind, uint64_t time, void *data)
{
	Tfprofd__RecordingResumed m = TFPROFD__RECORDING_RESUMED__INIT;

	m.kind = (char *)probe_kind_name(kind);
	m.time_ns = time;
	add_message(((struct recording *)data)->journal, JOURNAL_RESUMED, &m.base);
	return 0;
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	recording_loss(((struct recording *)data)->journal, from, to);
	return 0;
}

typedef void (*feed_fn)(struct journal *j, const struct record *record);

/* What the object points to besides its names stays out of the file. */
static void feed_object(const struct recording *r, feed_fn pass, const struct record_object *object)
{
	const struct pack_set *set =
		object->head.target < r->n_targets ? r->sets[object->head.target] : NULL;
	int named = set ? pack_set_named(set, object->head.site) : -1;
	struct record_object copy = *object;

	if (named < 0 || named >= RECORD_LAYOUTS)
		return;
	if (set->named[named]->names.form == NAME_VIEW)
		object_keep_names(&copy, &set->named[named]->names,
				  r->is_known[object->head.target][named]
					  ? &r->layouts[object->head.target][named]
					  : NULL);
	pass(r->journal, &copy.head);
}

static int feed(const struct recording *r, feed_fn pass, const struct record *record)
{
	if (record->kind == RECORD_OBJECT)
		feed_object(r, pass, (const void *)record);
	else
		pass(r->journal, record);
	return 0;
}

static int on_recall(const struct record *record, void *data)
{
	return feed(data, recording_recall, record);
}

static int on_record(const struct record *record, void *data)
{
	return feed(data, recording_feed, record);
}

/* An error stays in the journal. */
const struct record_sink *recording_init(struct recording *r, struct journal *journal,
					 const struct request_filter *filter)
{
	*r = (struct recording){ .sink = { .begin = on_begin,
					   .target = on_target,
					   .layout = on_layout,
					   .shed = on_shed,
					   .resume = on_resume,
					   .loss = on_loss,
					   .recall = on_recall,
					   .record = on_record,
					   .data = r },
				 .journal = journal,
				 .filter = filter };
	return &r->sink;
}

void recording_add_startup(struct journal *j, const struct startup_track *track)
{
	Tfprofd__RecordingStartup m = TFPROFD__RECORDING_STARTUP__INIT;
	Tfprofd__RecordingPhase phases[STARTUP_PHASES_MAX], *list[STARTUP_PHASES_MAX];

	if (!j)
		return;
	for (unsigned i = 0; i < track->n; i++) {
		const struct startup_phase *from = &track->phases[i];
		Tfprofd__RecordingPhase *to = list[i] = &phases[i];

		*to = (Tfprofd__RecordingPhase)TFPROFD__RECORDING_PHASE__INIT;
		to->kind = from->kind;
		to->start_ns = from->start_ns;
		to->end_ns = from->end_ns;
		to->path = (ProtobufCBinaryData){ .data = (uint8_t *)from->path,
						  .len = strlen(from->path) };
		to->runs = from->runs;
		to->failed = from->failed;
		to->goes_on = from->goes_on;
		to->start_is_bound = from->start_is_bound;
		to->end_is_bound = from->end_is_bound;
	}
	m.pid = track->pid;
	m.n_phases = track->n;
	m.phases = list;
	add_message(j, JOURNAL_STARTUP, &m.base);
}

void recording_add_module(struct journal *j, const void *bytes, size_t size)
{
	if (j)
		journal_add(j, JOURNAL_MODULE, bytes, size);
}

void recording_add_note(struct journal *j, const struct recording_note *note,
			uint64_t start_unix_ns, uint64_t duration_ns)
{
	Tfprofd__RecordingSnapshot m = TFPROFD__RECORDING_SNAPSHOT__INIT;

	m.trigger = (char *)note->trigger;
	m.reason = (char *)note->reason;
	m.pid = (uint32_t)note->pid;
	m.process = (char *)note->process;
	m.start_unix_ns = start_unix_ns;
	m.duration_ns = duration_ns;
	if (j)
		add_message(j, JOURNAL_SNAPSHOT, &m.base);
}

int recording_end(struct journal *j, const struct result_facts *facts,
		  const struct capture_result *result)
{
	Tfprofd__RecordingResult m = TFPROFD__RECORDING_RESULT__INIT;
	Tfprofd__RecordingCounts counts = TFPROFD__RECORDING_COUNTS__INIT;
	Tfprofd__RecordingGivenUp given_up[KIND_COUNT], *list[KIND_COUNT];

	if (!j)
		return 0;
	m.start_ns = facts->start_ns;
	m.stop_ns = facts->stop_ns;
	m.start_unix_ns = facts->start_unix_ns;
	m.level = facts->detail.level;
	m.ops_at_entry = facts->detail.ops_at_entry;
	m.hostname = (char *)facts->hostname;
	m.ended = facts->ended;
	m.left_out = facts->n_left_out;
	m.cut = result->cut;
	m.overhead = result->overhead;
	m.max_overhead = result->max_overhead;
	for (unsigned i = 0; i < result->n_shed; i++) {
		list[i] = &given_up[i];
		given_up[i] = (Tfprofd__RecordingGivenUp)TFPROFD__RECORDING_GIVEN_UP__INIT;
		given_up[i].kind = (char *)probe_kind_name(result->shed[i].kind);
		given_up[i].at_ns = result->shed[i].at_ns;
		given_up[i].overhead = result->shed[i].overhead;
		given_up[i].refused = result->shed[i].refused;
	}
	m.n_given_up = result->n_shed;
	m.given_up = list;
	m.n_warnings = result->n_warnings;
	m.warnings = (char **)result->warnings;
	m.restating_warnings = result->restating;
	counts.records = facts->counts.records;
	counts.dropped = facts->counts.dropped;
	counts.ring_full = facts->counts.ring_full;
	counts.skipped = facts->counts.skipped;
	counts.refused = facts->counts.refused;
	counts.malformed = facts->counts.malformed;
	counts.unread = facts->counts.unread;
	counts.late = facts->counts.late;
	counts.table_full = facts->counts.table_full;
	counts.read_failed = facts->counts.read_failed;
	counts.flows_full = facts->counts.flows_full;
	m.counts = &counts;
	m.device_plane = facts->extras.device_plane;
	m.input_stages = facts->extras.input_stages;
	m.stacks_hz = facts->detail.stacks_hz;
	return add_message(j, JOURNAL_RESULT, &m.base);
}
