/* SPDX-License-Identifier: Apache-2.0 */
/* What a session passes to the correlator is kept, and a replay makes the same result from it;
 * anything else in a file does no harm. */
#include "tests/unit/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "daemon/capture/recording.h"
#include "daemon/capture/replay.h"
#include "lib/base/macro.h"
#include "proto/recording.pb-c.h"

#define TIME 1000000000ull
#define GOLDEN "tests/golden/half_plus_two.tfp"

struct file {
	uint8_t *bytes;
	size_t size;
};

static const struct request_list_options no_requests;
static const struct request_filter no_filter;

static struct journal_budget budget = { .max_bytes = 64u << 20 };

static struct file collect(struct journal *j)
{
	struct file f = { .bytes = malloc(journal_bytes(j)) };
	const void *bytes;
	size_t size;
	void *owner;

	while (journal_take(j, &bytes, &size, &owner)) {
		memcpy(f.bytes + f.size, bytes, size);
		f.size += size;
		journal_release(owner);
	}
	journal_free(j);
	return f;
}

static const struct pack_set *tensorflow(void)
{
	const struct pack_set *set = pack_set_get(1);

	CHECK(set);
	return set;
}

static uint8_t site_of(enum verb verb, enum work work)
{
	const struct pack_set *set = tensorflow();
	unsigned i = 0;

	while (i < set->n_rows && !row_is(set->rows[i], verb, work))
		i++;
	return (uint8_t)i;
}

/* Feeds a correlator and a journal the same, as a session does. */
struct teller {
	struct correlator *correlator;
	struct journal *journal;
};

static void tell(struct teller *t, const struct record *record)
{
	recording_feed(t->journal, record);
	CHECK_EQ(correlator_feed(t->correlator, record), 0);
}

static void tell_probe(struct teller *t, uint64_t time, enum verb verb, uint32_t stack)
{
	struct record_probe r = { .head = { .time = TIME + time,
					    .tid = 11,
					    .kind = RECORD_PROBE,
					    .site = site_of(verb, WORK_RUN),
					    .size8 = sizeof(r) / 8 },
				  .stack = stack,
				  .value = time };

	tell(t, &r.head);
}

static void tell_everything(struct teller *t)
{
	struct correlate_target target = {
		.pid = 10, .name = "server", .packs = tensorflow(), .since_ns = TIME - 5
	};
	struct record_layout layout = { .name_offset = 200, .type_offset = 216 };
	struct record_thread thread = { .head = { .time = TIME + 900,
						  .tid = 11,
						  .kind = RECORD_THREAD,
						  .size8 = sizeof(thread) / 8 },
					.pid = 10,
					.comm = "worker" };

	recording_begin(t->journal, TIME, &no_filter);
	CHECK_EQ(correlator_new(TIME, &t->correlator), 0);
	recording_add_target(t->journal, &target);
	CHECK_EQ(correlator_add_target(t->correlator, &target), 0);
	for (unsigned i = 0; i < 5; i++) {
		tell_probe(t, 10 + 100 * i, VERB_OPEN, 1000);
		tell_probe(t, 60 + 101 * i, VERB_CLOSE, 900);
	}
	recording_set_layout(t->journal, 0, 0, &layout);
	CHECK_EQ(correlator_set_layout(t->correlator, 0, 0, &layout), 0);
	recording_shed(t->journal, KIND_HANDOVER, TIME + 600, "disabled");
	CHECK_EQ(correlator_shed(t->correlator, KIND_HANDOVER, TIME + 600, "disabled"), 0);
	tell_probe(t, 700, VERB_OPEN, 1000);
	tell(t, &thread.head);
}

static const struct result_facts facts = {
	.start_ns = TIME,
	.stop_ns = TIME + 1000,
	.start_unix_ns = 1795289393ull * 1000000000,
	.detail = { .level = 3, .ops_at_entry = true },
	.hostname = "host",
	.n_left_out = 3,
	.ended = 1,
	.counts = { .records = 12,
		    .dropped = 5,
		    .ring_full = 4,
		    .refused = 3,
		    .malformed = 2,
		    .unread = 1,
		    .skipped = 9,
		    .late = 6,
		    .table_full = 7,
		    .read_failed = 8 },
};

