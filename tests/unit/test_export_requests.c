/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines as XSpaces: requests on lines of their own, the links to their runs, and batches. */
#include "tests/unit/exported.h"

enum { NAME_RUN, NAME_PIECE, NAME_MATMUL, NAME_FUTEX, NAME_INNER };
enum {
	TEXT_POST,
	TEXT_REST,
	TEXT_GRPC,
	TEXT_MODEL,
	TEXT_VERSION,
	TEXT_ODD_METHOD,
	TEXT_ODD_PATH,
	TEXTS
};
enum { HANDLER, BATCH_THREAD, POOL };

#define START 5000000

static const struct span_name names[] = {
	[NAME_RUN] = { .name = (char *)"SessionRun" },
	[NAME_PIECE] = { .name = (char *)"ExecutorState::Process" },
	[NAME_MATMUL] = { .name = (char *)"dense/MatMul:MatMul", .display = (char *)"MatMul" },
	[NAME_FUTEX] = { .name = (char *)"futex" },
	[NAME_INNER] = { .name = (char *)"FunctionRun" },
};

static const char *const texts[TEXTS] = {
	[TEXT_POST] = "POST",
	[TEXT_REST] = "/v1/models/m:predict?key=1",
	[TEXT_GRPC] = "/a.b.Service/ProcessBatch",
	[TEXT_MODEL] = "m",
	[TEXT_VERSION] = "3",
	[TEXT_ODD_METHOD] = "testing",
	[TEXT_ODD_PATH] = "train:Step",
};

static const struct thread threads[] = {
	[HANDLER] = { .tid = 71, .name = "handler" },
	[BATCH_THREAD] = { .tid = 72, .name = "batch" },
	[POOL] = { .tid = 73, .name = "pool" },
};

static const struct process processes[] = { { .pid = 70, .name = "server" },
					    { .pid = 90, .name = "other" } };

/* One that is whole, one that overlaps it and is truncated, and one that is left out. */
static const struct request whole = {
	.start_ns = START + 1000,
	.end_ns = START + 9000,
	.connection = 4,
	.bytes_in = 10,
	.bytes_out = 20,
	.first_segment = 0,
	.n_segments = 6,
	.stream = 5,
	.n_runs = 1,
	.method = TEXT_POST,
	.path = TEXT_REST,
	.model = TEXT_MODEL,
	.version = TEXT_VERSION,
	.status = 200,
	.grpc_status = -1,
	.peer_port = 40000,
	.local_port = 8501,
	.protocol = PROTOCOL_HTTP1,
	.attribution = ATTRIBUTION_EXACT,
};

static const struct request cut = {
	.start_ns = START + 2000,
	.end_ns = START + 20000,
	.n_runs = 0,
	.method = TEXT_POST,
	.path = TEXT_GRPC,
	.model = TEXT_NONE,
	.version = TEXT_NONE,
	.status = -1,
	.grpc_status = -1,
	.protocol = PROTOCOL_HTTP2,
	.flags = REQUEST_TRUNCATED_END,
	.lane = 1,
};

static const struct request filtered = {
	.start_ns = START + 3000,
	.end_ns = START + 4000,
	.n_runs = 1,
	.method = TEXT_NONE,
	.path = TEXT_NONE,
	.model = TEXT_NONE,
	.version = TEXT_NONE,
	.status = -1,
	.grpc_status = -1,
	.flags = REQUEST_FILTERED,
};

static const struct segment segments[] = {
	{ START + 1000, START + 1500, HANDLER, TEXT_NONE, -1, PHASE_READ, ACTIVITY_RUNNING, 0 },
	{ START + 1500, START + 2000, HANDLER, TEXT_NONE, -1, PHASE_DECODE, ACTIVITY_RUNNING, 0 },
	/* A hole until 3000. */
	{ START + 3000, START + 5000, HANDLER, NAME_MATMUL, -1, PHASE_EXECUTE_RUNNING,
	  ACTIVITY_RUNNING, 0 },
	{ START + 5000, START + 6000, POOL, TEXT_NONE, BATCH_THREAD, PHASE_EXECUTE_RUNNABLE,
	  ACTIVITY_RUNNABLE, 0 },
	{ START + 6000, START + 7000, POOL, NAME_FUTEX, HANDLER, PHASE_EXECUTE_BLOCKED,
	  ACTIVITY_BLOCKED, 0 },
	{ START + 7000, START + 8500, HANDLER, TEXT_NONE, -1, PHASE_ENCODE, ACTIVITY_UNKNOWN, 0 },
};

