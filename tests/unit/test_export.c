/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines as XSpaces: threads, what ran on them, and the scheduler. */
#include "tests/unit/exported.h"

enum {
	NAME_RUN,
	NAME_EXECUTOR,
	NAME_DONE,
	NAME_MATMUL,
	NAME_ARG,
	NAME_SCHEDULE,
	NAME_FUTEX,
	NAME_PREEMPTED,
	NAME_ODD
};

#define START 5000000
#define BIG_CONTEXT (UINT64_C(1) << 63 | 5)

/* One run on two threads, with everything that can be in it. */
static struct span_name names[] = {
	[NAME_RUN] = { .name = (char *)"SessionRun" },
	[NAME_EXECUTOR] = { .name = (char *)"ExecutorState::Process" },
	[NAME_DONE] = { .name = (char *)"ExecutorDoneCallback" },
	[NAME_MATMUL] = { .name = (char *)"dense/MatMul:MatMul", .display = (char *)"MatMul" },
	[NAME_ARG] = { .name = (char *)"x:_Arg", .display = (char *)"_Arg" },
	[NAME_SCHEDULE] = { .name = (char *)"ExecutorState::ScheduleReady" },
	[NAME_FUTEX] = { .name = (char *)"futex" },
	[NAME_PREEMPTED] = { .name = (char *)"preempted" },
	[NAME_ODD] = { .name = (char *)"state: D (disk)" },
};

static struct thread threads[] = {
	{ .tid = 71, .process = 0, .name = "worker\xff" },
	{ .tid = 70, .process = 0, .name = "exactly16bytes!!" },
	{ .tid = 12, .process = 1, .name = "idle" },
};

static struct process processes[] = {
	{ .pid = 70, .name = "server" },
	{ .pid = 12, .name = "other" },
};

static struct span spans[] = {
	{ .start_ns = START,
	  .end_ns = START + 9000,
	  .context = 7,
	  .step = 41,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN },
	{ .start_ns = START + 1000,
	  .end_ns = START + 2000,
	  .waker = 1,
	  .kind = SPAN_BLOCKED,
	  .name = NAME_FUTEX },
	{ .start_ns = START + 2000,
	  .end_ns = START + 2500,
	  .cpu_user = -1,
	  .kind = SPAN_RUNNABLE,
	  .name = NAME_PREEMPTED },
	{ .start_ns = START + 9500,
	  .end_ns = START + 12000,
	  .context = BIG_CONTEXT,
	  .step = -1,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN,
	  .flags = SPAN_TRUNCATED_END },

	{ .start_ns = START - 500,
	  .end_ns = START + 100,
	  .context = 7,
	  .step = 41,
	  .thread = 1,
	  .kind = SPAN_EXECUTOR,
	  .name = NAME_EXECUTOR,
	  .flags = SPAN_TRUNCATED_START | SPAN_TRUNCATED_END },
	{ .start_ns = START + 1000,
	  .end_ns = START + 8000,
	  .context = 7,
	  .step = 41,
	  .thread = 1,
	  .kind = SPAN_EXECUTOR,
	  .name = NAME_EXECUTOR },
	{ .start_ns = START + 1000,
	  .end_ns = START + 1100,
	  .thread = 1,
	  .kind = SPAN_OP,
	  .name = NAME_ARG,
	  .flags = SPAN_CHEAP,
	  .step = 41 },
	{ .start_ns = START + 1200,
	  .end_ns = START + 5000,
	  .step = 41,
	  .thread = 1,
	  .kind = SPAN_OP,
	  .name = NAME_MATMUL },
	{ .start_ns = START + 1300,
	  .end_ns = START + 2000,
	  .waker = 0,
	  .thread = 1,
	  .kind = SPAN_BLOCKED,
	  .name = NAME_FUTEX },
	{ .start_ns = START + 2000,
	  .end_ns = START + 2100,
	  .cpu_user = 0,
	  .thread = 1,
	  .kind = SPAN_RUNNABLE,
	  .name = NAME_PREEMPTED },
	{ .start_ns = START + 2200,
	  .end_ns = START + 2300,
	  .waker = -1,
	  .thread = 1,
	  .kind = SPAN_BLOCKED,
	  .name = NAME_ODD },
	{ .start_ns = START + 5100,
	  .end_ns = START + 5200,
	  .step = -1,
	  .thread = 1,
	  .kind = SPAN_SCHEDULE,
	  .name = NAME_SCHEDULE },
	{ .start_ns = START + 7000,
	  .end_ns = START + 7500,
	  .context = 7,
	  .step = 41,
	  .thread = 1,
	  .kind = SPAN_DONE,
	  .name = NAME_DONE },
};

