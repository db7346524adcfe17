/* SPDX-License-Identifier: Apache-2.0 */
/* The slowest requests as text and as JSON. */
#include <stdlib.h>

#include "cli/report/hot_report.c"
#include "cli/report/json.c"
#include "cli/report/request.c"
#include "cli/report/request_json.c"
#include "cli/report/slowest.c"
#include "cli/report/symbol.c"
#include "cli/report/text.c"
#include "tests/unit/check.h"

#define MS 1000000ull

/* A request of 100 ms with threads and names to refer to, and room for pieces. */
struct sample {
	Tfprofd__Request request;
	Tfprofd__RequestThread threads[3], *thread_list[3];
	Tfprofd__RequestSegment segments[64], *segment_list[64];
	Tfprofd__RequestCause cause;
	char *names[2];
	uint64_t phases[PHASE_COUNT];
};

static void sample_init(struct sample *s)
{
	static const char *const thread_names[] = { "worker", "holder", "hog" };

	memset(s, 0, sizeof(*s));
	s->request = (Tfprofd__Request)TFPROFD__REQUEST__INIT;
	s->cause = (Tfprofd__RequestCause)TFPROFD__REQUEST_CAUSE__INIT;
	for (unsigned i = 0; i < 3; i++) {
		s->threads[i] = (Tfprofd__RequestThread)TFPROFD__REQUEST_THREAD__INIT;
		s->threads[i].tid = 12 + i;
		s->threads[i].name = (char *)thread_names[i];
		s->thread_list[i] = &s->threads[i];
	}
	s->names[0] = (char *)"futex";
	s->names[1] = (char *)"a/MatMul:MatMul";
	s->request.number = 17;
	s->request.start_ns = 1000;
	s->request.end_ns = 1000 + 100 * MS;
	s->request.n_threads = 3;
	s->request.threads = s->thread_list;
	s->request.n_names = 2;
	s->request.names = s->names;
	s->request.critical_path = s->segment_list;
	s->request.phases = s->phases;
	s->request.n_phases = PHASE_COUNT;
	s->request.attribution = TFPROFD__ATTRIBUTION__ATTRIBUTION_EXACT;
}

static void add_piece(struct sample *s, uint64_t length, unsigned phase, unsigned activity,
		      uint32_t thread, uint32_t name, uint32_t by)
{
	size_t n = s->request.n_critical_path++;
	Tfprofd__RequestSegment *segment = s->segment_list[n] = &s->segments[n];

	*segment = (Tfprofd__RequestSegment)TFPROFD__REQUEST_SEGMENT__INIT;
	segment->start_ns = n ? s->segments[n - 1].end_ns : s->request.start_ns;
	segment->end_ns = segment->start_ns + length;
	segment->phase = (Tfprofd__Phase)phase;
	segment->activity = (Tfprofd__Activity)activity;
	segment->thread = thread;
	segment->name = name;
	segment->by = by;
}

/* The printed text. */
static char *printed(const struct sample *s)
{
	Tfprofd__Request *const list[] = { (Tfprofd__Request *)&s->request };
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	slowest_print(file, list, 1);
	fclose(file);
	return text;
}

static void expect_verdict(struct sample *s, unsigned phase, uint64_t phase_ns, uint64_t cause_ns,
			   unsigned activity, uint32_t thread, uint32_t name, uint32_t by,
			   const char *expected)
{
	char *verdict;

	s->request.cause = &s->cause;
	s->cause.phase = (Tfprofd__Phase)phase;
	s->cause.phase_ns = phase_ns;
	s->cause.cause_ns = cause_ns;
	s->cause.activity = (Tfprofd__Activity)activity;
	s->cause.thread = thread;
	s->cause.name = name;
	s->cause.by = by;
	verdict = slowest_verdict(&s->request);
	CHECK_STR(verdict, expected);
	free(verdict);
}