static struct span spans[] = {
	{ .start_ns = START + 3000,
	  .end_ns = START + 7000,
	  .context = 7,
	  .step = 41,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN,
	  .request = 1 },
	{ .start_ns = START + 3100,
	  .end_ns = START + 4000,
	  .context = 8,
	  .step = 42,
	  .kind = SPAN_RUN,
	  .name = NAME_INNER,
	  .request = 1,
	  .flags = SPAN_INNER },
	{ .start_ns = START + 7500,
	  .end_ns = START + 7600,
	  .context = 9,
	  .step = 43,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN },
	{ .start_ns = START + 8000,
	  .end_ns = START + 8100,
	  .context = 10,
	  .step = 44,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN,
	  .request = 3 },
	{ .start_ns = START + 4000,
	  .end_ns = START + 9500,
	  .batch = 0,
	  .kind = SPAN_BATCH,
	  .name = NAME_RUN,
	  .thread = BATCH_THREAD },
	{ .start_ns = START + 4000,
	  .end_ns = START + 4500,
	  .context = 11,
	  .step = 45,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN,
	  .thread = BATCH_THREAD },
	{ .start_ns = START + 9600,
	  .end_ns = START + 9900,
	  .batch = 1,
	  .kind = SPAN_BATCH,
	  .name = NAME_RUN,
	  .thread = BATCH_THREAD,
	  .flags = SPAN_TRUNCATED_END },
	{ .start_ns = START + 3000,
	  .end_ns = START + 9500,
	  .context = 7,
	  .step = 41,
	  .kind = SPAN_EXECUTOR,
	  .name = NAME_PIECE,
	  .thread = POOL },
};

static struct batch batches[] = {
	{ .start_ns = START + 4000,
	  .end_ns = START + 9500,
	  .thread = BATCH_THREAD,
	  .first_task = 0,
	  .n_tasks = 2,
	  .size = 2,
	  .padded = 8 },
	{ .start_ns = START + 9600,
	  .end_ns = START + 9900,
	  .thread = BATCH_THREAD,
	  .flags = SPAN_TRUNCATED_END,
	  .first_task = 2,
	  .n_tasks = 1 },
};

static const struct batch_task tasks[] = {
	{ .queued_ns = START + 2500, .batch = 0, .request = 1 },
	{ .queued_ns = START + 2600, .batch = 0, .request = 2 },
	{ .queued_ns = START + 2700, .batch = 1, .request = 2 },
	{ .queued_ns = START + 2800, .batch = UINT32_MAX, .request = 2 },
};

static struct request requests[3];

static struct timeline sample(void)
{
	requests[0] = whole;
	requests[1] = cut;
	requests[2] = filtered;
	return (struct timeline){
		.start_ns = START,
		.end_ns = START + 10000,
		.start_unix_ns = 1700000000000000000,
		.spans = spans,
		.n_spans = ARRAY_SIZE(spans),
		.threads = (struct thread *)threads,
		.n_threads = ARRAY_SIZE(threads),
		.processes = (struct process *)processes,
		.n_processes = 1,
		.names = (struct span_name *)names,
		.n_names = ARRAY_SIZE(names),
		.requests = requests,
		.n_requests = ARRAY_SIZE(requests),
		.segments = (struct segment *)segments,
		.n_segments = ARRAY_SIZE(segments),
		.batches = batches,
		.n_batches = ARRAY_SIZE(batches),
		.batch_tasks = (struct batch_task *)tasks,
		.n_batch_tasks = ARRAY_SIZE(tasks),
		.texts = (char **)texts,
		.n_texts = TEXTS,
		.n_lanes = 2,
	};
}