static struct cpu_slice slices[] = {
	{ .start_ns = START,
	  .end_ns = START + 1000,
	  .thread = 0,
	  .cpu = 0,
	  .reason = NAME_FUTEX,
	  .waker = -1 },
	{ .start_ns = START + 1000,
	  .end_ns = START + 8000,
	  .thread = 1,
	  .cpu = 0,
	  .reason = NAME_PREEMPTED,
	  .waker = 0 },
	{ .start_ns = START + 2000,
	  .end_ns = START + 9000,
	  .thread = 0,
	  .cpu = 5,
	  .reason = NAME_FUTEX,
	  .waker = 1 },
};

static char *warnings[] = { (char *)"3 events were lost" };

static struct timeline sample(void)
{
	return (struct timeline){
		.start_ns = START,
		.end_ns = START + 10000,
		.start_unix_ns = 1700000000000000000,
		.spans = spans,
		.n_spans = ARRAY_SIZE(spans),
		.slices = slices,
		.n_slices = ARRAY_SIZE(slices),
		.threads = threads,
		.n_threads = ARRAY_SIZE(threads),
		.processes = processes,
		.n_processes = 1,
		.names = names,
		.n_names = ARRAY_SIZE(names),
		.warnings = warnings,
		.n_warnings = 1,
	};
}

TEST(runs_executors_and_callbacks_have_tensorflow_names_and_stats)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");
	const XEvent *run = host->lines[0]->events[0], *cut_run = host->lines[0]->events[3];
	const XEvent *cut = host->lines[1]->events[0], *executor = host->lines[1]->events[1];
	const XEvent *done = host->lines[1]->events[host->lines[1]->n_events - 1];
	const XStat *context = find_stat(host, cut_run, "_p");

	CHECK_STR(event_name(host, run), "SessionRun");
	CHECK_EQ(run->n_stats, 4);
	CHECK(has_int(host, run, "id", 41));
	CHECK(has_int(host, run, "_r", 1));
	CHECK(has_int(host, run, "_pt", 2));
	CHECK(has_int(host, run, "_p", 7));
	CHECK_EQ(cut_run->n_stats, 3);
	CHECK(!find_stat(host, cut_run, "_r"));
	CHECK(context && context->value_case == TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
	CHECK(context && context->uint64_value == BIG_CONTEXT);
	CHECK_STR(stat_text(host, cut_run, "cut"), "end");
	CHECK_STR(stat_text(host, cut, "cut"), "start and end");

	CHECK_STR(event_name(host, executor), "ExecutorState::Process");
	CHECK_EQ(executor->n_stats, 3);
	CHECK(has_int(host, executor, "id", 41));
	CHECK(has_int(host, executor, "_ct", 2));
	CHECK(has_int(host, executor, "_c", 7));
	CHECK_STR(event_name(host, done), "ExecutorDoneCallback");
	CHECK_EQ(done->n_stats, 3);
	CHECK(has_int(host, done, "id", 41));
	CHECK(has_int(host, done, "_ct", 2));
	CHECK(has_int(host, done, "_c", 7));
	space_free(space);
}

TEST(pieces_without_an_observed_end_are_marked_by_a_common_name)
{
	struct timeline t = sample();
	struct span copies[ARRAY_SIZE(spans)];
	const Tensorflow__Profiler__XEventMetadata *metadata;
	const XEvent *executor;
	const XPlane *host;
	XSpace *space;

	t.spans = memcpy(copies, spans, sizeof(spans));
	for (uint64_t i = 0; i < t.n_spans; i++)
		if (t.spans[i].kind == SPAN_EXECUTOR)
			t.spans[i].flags |= SPAN_END_NOT_SEEN;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	executor = host->lines[1]->events[1];
	CHECK_STR(event_name(host, executor), "ExecutorState::Process");
	CHECK_EQ(executor->n_stats, 3);
	metadata = host->event_metadata[executor->metadata_id - 1]->value;
	CHECK_EQ(metadata->n_stats, 1);
	CHECK_STR(host->stat_metadata[metadata->stats[0]->metadata_id - 1]->value->name, "end");
	CHECK_STR(host->stat_metadata[metadata->stats[0]->ref_value - 1]->value->name, "not seen");
	space_free(space);
}