TEST(the_verdict_names_the_phase_the_cause_and_the_thread)
{
	struct sample s;

	sample_init(&s);
	expect_verdict(&s, TFPROFD__PHASE__PHASE_DECODE, 92 * MS, 92 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 1, 0,
		       "92 % decode: blocked in futex, thread worker/12");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_EXECUTE_BLOCKED, 80 * MS, 79 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 1, 2,
		       "80 % execute: blocked in futex, woken by holder/13, thread worker/12");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_EXECUTE_RUNNABLE, 50 * MS, 50 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE, 1, 0, 3,
		       "50 % execute: waiting for a CPU while hog/14 ran, thread worker/12");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING, 50 * MS, 10 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1, 2, 0,
		       "50 % execute, 20 % of it running a/MatMul:MatMul, thread worker/12");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_BATCH, 99 * MS, 99 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_WAITING, 0, 0, 0,
		       "99 % batch wait: in a batch queue");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_QUEUE, 99 * MS, 99 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_WAITING, 0, 0, 0,
		       "99 % queue wait: waiting for a thread");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_UNKNOWN, 60 * MS, 60 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_UNKNOWN, 0, 0, 0,
		       "60 % unknown: unknown activity");
	s.request.cause = NULL;
	CHECK(!slowest_verdict(&s.request));
}

TEST(the_verdict_names_the_cgroup_whose_quota_is_used_up)
{
	Tfprofd__RequestQuota quotas[2], *list[] = { &quotas[0], &quotas[1] };
	struct sample s;

	sample_init(&s);
	s.names[1] = (char *)"/serving/model";
	for (unsigned i = 0; i < ARRAY_SIZE(quotas); i++) {
		quotas[i] = (Tfprofd__RequestQuota)TFPROFD__REQUEST_QUOTA__INIT;
		quotas[i].name = i + 1;
		quotas[i].quota_ns = 20 * MS * i;
		quotas[i].period_ns = 100 * MS;
	}
	s.request.quotas = list;
	s.request.n_quotas = ARRAY_SIZE(quotas);
	expect_verdict(
		&s, TFPROFD__PHASE__PHASE_EXECUTE_THROTTLED, 61 * MS, 61 * MS,
		TFPROFD__ACTIVITY__ACTIVITY_THROTTLED, 1, 2, 0,
		"61 % execute: throttled by the quota of cgroup /serving/model (20 % of a CPU, 20.0 ms per 100 ms), thread worker/12");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_EXECUTE_THROTTLED, 61 * MS, 61 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_THROTTLED, 1, 0, 0,
		       "61 % execute: throttled, thread worker/12");
	s.request.n_quotas = 0;
	expect_verdict(
		&s, TFPROFD__PHASE__PHASE_DECODE, 61 * MS, 61 * MS,
		TFPROFD__ACTIVITY__ACTIVITY_THROTTLED, 1, 2, 0,
		"61 % decode: throttled by the quota of cgroup /serving/model (unknown), thread worker/12");
}

TEST(the_verdict_has_the_size_of_the_awaited_batch)
{
	Tfprofd__RequestBatch short_wait = TFPROFD__REQUEST_BATCH__INIT,
			      long_wait = TFPROFD__REQUEST_BATCH__INIT,
			      unseen = TFPROFD__REQUEST_BATCH__INIT;
	Tfprofd__RequestBatch *batches[] = { &long_wait, &short_wait, &unseen };
	struct sample s;

	sample_init(&s);
	s.request.batches = batches;
	s.request.n_batches = 3;
	long_wait.queued_ns = 10 * MS;
	long_wait.start_ns = 90 * MS;
	long_wait.tasks = 1;
	short_wait.queued_ns = 90 * MS;
	short_wait.start_ns = 92 * MS;
	short_wait.tasks = 7;
	unseen.start_ns = 95 * MS;
	unseen.tasks = 9;
	expect_verdict(
		&s, TFPROFD__PHASE__PHASE_BATCH, 99 * MS, 99 * MS,
		TFPROFD__ACTIVITY__ACTIVITY_WAITING, 1, 0, 0,
		"99 % batch wait: in a batch queue, for a batch of 1 task, thread worker/12");
	long_wait.tasks = 12;
	expect_verdict(&s, TFPROFD__PHASE__PHASE_BATCH, 99 * MS, 99 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_WAITING, 0, 0, 0,
		       "99 % batch wait: in a batch queue, for a batch of 12 tasks");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_QUEUE, 99 * MS, 99 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_WAITING, 0, 0, 0,
		       "99 % queue wait: waiting for a thread");
}