/* An xla.HloProto: a module named "m" of the number 5. */
#define MODULE "\x0a\x05\x0a\x01m\x28\x05"

static const struct startup_track startup = {
	.pid = 77,
	.n = 3,
	.phases = { { .kind = STARTUP_LOAD,
		      .start_ns = 700,
		      .end_ns = 0,
		      .path = "/models/\xff/1",
		      .failed = true },
		    { .kind = STARTUP_WARMUP,
		      .start_ns = 1100,
		      .end_ns = 1200,
		      .runs = 3,
		      .start_is_bound = true },
		    { .kind = STARTUP_SERVING, .start_ns = 1250, .goes_on = true } },
};

static void fill_result(struct capture_result *result)
{
	result->cut = true;
	result->overhead = 1.0 / 3;
	result->max_overhead = 0.1;
	result->shed[result->n_shed++] =
		(struct capture_shed){ .kind = KIND_HANDOVER, .at_ns = 600, .overhead = 7.7 };
	result_warn(result, "One %s.", "warning");
	result_restate(result, "Another.");
}

/* One in the recording that the capture itself would no longer accept. */
static const char *other_module;

static struct file record_with(const struct result_facts *of, struct capture_result *result)
{
	struct teller t = {};
	struct timeline *timeline = NULL;
	struct startup_track *track;

	*result = (struct capture_result){};
	CHECK_EQ(journal_new(&budget, &t.journal), 0);
	tell_everything(&t);
	fill_result(result);
	CHECK_EQ(modules_add(&result->modules, MODULE, sizeof(MODULE) - 1), 0);
	track = startups_add(&result->startups, 77);
	CHECK(track);
	*track = startup;
	CHECK_EQ(recording_end(t.journal, of, result), 0);
	CHECK_EQ(correlator_finish(t.correlator, of->stop_ns, of->start_unix_ns, &timeline), 0);
	CHECK_EQ(result_make(timeline, of, result), 0);
	timeline_free(timeline);
	correlator_free(t.correlator);
	CHECK_EQ(journal_add(t.journal, JOURNAL_PLAN, "plan", 4), 0);
	recording_add_module(t.journal, MODULE, sizeof(MODULE) - 1);
	if (other_module)
		recording_add_module(t.journal, other_module, strlen(other_module));
	recording_add_startup(t.journal, &result->startups.list[0]);
	CHECK_EQ(journal_finish(t.journal), 0);
	return collect(t.journal);
}

static struct file record(struct capture_result *result)
{
	return record_with(&facts, result);
}

static const struct replay_extras as_it_was;

static int replay(struct file f, char error[static 256])
{
	struct replay replay;
	int r;

	error[0] = 0;
	r = replay_make(f.bytes, f.size, &no_requests, &as_it_was, &replay, error, 256);
	if (r >= 0)
		replay_done(&replay);
	return r;
}

static bool same_trace(const struct exported *a, const struct exported *b)
{
	if (a->n_chunks != b->n_chunks || a->size != b->size)
		return false;
	for (size_t i = 0; i < a->n_chunks; i++)
		if (a->chunks[i].iov_len != b->chunks[i].iov_len ||
		    memcmp(a->chunks[i].iov_base, b->chunks[i].iov_base, a->chunks[i].iov_len))
			return false;
	return true;
}