TEST(an_operation_shows_whether_its_end_is_an_upper_bound_or_inferred)
{
	struct timeline t = sample();
	struct span copies[ARRAY_SIZE(spans)];
	const XPlane *host;
	XSpace *space;

	for (int inferred = 0; inferred < 2; inferred++) {
		t.spans = memcpy(copies, spans, sizeof(spans));
		for (uint64_t i = 0; i < t.n_spans; i++)
			if (copies[i].name == NAME_MATMUL)
				copies[i].flags |=
					SPAN_END_NOT_SEEN | (inferred ? SPAN_END_INFERRED : 0);
		space = export_at(&t, 2);
		host = find_plane(space, "/host:CPU");
		CHECK_STR(stat_text(host, host->lines[1]->events[2], "end"),
			  inferred ? "inferred" : "not seen");
		space_free(space);
	}
}

TEST(operations_are_named_scope_op_type_and_off_cpu_time_in_them_is_not_an_operation)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");
	XEvent **waiting = host->lines[0]->events, **op = host->lines[1]->events + 2;

	CHECK_STR(event_name(host, op[0]), "dense/MatMul:MatMul");
	CHECK_STR(event_display(host, op[0]), "MatMul");
	CHECK_EQ(op[0]->n_stats, 0);
	CHECK_STR(event_name(host, op[1]), "blocked: futex");
	CHECK_STR(stat_text(host, op[1], "waker"), "worker?/71");
	CHECK_STR(event_name(host, op[2]), "waiting for a CPU");
	CHECK_STR(stat_text(host, op[2], "reason"), "preempted");
	CHECK_STR(event_name(host, op[3]), "blocked: state: D (disk)");
	CHECK_EQ(op[3]->n_stats, 0);

	CHECK_STR(event_name(host, waiting[1]), "blocked: futex");
	CHECK_STR(stat_text(host, waiting[1], "waker"), "exactly16bytes!!/70");
	CHECK_STR(event_name(host, waiting[2]), "waiting for a CPU");
	CHECK_STR(event_display(host, waiting[2]), "");
	space_free(space);
}

TEST(a_throttled_thread_shows_the_cgroup_and_its_quota)
{
	struct span throttled[ARRAY_SIZE(spans)];
	struct timeline t = sample();
	const XEvent *event;
	const XPlane *host;
	XSpace *space;

	memcpy(throttled, spans, sizeof(throttled));
	throttled[2].kind = SPAN_THROTTLED;
	throttled[2].quota = 0;
	t.spans = throttled;
	t.quotas[0] = (struct quota){ .name = NAME_FUTEX, .quota_ns = 50, .period_ns = 100 };
	t.n_quotas = 1;
	space = export_at(&t, 2);
	host = find_plane(space, "/host:CPU");
	event = host->lines[0]->events[2];
	CHECK_STR(event_name(host, event), "throttled");
	CHECK_EQ(event->n_stats, 2);
	CHECK_STR(stat_text(host, event, "cgroup"), "futex");
	CHECK_STR(stat_text(host, event, "quota"), "50 % of a CPU, 50 ns per 100 ns");
	space_free(space);
}