TEST(a_request_is_a_head_a_verdict_and_a_timeline)
{
	struct sample s;
	char *text;

	sample_init(&s);
	s.request.method = (char *)"POST";
	s.request.path = (char *)"/v1/models/m:predict";
	s.request.model = (char *)"m";
	s.request.version = (char *)"3";
	s.request.status = 201;
	s.request.run_thread = 1;
	s.request.cause = &s.cause;
	s.cause.phase = TFPROFD__PHASE__PHASE_DECODE;
	s.cause.phase_ns = s.cause.cause_ns = 60 * MS;
	s.cause.activity = TFPROFD__ACTIVITY__ACTIVITY_BLOCKED;
	s.cause.thread = 1;
	add_piece(&s, 10 * MS, TFPROFD__PHASE__PHASE_READ, TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1,
		  0, 0);
	add_piece(&s, 60 * MS, TFPROFD__PHASE__PHASE_DECODE, TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1,
		  0, 0);
	add_piece(&s, 30 * MS, TFPROFD__PHASE__PHASE_EXECUTE_BLOCKED,
		  TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 1, 2);
	text = printed(&s);
	CHECK_STR(
		text,
		"\nThe slowest request:\n"
		"\n1. 100 ms, request 17: POST /v1/models/m:predict, status 200, model m version 3, thread worker/12\n"
		"   60 % decode: blocked, thread worker/12\n"
		"       at      for  phase    thread     what\n"
		"     0 ns  10.0 ms  read     worker/12  running\n"
		"  10.0 ms  60.0 ms  decode   worker/12  blocked\n"
		"  70.0 ms  30.0 ms  execute  worker/12  blocked in futex, woken by holder/13\n");
	free(text);
}

TEST(short_pieces_are_combined)
{
	struct sample s;
	char *text;

	sample_init(&s);
	s.request.attribution = TFPROFD__ATTRIBUTION__ATTRIBUTION_INFERRED;
	add_piece(&s, 50 * MS, TFPROFD__PHASE__PHASE_READ, TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1,
		  0, 0);
	for (unsigned i = 0; i < 20; i++)
		add_piece(&s, MS / 10, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING,
			  TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1, 2, 0);
	add_piece(&s, 30 * MS, TFPROFD__PHASE__PHASE_EXECUTE, TFPROFD__ACTIVITY__ACTIVITY_UNKNOWN,
		  0, 0, 0);
	/* A single piece is printed by itself, unless it already stands for several. */
	add_piece(&s, MS / 10, TFPROFD__PHASE__PHASE_ENCODE, TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1,
		  0, 0);
	add_piece(&s, 17 * MS, TFPROFD__PHASE__PHASE_ENCODE, TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE,
		  1, 0, 3);
	add_piece(&s, 900000, TFPROFD__PHASE__PHASE_UNKNOWN, 0, 0, 0, 0);
	s.segments[s.request.n_critical_path - 1].pieces = 40;
	text = printed(&s);
	CHECK_STR(text,
		  "\nThe slowest request:\n"
		  "\n1. 100 ms, request 17, its runs are inferred\n"
		  "       at      for  phase    thread     what\n"
		  "     0 ns  50.0 ms  read     worker/12  running\n"
		  "  50.0 ms  2.00 ms  execute  worker/12  20 short pieces, 100 % running\n"
		  "  52.0 ms  30.0 ms  execute             unknown activity\n"
		  "  82.0 ms   100 us  encode   worker/12  running\n"
		  "  82.1 ms  17.0 ms  encode   worker/12  waiting for a CPU while hog/14 ran\n"
		  "  99.1 ms   900 us  …                   40 short pieces\n");
	free(text);
}