TEST(a_replay_has_a_device_plane_as_in_the_capture_unless_asked_otherwise)
{
	static const bool off = false, on = true;
	struct result_facts with = facts;

	for (int captured = 0; captured < 2; captured++) {
		struct capture_result result;
		struct replay as_captured, without, shown;
		char error[256];
		struct file f;

		with.extras.device_plane = captured;
		f = record_with(&with, &result);
		CHECK_EQ(replay_make(f.bytes, f.size, &no_requests, &as_it_was, &as_captured, error,
				     sizeof(error)),
			 0);
		CHECK_EQ(replay_make(f.bytes, f.size, &no_requests,
				     &(struct replay_extras){ .device_plane = &off }, &without,
				     error, sizeof(error)),
			 0);
		CHECK_EQ(replay_make(f.bytes, f.size, &no_requests,
				     &(struct replay_extras){ .device_plane = &on }, &shown, error,
				     sizeof(error)),
			 0);
		CHECK(same_trace(&as_captured.result.trace, &result.trace));
		CHECK(same_trace(captured ? &shown.result.trace : &without.result.trace,
				 &result.trace));
		CHECK_EQ(as_captured.result.n_warnings, result.n_warnings);
		CHECK_EQ(shown.result.n_warnings, without.result.n_warnings + 1);
		CHECK(strstr(shown.result.warnings[shown.result.n_warnings - 1],
			     "device plane was asked for"));
		replay_done(&as_captured);
		replay_done(&without);
		replay_done(&shown);
		result_done(&result);
		free(f.bytes);
	}
}

TEST(a_replay_recreates_the_result_of_the_capture)
{
	struct capture_result result;
	struct file f = record(&result);
	struct replay again;
	char error[256] = "";

	CHECK_EQ(replay_make(f.bytes, f.size, &no_requests, &as_it_was, &again, error,
			     sizeof(error)),
		 0);
	CHECK_STR(error, "");
	CHECK(result.trace.n_events >= 6);
	CHECK(same_trace(&result.trace, &again.result.trace));
	CHECK_EQ(result.n_warnings, again.result.n_warnings);
	CHECK_EQ(again.result.restating, result.restating);
	CHECK(result.n_warnings >= 9);
	for (unsigned i = 0; i < MIN(result.n_warnings, again.result.n_warnings); i++)
		CHECK_STR(again.result.warnings[i], result.warnings[i]);
	CHECK_EQ(again.result.summary.n_runs, 5);
	CHECK_EQ(again.result.summary.n_runs, result.summary.n_runs);
	CHECK_EQ(again.result.summary.run_p99_ns, result.summary.run_p99_ns);
	CHECK_EQ(again.result.records, 12);
	CHECK_EQ(again.result.dropped, 5);
	CHECK(again.result.cut);
	CHECK(again.result.overhead == result.overhead &&
	      again.result.max_overhead == result.max_overhead);
	CHECK_EQ(again.result.n_shed, 1);
	CHECK_EQ(again.result.shed[0].kind, KIND_HANDOVER);
	CHECK_EQ(again.result.shed[0].at_ns, 600);
	CHECK_EQ(again.facts.start_unix_ns, facts.start_unix_ns);
	CHECK_EQ(again.facts.detail.level, 3);
	CHECK(again.facts.detail.ops_at_entry);
	CHECK_STR(again.facts.hostname, "host");
	CHECK_EQ(again.plan_size, 4);
	CHECK(!memcmp(again.plan, "plan", 4));
	replay_done(&again);
	result_done(&result);
	free(f.bytes);
	CHECK_EQ(budget.used_bytes, 0);
}

TEST(a_module_that_only_an_earlier_release_accepted_is_left_out_with_a_warning)
{
	struct capture_result result;
	struct replay again;
	unsigned n_told = 0;
	struct file f;
	char error[256];

	other_module = "\x0a\x06\x0a\x04../m";
	f = record(&result);
	other_module = NULL;
	CHECK_EQ(replay_make(f.bytes, f.size, &no_requests, &as_it_was, &again, error,
			     sizeof(error)),
		 0);
	CHECK_EQ(again.result.modules.n, 1);
	CHECK_STR(again.result.modules.list[0].name, "m(5)");
	CHECK_EQ(again.result.n_warnings, result.n_warnings + 1);
	for (unsigned i = 0; i < again.result.n_warnings; i++)
		n_told += !strncmp(again.result.warnings[i], "An XLA module is not shown", 26);
	CHECK_EQ(n_told, 1);
	replay_done(&again);
	result_done(&result);
	free(f.bytes);
}