static void check_event(const XPlane *plane, const XEvent *event, const char *shown,
			uint64_t start_ns, uint64_t end_ns)
{
	CHECK_STR(event_display(plane, event)[0] ? event_display(plane, event)
						 : event_name(plane, event),
		  shown);
	CHECK_EQ(event->offset_ps / 1000, start_ns);
	CHECK_EQ((event->offset_ps + event->duration_ps) / 1000, end_ns);
}

TEST(a_whole_request_is_a_root_with_its_model_and_details)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 1);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XLine *line = host->lines[0];
	const XEvent *root = line->events[0];
	static const struct {
		const char *name;
		int64_t value;
	} numbers[] = { { "_r", -1 },           { "step_num", 1 },  { "request", 1 },
			{ "status", 200 },      { "bytes_in", 10 }, { "bytes_out", 20 },
			{ "connection", 4 },    { "stream", 5 },    { "peer_port", 40000 },
			{ "local_port", 8501 }, { "runs", 1 } };

	CHECK_STR(line->name, "requests 1");
	CHECK_EQ(line->display_id, 1);
	CHECK(line->id > 0x3fffffff && line->id < 0x7fffffff);
	check_event(host, root, "POST /v1/models/m predict", 1000, 9000);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		CHECK(has_int(host, root, numbers[i].name, numbers[i].value));
	CHECK_STR(stat_text(host, root, "model_id"), "m:3");
	CHECK_STR(stat_text(host, root, "protocol"), "HTTP/1");
	CHECK_STR(stat_text(host, root, "method"), "POST");
	CHECK_STR(stat_text(host, root, "path"), "/v1/models/m:predict?key=1");
	CHECK_STR(stat_text(host, root, "attribution"), "exact");
	CHECK(!find_stat(host, root, "grpc_status") && !find_stat(host, root, "cut") &&
	      !find_stat(host, root, "_p"));
	CHECK_EQ(find_line(host, "handler/71")->display_id, 3);
	space_free(space);
}

TEST(phases_cover_a_request_and_gaps_are_unknown_time)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 1);
	const XPlane *host = find_plane(space, "/host:CPU");
	XEvent **events = host->lines[0]->events;

	CHECK_EQ(host->lines[0]->n_events, 8);
	check_event(host, events[1], "read", 1000, 1500);
	check_event(host, events[2], "decode", 1500, 2000);
	check_event(host, events[3], "unknown", 2000, 3000);
	check_event(host, events[4], "put into a batch", 2500, 2500);
	check_event(host, events[5], "execute", 3000, 7000);
	check_event(host, events[6], "encode", 7000, 8500);
	check_event(host, events[7], "unknown", 8500, 9000);
	CHECK_STR(stat_text(host, events[1], "thread"), "handler/71");
	CHECK(!find_stat(host, events[5], "thread"));
	space_free(space);
}

TEST(from_level_two_on_phases_contain_what_the_threads_waited_for)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XLine *line = host->lines[0];
	const XEvent *waiting = find_event(host, line, "waiting for a CPU"),
		     *blocked = find_event(host, line, "blocked: futex");

	CHECK_EQ(line->n_events, 12);
	check_event(host, waiting, "waiting for a CPU", 5000, 6000);
	CHECK_STR(stat_text(host, waiting, "on_cpu"), "batch/72");
	CHECK_STR(stat_text(host, waiting, "thread"), "pool/73");
	check_event(host, blocked, "blocked: futex", 6000, 7000);
	CHECK_STR(stat_text(host, blocked, "waker"), "handler/71");
	space_free(space);
}

TEST(a_throttled_piece_names_the_cgroup_and_its_quota)
{
	struct segment throttled[ARRAY_SIZE(segments)];
	struct timeline t = sample();
	const XEvent *event;
	const XPlane *host;
	XSpace *space;

	memcpy(throttled, segments, sizeof(throttled));
	throttled[4].activity = ACTIVITY_THROTTLED;
	throttled[4].by = -1;
	t.segments = throttled;
	t.quotas[0] =
		(struct quota){ .name = NAME_FUTEX, .quota_ns = 20000000, .period_ns = 100000000 };
	t.n_quotas = 1;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	event = find_event(host, host->lines[0], "throttled");
	check_event(host, event, "throttled", 6000, 7000);
	CHECK_STR(stat_text(host, event, "thread"), "pool/73");
	CHECK_STR(stat_text(host, event, "cgroup"), "futex");
	CHECK_STR(stat_text(host, event, "quota"), "20 % of a CPU, 20.0 ms per 100 ms");
	CHECK(!find_event(host, host->lines[0], "blocked: futex"));
	space_free(space);
}