TEST(requests_that_pass_through_two_processes_name_each_other)
{
	Tfprofd__RequestHop calls[2], *list[] = { &calls[0], &calls[1] },
				      sender = TFPROFD__REQUEST_HOP__INIT;
	struct sample s;
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	struct json json = { .file = file, .compact = true };

	sample_init(&s);
	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
		calls[i] = (Tfprofd__RequestHop)TFPROFD__REQUEST_HOP__INIT;
		calls[i].request = 18 + i;
		calls[i].pid = 4243;
		calls[i].start_ns = 1000 + 10 * MS * (i + 1);
	}
	calls[0].end_ns = 1000 + 15 * MS;
	s.request.calls = list;
	s.request.n_calls = ARRAY_SIZE(calls);
	s.request.calls_left_out = 3;
	s.request.called_by = &sender;
	sender.pid = 99;
	request_json(&json, NULL, &s.request);
	fclose(file);
	CHECK(strstr(
		text,
		"\"calls\":[{\"request\":18,\"pid\":4243,\"start_ns\":10001000,\"end_ns\":15001000},"
		"{\"request\":19,\"pid\":4243,\"start_ns\":20001000,\"end_ns\":null}],\"calls_left_out\":3,"
		"\"called_by\":{\"request\":null,\"pid\":99,\"start_ns\":0,\"end_ns\":null},"));
	free(text);
	text = printed(&s);
	CHECK_STR(
		text,
		"\nThe slowest request:\n"
		"\n1. 100 ms, request 17, sent by process 99\n"
		"   at 10.0 ms it sent request 18 to process 4243, answered after 5.00 ms\n"
		"   at 20.0 ms it sent request 19 to process 4243, the end of its answer was not seen\n"
		"   and 3 others\n");
	free(text);
	sender.request = 12;
	text = printed(&s);
	CHECK(strstr(text, "request 17, sent by request 12 of process 99\n"));
	free(text);
}

TEST(a_hog_across_phases_is_shown_with_its_total_share)
{
	struct sample s;

	sample_init(&s);
	add_piece(&s, 30 * MS, TFPROFD__PHASE__PHASE_DECODE, TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE,
		  1, 0, 3);
	add_piece(&s, 40 * MS, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING,
		  TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1, 2, 0);
	add_piece(&s, 10 * MS, TFPROFD__PHASE__PHASE_ENCODE, TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE,
		  1, 0, 2);
	add_piece(&s, 20 * MS, TFPROFD__PHASE__PHASE_WRITE, TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE, 1,
		  0, 3);
	expect_verdict(
		&s, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING, 40 * MS, 40 * MS,
		TFPROFD__ACTIVITY__ACTIVITY_RUNNING, 1, 2, 0,
		"40 % execute: running a/MatMul:MatMul, thread worker/12; in total 50 % waiting for a CPU while hog/14 ran");
	expect_verdict(&s, TFPROFD__PHASE__PHASE_EXECUTE_RUNNABLE, 45 * MS, 45 * MS,
		       TFPROFD__ACTIVITY__ACTIVITY_RUNNABLE, 1, 0, 3,
		       "45 % execute: waiting for a CPU while hog/14 ran, thread worker/12");
}

TEST(a_long_timeline_is_combined_into_a_few_lines)
{
	unsigned lines = 0;
	struct sample s;
	char *text;

	sample_init(&s);
	add_piece(&s, 37 * MS, TFPROFD__PHASE__PHASE_WRITE, TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1,
		  1, 0);
	for (unsigned i = 0; i < 20; i++) {
		add_piece(&s, MS * 4 / 5, TFPROFD__PHASE__PHASE_WRITE,
			  TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 1, 0);
		add_piece(&s, MS * 7 / 10, TFPROFD__PHASE__PHASE_WRITE,
			  TFPROFD__ACTIVITY__ACTIVITY_RUNNING, i ? 1 : 2, 0, 0);
	}
	add_piece(&s, 33 * MS, TFPROFD__PHASE__PHASE_WRITE, TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1,
		  1, 0);
	text = printed(&s);
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	CHECK(lines < 30);
	CHECK(strstr(text,
		     "  37.0 ms  30.0 ms  write             40 short pieces, 53 % blocked\n"));
	free(text);
}

TEST(hostile_texts_and_references_do_no_harm)
{
	struct sample s;
	char *text;

	sample_init(&s);
	s.request.path = (char *)"/\x1b[2J\"\n\xff";
	s.request.run_thread = 99;
	s.request.n_phases = 2;
	s.request.n_threads = 2;
	s.request.n_names = 1;
	s.threads[0].name = (char *)"\x1b]0;x\x07";
	s.request.attribution = (Tfprofd__Attribution)77;
	add_piece(&s, 50 * MS, 4000, 4000, 99, 99, 99);
	add_piece(&s, 50 * MS, TFPROFD__PHASE__PHASE_EXECUTE_RUNNING,
		  TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 2, 3);
	/* Backwards. */
	s.segments[1].start_ns = 5;
	s.segments[1].end_ns = 0;
	text = printed(&s);
	CHECK(!strchr(text, '\x1b') && !strchr(text, '\x07'));
	CHECK(!strstr(text, "hog") && !strstr(text, "MatMul"));
	CHECK(strstr(text, ": request /\\x1b[2J\"\\x0a\\xff, its runs are unknown\n"));
	free(text);
}