TEST(an_abandoned_recording_reports_its_error_at_the_end)
{
	struct journal_budget tight = { .max_bytes = 3u << 19 };
	struct capture_result result = {};
	struct record_object object = { .head = { .kind = RECORD_OBJECT } };
	struct journal *j = NULL;

	CHECK_EQ(journal_new(&tight, &j), 0);
	recording_begin(j, TIME, &no_filter);
	for (unsigned i = 0; i < 1000; i++)
		recording_feed(j, &object.head);
	CHECK_EQ(recording_end(j, &facts, &result), -ENOBUFS);
	CHECK_EQ(tight.used_bytes, 0);
	journal_free(j);
	/* None was requested. */
	recording_begin(NULL, TIME, &no_filter);
	recording_feed(NULL, &object.head);
	CHECK_EQ(recording_end(NULL, &facts, &result), 0);
}

static void add_message(struct journal *j, enum journal_kind kind, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	_cleanup_free_ uint8_t *bytes = malloc(size + 1);

	protobuf_c_message_pack(message, bytes);
	CHECK_EQ(journal_add(j, kind, bytes, size), 0);
}

/* A recording with this beginning and target; the rest is a hit of site 0, and a result. */
static struct file with_target(const Tfprofd__RecordingHead *head,
			       const Tfprofd__RecordingTarget *target)
{
	struct record_probe probe = { .head = { .time = TIME + 1,
						.tid = 3,
						.kind = RECORD_PROBE,
						.size8 = sizeof(probe) / 8 },
				      .stack = 100 };
	struct capture_result result = {};
	struct journal *j = NULL;

	CHECK_EQ(journal_new(&budget, &j), 0);
	add_message(j, JOURNAL_HEAD, &head->base);
	add_message(j, JOURNAL_TARGET, &target->base);
	recording_feed(j, &probe.head);
	CHECK_EQ(recording_end(j, &facts, &result), 0);
	CHECK_EQ(journal_finish(j), 0);
	return collect(j);
}

/* The hit belongs to an operation, and not to what has number 0 here. */
static void check_is_op(struct file f)
{
	char error[256] = "";
	struct replay replayed;

	CHECK_EQ(replay_make(f.bytes, f.size, &no_requests, &as_it_was, &replayed, error,
			     sizeof(error)),
		 0);
	CHECK_EQ(replayed.result.summary.n_ops, 1);
	CHECK_EQ(replayed.result.summary.n_runs + replayed.result.summary.n_runs_truncated, 0);
	replay_done(&replayed);
	free(f.bytes);
}

static void check_is_unknown(struct file f, const char *name)
{
	char error[256] = "";

	CHECK_EQ(replay(f, error), -EPROTONOSUPPORT);
	CHECK(strstr(error, name));
	free(f.bytes);
}

TEST(site_numbers_are_those_of_the_recording_not_of_this_version)
{
	const struct probe_row *begin = tensorflow()->rows[site_of(VERB_OPEN, WORK_OP)];
	Tfprofd__RecordingProbe row = TFPROFD__RECORDING_PROBE__INIT,
				later = TFPROFD__RECORDING_PROBE__INIT, *rows[] = { &row, &later };
	Tfprofd__RecordingHead head = TFPROFD__RECORDING_HEAD__INIT;
	Tfprofd__RecordingTarget target = TFPROFD__RECORDING_TARGET__INIT;

	/* Site 0 is another one here, which begins no operation. */
	CHECK(site_of(VERB_OPEN, WORK_OP) != 0 && site_of(VERB_OPEN, WORK_RUN) == 0);
	head.start_ns = TIME;
	target.pid = 10;
	target.name = "server";
	target.runtime = "runtime of a later version";
	target.rows = rows;
	target.n_rows = 2;
	row.symbol = later.symbol = (char *)begin->symbol;
	row.verb = later.verb = begin->verb;
	row.work = later.work = begin->work;
	check_is_op(with_target(&head, &target));
	row.symbol = "function_of_a_later_version";
	check_is_unknown(with_target(&head, &target), "function_of_a_later_version");
	later.symbol = row.symbol;
	check_is_unknown(with_target(&head, &target), "runtime of a later version");
}