TEST(at_level_three_phases_also_contain_the_operations)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 3);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XLine *line = host->lines[0];

	CHECK_EQ(line->n_events, 13);
	check_event(host, find_event(host, line, "running: dense/MatMul:MatMul"), "running: MatMul",
		    3000, 5000);
	space_free(space);
}

TEST(a_request_without_segments_is_unknown_time)
{
	struct timeline t = sample();
	XSpace *space;
	const XPlane *host;

	requests[0].n_segments = 0;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	CHECK_EQ(host->lines[0]->n_events, 3);
	check_event(host, host->lines[0]->events[1], "unknown", 1000, 9000);
	space_free(space);
}

TEST(a_request_whose_times_are_bounds_is_shown_and_not_counted_and_one_that_is_filtered_is_not_shown)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XEvent *root = find_line(host, "requests 2")->events[0];

	check_event(host, root, "gRPC ProcessBatch", 2000, 10000);
	CHECK_STR(stat_text(host, root, "cut"), "end");
	CHECK_STR(stat_text(host, root, "attribution"), "none");
	CHECK(has_int(host, root, "request", 2));
	CHECK(!find_stat(host, root, "_r") && !find_stat(host, root, "model_id") &&
	      !find_stat(host, root, "step_num"));
	CHECK(!find_stat(host, root, "flow"));
	CHECK(!shows(host, "request"));
	space_free(space);

	requests[0].flags = REQUEST_LOST;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	CHECK_STR(stat_text(host, host->lines[0]->events[0], "incomplete"), "records were lost");
	CHECK(!find_stat(host, host->lines[0]->events[0], "_r"));
	space_free(space);
}

TEST(a_run_of_a_request_is_not_a_root_but_in_the_event_at_the_requests_arrow)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");
	XEvent **events = find_line(host, "handler/71")->events;
	const XStat *out = find_stat(host, host->lines[0]->events[0], "flow"),
		    *in = find_stat(host, events[0], "flow");

	CHECK_EQ(find_line(host, "handler/71")->n_events, 5);
	check_event(host, events[0], "POST /v1/models/m predict", 3000, 7000);
	CHECK(has_int(host, events[0], "request", 1));
	CHECK(out && in && out->int64_value >> 2 == in->int64_value >> 2);
	CHECK(out && in && (out->int64_value & 3) == 2 && (in->int64_value & 3) == 1);
	check_event(host, events[1], "SessionRun", 3000, 7000);
	CHECK(has_int(host, events[1], "_p", 7));
	/* A run in it needs no arrow of its own; that of a request that is not shown has none to
	 * start from. */
	CHECK_STR(event_name(host, events[2]), "FunctionRun");
	CHECK_STR(event_name(host, events[4]), "SessionRun");
	for (size_t i = 0; i < 5; i++)
		CHECK(!find_stat(host, events[i], "_r") && !find_stat(host, events[i], "_c"));
	CHECK(!find_stat(host, events[1], "attribution"));
	CHECK_STR(stat_text(host, events[3], "attribution"), "orphan");
	CHECK(has_int(host, find_line(host, "pool/73")->events[0], "_c", 7));
	space_free(space);
}