TEST(a_line_of_json_is_one_line_with_everything)
{
	Tfprofd__RequestRun run = TFPROFD__REQUEST_RUN__INIT, *runs[] = { &run };
	Tfprofd__RequestBatch batch = TFPROFD__REQUEST_BATCH__INIT, *batches[] = { &batch };
	Tfprofd__RequestQuota quota = TFPROFD__REQUEST_QUOTA__INIT, *quotas[] = { &quota };
	struct sample s;
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);
	struct json json = { .file = file, .compact = true };

	sample_init(&s);
	s.request.start_unix_ns = 1700000000000000000ull;
	s.request.path = (char *)"/\x1b\"\\\n\xff";
	s.request.status = 201;
	s.request.read_thread = 1;
	s.request.read_end_ns = 1500;
	s.request.stream = 3;
	s.request.connection = 5;
	s.request.cut_end = true;
	s.phases[PHASE_DECODE] = 7;
	run.thread = 2;
	run.start_ns = 1;
	run.end_ns = 2;
	run.id = -1;
	batch.number = 4;
	s.request.runs = runs;
	s.request.n_runs = 1;
	s.request.batches = batches;
	s.request.n_batches = 1;
	quota.name = 2;
	quota.quota_ns = 5;
	s.request.quotas = quotas;
	s.request.n_quotas = 1;
	add_piece(&s, 100 * MS, TFPROFD__PHASE__PHASE_EXECUTE_BLOCKED,
		  TFPROFD__ACTIVITY__ACTIVITY_BLOCKED, 1, 1, 2);
	request_json(&json, NULL, &s.request);
	fclose(file);
	CHECK_STR(
		text,
		"{\"request\":17,\"start_unix_ns\":1700000000000000000,\"start_ns\":1000,\"latency_ns\":100000000,\"accepted_ns\":null,\"read_start_ns\":null,"
		"\"read_end_ns\":1500,\"write_start_ns\":null,\"end_ns\":100001000,\"cut_start\":false,\"cut_end\":true,\"lost\":false,"
		"\"reset\":false,\"no_arrival\":false,\"unaccepted\":false,\"at_library\":false,\"streaming\":false,\"phases\":{\"accept_queue\":0,\"read\":0,\"decode\":7,\"queue\":0,\"batch\":0,\"execute_running\":0,"
		"\"execute_runnable\":0,\"execute_throttled\":0,\"execute_blocked\":0,\"execute\":0,\"handler\":0,\"encode\":0,\"write\":0,\"send_held\":0,\"unknown\":0},\"held\":null,\"cause\":null,"
		"\"attribution\":\"exact\",\"protocol\":\"unknown\",\"method\":null,\"path\":\"/\\u001b\\\"\\\\\\n\xef\xbf\xbd\","
		"\"status\":200,\"grpc_status\":null,\"model\":null,\"version\":null,\"id\":null,\"pid\":0,\"connection\":5,"
		"\"local_port\":null,\"peer_port\":null,\"stream\":3,\"bytes_in\":0,\"bytes_out\":0,"
		"\"threads\":{\"read\":{\"tid\":12,\"name\":\"worker\"},\"run\":null,\"write\":null},"
		"\"runs\":[{\"tid\":13,\"start_ns\":1,\"end_ns\":2,\"id\":null,\"whole\":true}],\"runs_left_out\":0,"
		"\"batches\":[{\"batch\":4,\"queued_ns\":null,\"start_ns\":null,\"end_ns\":null,\"tasks\":null,\"rows\":null,"
		"\"padded_rows\":null}],\"batches_left_out\":0,\"calls\":[],\"calls_left_out\":0,\"called_by\":null,"
		"\"quotas\":[{\"cgroup\":\"a/MatMul:MatMul\",\"quota_ns\":5,\"period_ns\":null}],"
		"\"critical_path\":[{\"start_ns\":1000,\"end_ns\":100001000,\"phase\":\"execute_blocked\",\"activity\":\"blocked\","
		"\"thread\":{\"tid\":12,\"name\":\"worker\"},\"name\":\"futex\",\"by\":{\"tid\":13,\"name\":\"holder\"}}]}\n");
	free(text);
}

CHECK_MAIN()