TEST(each_level_shows_what_is_documented)
{
	struct timeline t = sample();
	static const struct {
		unsigned int level;
		size_t events;
		bool op, cheap, schedule, sched;
	} cases[] = {
		{ 1, 2, false, false, false, false },
		{ 2, 11, true, false, false, false },
		{ 3, 13, true, true, true, true },
		{ 99, 13, true, true, true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		XSpace *space = export_at(&t, cases[i].level);
		const XPlane *host = find_plane(space, "/host:CPU");
		size_t n = 0;

		for (size_t line = 0; line < host->n_lines; line++)
			n += strcmp(host->lines[line]->name, "_counters_")
				     ? host->lines[line]->n_events
				     : 0;
		CHECK_EQ(n, cases[i].events);
		CHECK_EQ(shows(host, "dense/MatMul:MatMul"), cases[i].op);
		CHECK_EQ(shows(host, "x:_Arg"), cases[i].cheap);
		CHECK_EQ(shows(host, "ExecutorState::ScheduleReady"), cases[i].schedule);
		CHECK_EQ(!!find_plane(space, "/device:CUSTOM:sched"), cases[i].sched);
		CHECK(find_plane(space, "Task Environment"));
		CHECK_EQ(space->n_warnings, 3);
		CHECK_STR(
			space->warnings[1],
			"Note: 1 of 2 runs were captured in part: the beginning of 0 of them and the end of 1 are missing. "
			"They count in no latency and no percentile, and are not steps.");
		CHECK_EQ(space->n_errors, 1);
		space_free(space);
	}
}

TEST(lines_share_a_small_time_base_and_are_sorted_longer_first)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 3);

	for (size_t p = 0; p < space->n_planes; p++) {
		const XPlane *plane = space->planes[p];

		for (size_t i = 0; i < p; i++)
			CHECK(space->planes[i]->id != plane->id);
		for (size_t l = 0; l < plane->n_lines; l++) {
			CHECK_EQ(plane->lines[l]->timestamp_ns, 1000);
			CHECK(plane->lines[l]->n_events);
			for (size_t e = 1; e < plane->lines[l]->n_events; e++) {
				const XEvent *a = plane->lines[l]->events[e - 1],
					     *b = plane->lines[l]->events[e];

				CHECK(a->offset_ps < b->offset_ps ||
				      (a->offset_ps == b->offset_ps &&
				       a->duration_ps >= b->duration_ps));
			}
		}
		for (size_t i = 0; i < plane->n_stat_metadata; i++)
			CHECK(strcmp(plane->stat_metadata[i]->value->name, "group_id"));
	}
	space_free(space);
}

TEST(times_are_picoseconds_from_the_start_of_the_window_and_stay_inside_it)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");

	CHECK_EQ(host->lines[0]->events[1]->offset_ps, 1000000);
	CHECK_EQ(host->lines[0]->events[1]->duration_ps, 1000000);
	CHECK_EQ(host->lines[0]->events[3]->offset_ps, 9500000);
	CHECK_EQ(host->lines[0]->events[3]->duration_ps, 500000);
	CHECK_EQ(host->lines[1]->events[0]->offset_ps, 0);
	CHECK_EQ(host->lines[1]->events[0]->duration_ps, 100000);
	space_free(space);
}

TEST(a_line_is_a_thread_and_names_its_process_only_among_several)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 2);
	const XPlane *host = find_plane(space, "/host:CPU");

	/* What is behind them are counters. */
	CHECK_STR(host->lines[2]->name, "_counters_");
	CHECK_EQ(host->lines[0]->id, 71);
	CHECK_STR(host->lines[0]->name, "worker?/71");
	CHECK_STR(host->lines[0]->display_name, "");
	CHECK_EQ(host->lines[0]->display_id, 2);
	CHECK_STR(host->lines[1]->name, "exactly16bytes!!/70");
	CHECK_EQ(host->lines[1]->display_id, 1);
	space_free(space);

	t.n_processes = 2;
	space = export_at(&t, 1);
	host = find_plane(space, "/host:CPU");
	CHECK_EQ(host->n_lines, 1);
	CHECK_STR(host->lines[0]->name, "worker?/71");
	CHECK_STR(host->lines[0]->display_name, "[70] server worker?/71");
	space_free(space);
}

TEST(the_scheduler_has_a_line_per_cpu)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 3);
	const XPlane *sched = find_plane(space, "/device:CUSTOM:sched");
	const XEvent *second;

	CHECK(sched->id <= 199);
	CHECK_EQ(sched->n_lines, 2);
	CHECK_STR(sched->lines[0]->name, "CPU 0");
	CHECK_EQ(sched->lines[0]->display_id, 1);
	CHECK_EQ(sched->lines[0]->n_events, 2);
	CHECK_STR(sched->lines[1]->name, "CPU 5");
	CHECK_EQ(sched->lines[1]->n_events, 1);
	second = sched->lines[0]->events[1];
	CHECK_STR(event_name(sched, second), "exactly16bytes!!");
	CHECK(has_int(sched, second, "tid", 70));
	CHECK(has_int(sched, second, "pid", 70));
	CHECK_STR(stat_text(sched, second, "reason"), "preempted");
	CHECK_STR(stat_text(sched, second, "waker"), "worker?/71");
	CHECK(!find_stat(sched, sched->lines[0]->events[0], "waker"));
	space_free(space);
}