TEST(an_arrow_leads_from_where_a_request_was_sent_to_the_request_elsewhere)
{
	struct hop hops[] = { { .start_ns = START + 3500, .caller = 1, .callee = 2 },
			      { .start_ns = START + 4500, .caller = 1, .callee = 3 } };
	struct timeline t = sample();
	const XStat *out, *in;
	const XPlane *host;
	XSpace *space;

	t.hops = hops;
	t.n_hops = ARRAY_SIZE(hops);
	requests[0].n_calls = 2;
	requests[1].hop = 1;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK(has_int(host, host->lines[0]->events[0], "calls", 2));
	CHECK_STR(stat_text(host, host->lines[1]->events[0], "sent_by"), "request 1 of process 70");
	out = find_stat(host, find_event(host, host->lines[0], "request sent"), "flow");
	in = find_stat(host, host->lines[1]->events[1], "flow");
	CHECK(out && in && out->int64_value >> 2 == in->int64_value >> 2);
	CHECK(out && in && (out->int64_value & 3) == 2 && (in->int64_value & 3) == 1);
	check_event(host, find_event(host, host->lines[0], "request sent"), "request sent", 3500,
		    3500);
	CHECK(has_int(host, find_event(host, host->lines[0], "request sent"), "sent", 2));
	space_free(space);
	/* Where it is unknown for which request, none does. */
	hops[0].caller = 0;
	requests[0].first_call = requests[0].n_calls = 1;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK_STR(stat_text(host, host->lines[1]->events[0], "sent_by"), "process 70");
	CHECK(!find_stat(host, host->lines[1]->events[1], "flow"));
	space_free(space);
}

TEST(runs_of_a_process_without_requests_are_roots_except_in_batches)
{
	struct timeline t = sample();
	XSpace *space;
	const XPlane *host;

	t.n_processes = 2;
	for (uint32_t i = 0; i < t.n_requests; i++)
		requests[i].process = 1;
	spans[0].request = spans[1].request = spans[3].request = 0;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	for (size_t i = 0; i < 4; i++) {
		const XEvent *run = find_line(host, "handler/71")->events[i];
		bool inner = !strcmp(event_name(host, run), "FunctionRun");

		CHECK_EQ(has_int(host, run, "_r", 1), !inner);
		CHECK(inner || !strcmp(stat_text(host, run, "model_id"), "runs of server/70"));
	}
	CHECK(!find_stat(host, find_event(host, find_line(host, "batch/72"), "SessionRun"), "_r"));
	CHECK(has_int(host, host->lines[0]->events[0], "pid", 90));
	space_free(space);
	spans[0].request = spans[1].request = 1;
	spans[3].request = 3;
}

TEST(a_batch_is_linked_to_its_tasks_and_has_its_sizes)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 1);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XLine *line = find_line(host, "batch/72");
	const XEvent *batch = line->events[0],
		     *inputs = find_event(host, line, "ConcatInputTensors");
	const XEvent *task = find_event(host, host->lines[0], "ScheduleWithoutSplit");
	size_t n = 0;

	/* A run begins with it, so that it cannot end with the first answer. */
	check_event(host, batch, "ProcessBatch", 4000, 9500);
	CHECK(has_int(host, batch, "batch_size_before_padding", 2) &&
	      has_int(host, batch, "requests", 2));
	CHECK(has_int(host, batch, "_ct", 4) && has_int(host, batch, "_c", 1) &&
	      has_int(host, batch, "step_num", 1));
	CHECK(has_int(host, task, "_pt", 4) && has_int(host, task, "_p", 1) &&
	      has_int(host, task, "batching_input_task_size", 1));
	check_event(host, inputs, "ConcatInputTensors", 4000, 4000);
	CHECK(has_int(host, inputs, "batch_size_after_padding", 8) &&
	      has_int(host, inputs, "padding_amount", 6));
	/* Tasks of a truncated batch, or without a batch, have nothing to be linked to. */
	check_event(host, find_event(host, line, "batch"), "batch", 9600, 9900);
	CHECK(!find_stat(host, find_event(host, line, "batch"), "_c"));
	for (size_t i = 0; i < find_line(host, "requests 2")->n_events; i++)
		n += !strcmp(event_name(host, find_line(host, "requests 2")->events[i]),
			     "ScheduleWithoutSplit");
	CHECK_EQ(n, 1);
	CHECK_EQ(space->n_warnings, 2);
	space_free(space);
}

TEST(the_event_that_readers_take_for_a_batch_ends_with_its_first_answer)
{
	struct timeline t = sample();
	XSpace *space;
	const XPlane *host;
	const XLine *line;

	spans[5].start_ns++;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	line = find_line(host, "batch/72");
	check_event(host, line->events[0], "batch", 4000, 9500);
	check_event(host, line->events[1], "ProcessBatch", 4000, 9000);
	check_event(host, line->events[2], "process", 4000, 9000);
	check_event(host, line->events[3], "ConcatInputTensors", 4000, 4000);
	check_event(host, line->events[4], "SessionRun", 4001, 4500);
	CHECK(!find_stat(host, line->events[0], "_c") && find_stat(host, line->events[1], "_c"));
	space_free(space);
	spans[5].start_ns--;
}