TEST(sites_of_release_0_1_are_found_by_their_roles)
{
	const struct probe_row *begin = tensorflow()->rows[site_of(VERB_OPEN, WORK_OP)];
	Tfprofd__RecordingProbe row = TFPROFD__RECORDING_PROBE__INIT, *rows[] = { &row };
	Tfprofd__RecordingPack pack = TFPROFD__RECORDING_PACK__INIT, *list[] = { &pack };
	Tfprofd__RecordingHead head = TFPROFD__RECORDING_HEAD__INIT;
	Tfprofd__RecordingTarget target = TFPROFD__RECORDING_TARGET__INIT;
	struct file f;

	head.start_ns = TIME;
	head.packs = list;
	head.n_packs = 1;
	pack.name = "TensorFlow";
	pack.probes = rows;
	pack.n_probes = 1;
	row.symbol = (char *)begin->symbol;
	row.role = 8; /* ROLE_OP_BEGIN */
	target.pid = 10;
	target.name = "server";
	check_is_op(with_target(&head, &target));
	row.role = 10; /* ROLE_OP_END: of that function none */
	check_is_unknown(with_target(&head, &target), "TensorFlow");
	target.pack = 1;
	f = with_target(&head, &target);
	CHECK_EQ(replay(f, (char[256]){}), -EBADMSG);
	free(f.bytes);
}

TEST(a_recording_truncated_anywhere_is_refused)
{
	struct capture_result result;
	struct file f = record(&result);
	char error[256];

	for (size_t size = 0; size < f.size; size++) {
		struct file cut = { .bytes = malloc(size + 1), .size = size };

		memcpy(cut.bytes, f.bytes, size);
		CHECK_EQ(replay(cut, error), -EBADMSG);
		CHECK(*error);
		free(cut.bytes);
	}
	result_done(&result);
	free(f.bytes);
}

/* Corrects every checksum, as far as sections can be recognized. */
static void mend(struct file f)
{
	size_t at = sizeof(struct journal_file);

	while (f.size - at >= sizeof(struct journal_section_head)) {
		struct journal_section_head *head = (void *)(f.bytes + at);
		size_t left = f.size - at - sizeof(*head),
		       padded = ((size_t)head->size + 7) & ~(size_t)7;

		if (padded > left)
			break;
		head->checksum = (uint32_t)crc32(crc32(0, (const Bytef *)head, 8),
						 (const Bytef *)(head + 1), head->size);
		at += sizeof(*head) + padded;
	}
}

/* Flips bits of the file, one or several at a time; the result may be any, but there is one. */
static void flip(struct file f, unsigned times, unsigned seed)
{
	uint8_t *copy = malloc(f.size);
	unsigned n_replayed = 0;
	char error[256];

	memcpy(copy, f.bytes, f.size);
	for (unsigned i = 0; i < times; i++) {
		memcpy(f.bytes, copy, f.size);
		for (unsigned k = 0; k <= i % 4; k++) {
			seed = seed * 1103515245 + 12345;
			f.bytes[(seed >> 8) % f.size] ^= (uint8_t)(1u << (seed >> 4) % 8);
		}
		mend(f);
		n_replayed += replay(f, error) == 0;
	}
	/* Most are hits of the records, and reach the correlator. */
	CHECK(n_replayed > times / 10);
	free(copy);
}

TEST(bits_that_were_flipped_on_purpose_do_no_harm)
{
	struct capture_result result;
	struct file f = record(&result);

	flip(f, 4000, 1);
	result_done(&result);
	free(f.bytes);
}

TEST(a_real_recording_with_flipped_bits_does_no_harm)
{
	FILE *file = fopen(GOLDEN, "re");
	struct file f = { .bytes = malloc(1u << 20) };
	char error[256];

	CHECK(file);
	if (file) {
		f.size = fread(f.bytes, 1, 1u << 20, file);
		fclose(file);
		CHECK_EQ(replay(f, error), 0);
		flip(f, 1500, 2);
	}
	free(f.bytes);
}

CHECK_MAIN()