TEST(the_task_environment_has_the_times_of_the_window)
{
	struct timeline t = sample();
	XSpace *space = export_at(&t, 1);
	const XPlane *plane = find_plane(space, "Task Environment");

	CHECK_STR(space->hostnames[0], "host");
	CHECK_EQ(plane->n_stats, 2);
	for (size_t i = 0; i < plane->n_stats; i++) {
		CHECK_STR(plane->stat_metadata[i]->value->name,
			  i ? "profile_stop_time" : "profile_start_time");
		CHECK_EQ(plane->stats[i]->value_case,
			 TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
		CHECK_EQ(plane->stats[i]->uint64_value, 1700000000000000000 + (i ? 10000 : 0));
	}
	space_free(space);
}

TEST(an_empty_trace_is_valid_and_has_warnings_about_it_and_about_losses)
{
	struct timeline t = sample(), empty = { .warnings = warnings, .n_warnings = 1 };
	XSpace *space = export_at(&empty, 2);

	CHECK_EQ(space->n_errors, 1);
	CHECK_EQ(space->n_warnings, 3);
	CHECK_STR(space->warnings[0], "Advice: do this");
	CHECK_STR(space->warnings[1], "3 events were lost");
	CHECK_STR(space->warnings[2],
		  "No activity of the profiled processes was seen in the window.");
	CHECK(find_plane(space, "/host:CPU"));
	space_free(space);

	space = export_at(&t, 0);
	CHECK(!find_plane(space, "/host:CPU"));
	CHECK_STR(space->warnings[1], "3 events were lost");
	CHECK_STR(space->warnings[2],
		  "No activity is shown at host tracer level 0, but 13 events were seen: "
		  "capture with a higher level.");
	space_free(space);
}

TEST(spans_out_of_order_are_left_out_and_counted_in_a_warning)
{
	struct span wrong[] = { spans[1], spans[0], spans[3] };
	struct timeline t = sample();
	XSpace *space;

	t.spans = wrong;
	t.n_spans = ARRAY_SIZE(wrong);
	space = export_at(&t, 2);
	CHECK_EQ(find_plane(space, "/host:CPU")->lines[0]->n_events, 2);
	CHECK_STR(
		space->warnings[space->n_warnings - 1],
		"1 events were out of order on their line, the first on \"worker?/71\" at 0.000 ms, and are not shown.");
	space_free(space);
}

TEST(a_limit_gives_efbig_and_no_message)
{
	struct timeline t = sample();
	struct export_options options = { .level = 3 };
	struct xspace_result result = {};

	CHECK_EQ(export_xspace(&t, &options, &result), 0);
	CHECK(result.n_events > 16);
	options.max_bytes = result.size;
	xspace_result_done(&result);
	check_limits(&t, options, options.max_bytes);
	CHECK_EQ(export_xspace(&t, &options, &result), 0);
	xspace_result_done(&result);
}

TEST(every_allocation_that_fails_gives_enomem_and_no_message)
{
	const struct export_options options = { .level = 3, .hostname = "host" };
	struct timeline t = sample();

	check_allocations_fail(&t, &options, 10, 100);
}

TEST(a_million_spans_on_a_thousand_threads_are_all_written)
{
	enum { THREADS = 1000, EACH = 1000 };
	struct thread *many = calloc(THREADS, sizeof(*many));
	struct span *all = calloc((size_t)THREADS * EACH, sizeof(*all));
	struct timeline t = sample();
	XSpace *space;
	size_t n = 0;

	for (uint32_t i = 0; i < THREADS; i++) {
		many[i] = (struct thread){ .tid = 100 + i, .name = "many" };
		for (uint32_t j = 0; j < EACH; j++)
			all[(size_t)i * EACH + j] = (struct span){
				.start_ns = START + j * 5,
				.end_ns = START + j * 5 + 4,
				.thread = i,
				.kind = SPAN_OP,
				.name = NAME_MATMUL,
			};
	}
	t.threads = many;
	t.n_threads = THREADS;
	t.spans = all;
	t.n_spans = (uint64_t)THREADS * EACH;
	t.n_slices = 0;
	space = export_at(&t, 2);
	CHECK_EQ(space->n_warnings, 2);
	CHECK_EQ(space->planes[0]->n_lines, THREADS);
	for (size_t i = 0; i < space->planes[0]->n_lines; i++)
		n += space->planes[0]->lines[i]->n_events;
	CHECK_EQ(n, THREADS * EACH);
	space_free(space);
	free(all);
	free(many);
}

CHECK_MAIN()