TEST(unknown_sizes_are_not_shown)
{
	struct timeline t = sample();
	XSpace *space;
	const XPlane *host;

	batches[0].size = batches[0].padded = 0;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK(!shows(host, "ConcatInputTensors"));
	CHECK(!find_stat(host, find_event(host, host->lines[0], "ScheduleWithoutSplit"),
			 "batching_input_task_size"));
	CHECK(!find_stat(host, find_line(host, "batch/72")->events[0],
			 "batch_size_before_padding"));
	space_free(space);
	batches[0].size = 5;
	batches[0].padded = 5;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK(!find_stat(host, find_event(host, host->lines[0], "ScheduleWithoutSplit"),
			 "batching_input_task_size"));
	CHECK(has_int(host, find_event(host, find_line(host, "batch/72"), "ConcatInputTensors"),
		      "padding_amount", 0));
	space_free(space);
	batches[0].size = 2;
	batches[0].padded = 8;
}

TEST(no_name_chosen_by_a_client_is_taken_for_something_else)
{
	struct timeline t = sample();
	static const struct {
		uint32_t method, path;
		int32_t grpc_status;
		const char *name;
	} cases[] = {
		{ TEXT_ODD_METHOD, TEXT_ODD_PATH, -1, "request train Step" },
		{ TEXT_ODD_METHOD, TEXT_REST, -1, "HTTP /v1/models/m predict" },
		{ TEXT_ODD_METHOD, TEXT_NONE, -1, "request" },
		{ TEXT_POST, TEXT_NONE, -1, "POST request" },
		{ TEXT_NONE, TEXT_NONE, 0, "gRPC request" },
		{ TEXT_POST, TEXT_ODD_PATH, 0, "gRPC request" },
		{ TEXT_POST, TEXT_GRPC, 0, "gRPC ProcessBatch" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		XSpace *space;
		const XPlane *host;

		requests[0].method = cases[i].method;
		requests[0].path = cases[i].path;
		requests[0].grpc_status = cases[i].grpc_status;
		space = export_at(&t, 1);
		host = find_plane(space, "/host:CPU");
		CHECK_STR(event_name(host, host->lines[0]->events[0]), cases[i].name);
		space_free(space);
	}
}

TEST(a_request_without_a_model_has_its_path_for_one_as_long_as_there_are_few)
{
	enum { MANY = 2 * PATH_MODELS_MAX };
	static struct request many[MANY];
	static char paths[MANY][16];
	char *path_texts[MANY];
	struct timeline t = sample();
	size_t n_other = 0;
	XSpace *space;
	const XPlane *host;

	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(paths[i], sizeof(paths[i]), "/p%u?x", i);
		path_texts[i] = paths[i];
		many[i] = cut;
		many[i].flags = 0;
		many[i].path = i;
		many[i].start_ns = START + i * 10;
		many[i].end_ns = START + i * 10 + 5;
		many[i].lane = 0;
	}
	t.requests = many;
	t.n_requests = MANY;
	t.texts = path_texts;
	t.n_texts = MANY;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	for (size_t i = 0; i < host->lines[0]->n_events; i++)
		if (find_stat(host, host->lines[0]->events[i], "_r"))
			n_other += !strcmp(stat_text(host, host->lines[0]->events[i], "model_id"),
					   "other paths");
	CHECK_EQ(n_other, PATH_MODELS_MAX);
	CHECK_STR(stat_text(host, host->lines[0]->events[0], "model_id"), "/p0");
	many[0].path = TEXT_NONE;
	space_free(space);
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK_STR(stat_text(host, host->lines[0]->events[0], "model_id"), "requests");
	space_free(space);
}

TEST(every_allocation_that_fails_gives_enomem_and_a_limit_efbig)
{
	const struct export_options options = { .level = 3, .hostname = "host" };
	struct timeline t = sample();

	check_limits(&t, options, check_allocations_fail(&t, &options, 10, 100));
}

CHECK_MAIN()
