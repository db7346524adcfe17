/* SPDX-License-Identifier: Apache-2.0 */
/* How a process started: from records of its probes, and other known facts, to phases. */
#include "daemon/correlate/runtime/startup.h"

#include "tests/unit/exported.h"

static struct startup s;
static struct startup_track track;

static unsigned group = 1; /* of the probes */
static const struct pack pack = { .weights_folder = "/variables/" };

static void feed(enum verb verb, enum work work, uint64_t time, uint32_t tid, uint32_t tag)
{
	struct record_probe r = {
		.head = { .time = time, .tid = tid, .kind = RECORD_PROBE, .size8 = sizeof(r) / 8 },
		.tag = tag
	};

	startup_feed(&s, &pack,
		     &(struct probe_row){ .verb = verb, .work = work, .group = (uint8_t)group },
		     &r.head);
}

static void feed_text(enum verb verb, enum work work, uint64_t time, uint32_t tid, uint32_t tag,
		      const char *text, uint32_t size)
{
	struct record_text r = { .probe = { .head = { .time = time,
						      .tid = tid,
						      .kind = RECORD_TEXT,
						      .size8 = sizeof(r) / 8 },
					    .tag = tag },
				 .size = size };

	memcpy(r.text, text, MIN(strlen(text), sizeof(r.text)));
	startup_feed(&s, &pack,
		     &(struct probe_row){ .verb = verb, .work = work, .group = (uint8_t)group },
		     &r.probe.head);
}

static void path(enum verb verb, enum work work, uint64_t time, uint32_t tid, uint32_t tag,
		 const char *text)
{
	feed_text(verb, work, time, tid, tag, text, (uint32_t)strlen(text));
}

static void begin(void)
{
	s = (struct startup){
		.executed_ns = 100, .started_ns = 90, .first_mapped_ns = 200, .watched_ns = 300
	};
}

/* The i-th phase; end 0: none. */
static const struct startup_phase *check(unsigned i, enum startup_phase_kind kind, uint64_t start,
					 uint64_t end)
{
	CHECK(i < track.n);
	CHECK_STR(startup_phase_name(track.phases[i].kind), startup_phase_name(kind));
	CHECK_EQ(track.phases[i].start_ns, start);
	CHECK_EQ(track.phases[i].end_ns, end);
	return &track.phases[i];
}

/* As C++'s loader passes its marks: the path first, all within the load. */
static void load(uint64_t time, uint32_t tid, const char *model, const char *variables)
{
	feed(VERB_OPEN, WORK_LOAD, time, tid, 0);
	path(VERB_POINT, WORK_LOAD, time + 1, tid, 0, model);
	path(VERB_OPEN, WORK_WEIGHTS, time + 20, tid + 1, 0x77, variables);
	feed(VERB_CLOSE, WORK_WEIGHTS, time + 40, tid + 1, 0x77);
	feed(VERB_CLOSE, WORK_LOAD, time + 100, tid, 0);
}

TEST(a_server_starts_loads_restores_warms_up_waits_and_serves)
{
	begin();
	feed(VERB_OPEN, WORK_RUNTIME, 400, 11, 0);
	feed(VERB_OPEN, WORK_RUNTIME, 450, 11, 0);
	load(500, 11, "/models/a/1", "/models/a/1/variables/variables");
	feed(VERB_OPEN, WORK_RUN, 610, 11, 0);
	feed(VERB_CLOSE, WORK_RUN, 620, 11, 0);
	feed(VERB_OPEN, WORK_RUN, 625, 11, 0);
	feed(VERB_CLOSE, WORK_RUN, 630, 11, 0);
	CHECK(!startup_is_over(&s));
	feed(VERB_OPEN, WORK_RUN, 900, 12, 0);
	CHECK(startup_is_over(&s));
	feed(VERB_OPEN, WORK_RUN, 910, 11, 0);
	startup_phases(&s, &track);
	CHECK(!check(0, STARTUP_START, 100, 200)->start_is_bound);
	check(1, STARTUP_LIBRARIES, 200, 400);
	check(2, STARTUP_RUNTIME, 400, 500);
	CHECK_STR(check(3, STARTUP_LOAD, 500, 600)->path, "/models/a/1");
	CHECK_STR(check(4, STARTUP_RESTORE, 520, 540)->path, "/models/a/1");
	CHECK_EQ(check(5, STARTUP_WARMUP, 610, 630)->runs, 2);
	check(6, STARTUP_WAIT, 630, 900);
	CHECK(check(7, STARTUP_SERVING, 900, 0)->goes_on);
	CHECK_EQ(track.n, 8);
}

TEST(pythons_loader_reports_the_path_after_the_load_and_reads_variables_on_its_own_thread)
{
	begin();
	feed(VERB_OPEN, WORK_RUN, 450, 11, 0); /* before any model: no request */
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	path(VERB_OPEN, WORK_WEIGHTS, 520, 11, 1, "/models/a/1/variables/variables");
	feed(VERB_OPEN, WORK_RUN, 525, 11, 0);
	feed(VERB_CLOSE, WORK_WEIGHTS, 530, 11, 1);
	path(VERB_OPEN, WORK_WEIGHTS, 540, 11, 2, "/models/a/1/variables/variables");
	feed(VERB_CLOSE, WORK_WEIGHTS, 560, 11, 2);
	feed(VERB_CLOSE, WORK_LOAD, 600, 11, 0);
	path(VERB_POINT, WORK_LOAD, 601, 11, 0, "/models/a/1");
	path(VERB_POINT, WORK_LOAD, 602, 11, 0, "/models/b/1");
	startup_phases(&s, &track);
	check(1, STARTUP_LIBRARIES, 200, 500);
	CHECK_STR(check(2, STARTUP_LOAD, 500, 600)->path, "/models/a/1");
	check(3, STARTUP_RESTORE, 520, 560);
	CHECK(check(4, STARTUP_WAIT, 600, 0)->goes_on);
	CHECK_EQ(track.n, 5);
}

TEST(models_that_load_at_the_same_time_have_their_own_variables)
{
	begin();
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	path(VERB_POINT, WORK_LOAD, 501, 11, 0, "/models/a/1");
	feed(VERB_OPEN, WORK_LOAD, 510, 12, 0);
	path(VERB_POINT, WORK_LOAD, 511, 12, 0, "/models/a/11");
	path(VERB_OPEN, WORK_WEIGHTS, 520, 21, 1, "/models/a/11/variables/variables");
	path(VERB_OPEN, WORK_WEIGHTS, 530, 22, 2, "/models/a/1/variables/variables");
	path(VERB_OPEN, WORK_WEIGHTS, 535, 23, 3, "/elsewhere/variables");
	feed(VERB_CLOSE, WORK_WEIGHTS, 540, 22, 2);
	feed(VERB_CLOSE, WORK_WEIGHTS, 550, 21, 1);
	feed(VERB_CLOSE, WORK_WEIGHTS, 560, 23, 3);
	feed(VERB_CLOSE, WORK_LOAD, 600, 12, 0);
	feed(VERB_OPEN, WORK_RUN, 610, 13, 0); /* one serves already */
	feed(VERB_CLOSE, WORK_LOAD, 700, 11, 0);
	startup_phases(&s, &track);
	check(2, STARTUP_LOAD, 500, 700);
	check(3, STARTUP_LOAD, 510, 600);
	CHECK_STR(check(4, STARTUP_RESTORE, 520, 550)->path, "/models/a/11");
	CHECK_STR(check(5, STARTUP_RESTORE, 530, 540)->path, "/models/a/1");
	check(6, STARTUP_WAIT, 600, 610);
	check(7, STARTUP_SERVING, 610, 0);
	CHECK_EQ(track.n, 8);
}

TEST(a_load_that_failed_or_began_earlier_is_marked)
{
	begin();
	feed(VERB_CLOSE, WORK_LOAD, 400, 11, 0);
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	path(VERB_POINT, WORK_LOAD, 501, 11, 0, "/models/broken/1");
	feed(VERB_OPEN, WORK_LOAD, 600, 11, 0);
	startup_phases(&s, &track);
	CHECK(check(2, STARTUP_LOAD, 300, 400)->start_is_bound);
	CHECK(check(4, STARTUP_LOAD, 500, 0)->failed);
	CHECK(!track.phases[4].goes_on);
	CHECK(check(5, STARTUP_LOAD, 600, 0)->goes_on);
	CHECK(!track.phases[5].failed);
	s.unwatched_ns = 700;
	startup_phases(&s, &track);
	CHECK(!check(5, STARTUP_LOAD, 600, 0)->goes_on);
}

TEST(an_older_process_has_only_the_phases_that_can_be_reconstructed)
{
	s = (struct startup){ .started_ns = 90 };
	startup_phases(&s, &track);
	CHECK(check(0, STARTUP_START, 90, 0)->start_is_bound);
	CHECK(!track.phases[0].goes_on);
	CHECK_EQ(track.n, 1);
	s.pools_ns = 300;
	startup_phases(&s, &track);
	check(0, STARTUP_START, 90, 300);
	CHECK(check(1, STARTUP_RUNTIME, 300, 0)->start_is_bound);
	CHECK_EQ(track.n, 2);
	s = (struct startup){};
	startup_phases(&s, &track);
	CHECK_EQ(track.n, 0);
}

TEST(long_and_unusual_paths_and_many_loads_are_handled)
{
	char text[RECORD_TEXT_SIZE + 1] = "";

	begin();
	memset(text, 'x', RECORD_TEXT_SIZE);
	text[1] = '\n';
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	feed_text(VERB_POINT, WORK_LOAD, 501, 11, 0, text, 4000);
	text[1] = '?';
	CHECK(!strncmp(s.loads[0].path, "...", 3));
	CHECK_STR(s.loads[0].path + 3, text);
	feed(VERB_CLOSE, WORK_LOAD, 502, 11, 0);
	for (unsigned i = 0; i < 100; i++)
		load(1000 + 200 * i, 12, "/m", "/m/variables/v");
	CHECK_EQ(s.n_loads, STARTUP_LOADS_MAX);
	CHECK_EQ(s.n_loads_left_out, 100 + 1 - STARTUP_LOADS_MAX);
	/* The latest are kept. */
	CHECK_EQ(s.loads[STARTUP_LOADS_MAX - 1].begin_ns, 1000 + 200 * 99);
	feed(VERB_OPEN, WORK_RUN, 90000, 12, 0);
	CHECK(!startup_is_over(&s));
	feed(VERB_OPEN, WORK_RUN, 90001, 13, 0);
	CHECK(startup_is_over(&s));
	startup_phases(&s, &track);
	CHECK(track.n <= STARTUP_PHASES_MAX);
}

TEST(runs_of_loads_beyond_the_limit_are_not_requests)
{
	begin();
	load(400, 99, "/models/first/1", "/models/first/1/variables/v");
	for (uint32_t i = 0; i < STARTUP_LOADS_MAX + 8; i++)
		feed(VERB_OPEN, WORK_LOAD, 1000 + i, 100 + i, 0);
	for (uint32_t i = 0; i < STARTUP_LOADS_MAX + 8; i++) {
		feed(VERB_OPEN, WORK_RUN, 2000 + i, 100 + i, 0);
		path(VERB_OPEN, WORK_WEIGHTS, 2100 + i, 500, 0x50 + i, "/models/any/1/variables/v");
	}
	CHECK_EQ(s.n_unkept, 8);
	CHECK(!startup_is_over(&s));
	for (uint32_t i = 0; i < STARTUP_LOADS_MAX + 8; i++)
		feed(VERB_CLOSE, WORK_LOAD, 3000 + i, 100 + i, 0);
	CHECK_EQ(s.n_unkept, 0);
	for (unsigned i = 0; i < s.n_loads; i++)
		CHECK(s.loads[i].end_ns && !s.loads[i].restore_begin_ns && !s.loads[i].warmup_runs);
	feed(VERB_OPEN, WORK_RUN, 4000, 700, 0);
	CHECK_EQ(s.first_request_ns, 4000);
}

TEST(with_handlers_polls_and_runs_of_batch_threads_are_not_requests)
{
	begin();
	s.has_handlers = true;
	load(500, 11, "/models/a/1", "/models/a/1/variables/v");
	feed(VERB_OPEN, WORK_RUN, 610, 11, 0);
	feed(VERB_CLOSE, WORK_RUN, 620, 11, 0);
	feed(VERB_OPEN, WORK_RUN, 630, 40, 0);     /* a batch thread warms up */
	feed(VERB_OPEN, WORK_REQUEST, 640, 50, 0); /* is the model ready? */
	CHECK(!startup_is_over(&s));
	feed(VERB_OPEN, WORK_REQUEST, 700, 50, 0);
	feed(VERB_OPEN, WORK_REQUEST, 710, 51, 0);
	feed(VERB_OPEN, WORK_RUN, 720, 50, 0);
	group = 2;
	feed(VERB_CLOSE, WORK_REQUEST, 730, 51,
	     0); /* another group's: it ends what others begin, too */
	group = 1;
	CHECK(!startup_is_over(&s));
	path(VERB_CLOSE, WORK_REQUEST, 740, 50, 0, "a");
	CHECK_EQ(s.first_request_ns, 700);
	startup_phases(&s, &track);
	CHECK_EQ(check(4, STARTUP_WARMUP, 610, 620)->runs, 1);
	check(5, STARTUP_WAIT, 620, 700);
	check(6, STARTUP_SERVING, 700, 0);
}

TEST(a_call_without_a_model_is_a_request_in_a_group_of_its_own)
{
	begin();
	s.has_handlers = true;
	load(500, 11, "/models/a/1", "/models/a/1/variables/v");
	group = 2;
	feed(VERB_OPEN, WORK_REQUEST, 700, 50, 0);
	feed(VERB_CLOSE, WORK_REQUEST, 740, 50, 0);
	group = 1;
	CHECK_EQ(s.first_request_ns, 700);
}

TEST(a_load_that_continues_unwatched_has_no_end_and_has_not_failed)
{
	begin();
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	startup_interrupt(&s);
	feed(VERB_OPEN, WORK_LOAD, 700, 11, 0);
	feed(VERB_CLOSE, WORK_LOAD, 800, 11, 0);
	startup_phases(&s, &track);
	CHECK(!check(2, STARTUP_LOAD, 500, 0)->goes_on);
	CHECK(!track.phases[2].failed);
	check(3, STARTUP_LOAD, 700, 800);
}

TEST(variables_match_a_truncated_directory_by_the_known_part)
{
	char directory[160] = "/models/", variables[192];

	memset(directory + strlen(directory), 'd', 120);
	snprintf(variables, sizeof(variables), "%s/variables/variables", directory);
	begin();
	feed(VERB_OPEN, WORK_LOAD, 500, 11, 0);
	feed_text(VERB_POINT, WORK_LOAD, 501, 11, 0,
		  directory + strlen(directory) - RECORD_TEXT_SIZE, (uint32_t)strlen(directory));
	path(VERB_OPEN, WORK_WEIGHTS, 510, 21, 1, "/elsewhere/variables/variables");
	CHECK_EQ(s.loads[0].restore_begin_ns, 0);
	feed_text(VERB_OPEN, WORK_WEIGHTS, 520, 21, 2,
		  variables + strlen(variables) - RECORD_TEXT_SIZE, (uint32_t)strlen(variables));
	CHECK_EQ(s.loads[0].restore_begin_ns, 520);
	feed(VERB_CLOSE, WORK_WEIGHTS, 530, 21, 2);
	feed(VERB_CLOSE, WORK_LOAD, 600, 11, 0);
	/* The reader's place is another's later on. */
	feed(VERB_CLOSE, WORK_WEIGHTS, 900, 21, 2);
	CHECK_EQ(s.loads[0].restore_end_ns, 530);
}

TEST(times_with_10_ms_resolution_do_not_end_before_they_begin_and_are_marked)
{
	s = (struct startup){ .executed_ns = 100, .first_mapped_ns = 200, .pools_ns = 150 };
	startup_phases(&s, &track);
	CHECK(!check(0, STARTUP_START, 100, 200)->end_is_bound);
	CHECK(check(1, STARTUP_RUNTIME, 150, 0)->start_is_bound);
	CHECK(check(2, STARTUP_LIBRARIES, 200, 200)->end_is_bound);
}

static const XLine *line(const XPlane *host, unsigned n)
{
	for (size_t i = 0; i < host->n_lines; i++)
		if (!strcmp(host->lines[i]->name, "lifecycle of 77") && !n--)
			return host->lines[i];
	return NULL;
}

static void check_event(const XPlane *host, const XLine *l, unsigned i, const char *name,
			uint64_t from_ns, uint64_t until_ns, const char *cut)
{
	const char *found;

	CHECK(l && i < l->n_events);
	CHECK_STR(event_name(host, l->events[i]), name);
	CHECK_EQ(l->events[i]->offset_ps / 1000, from_ns);
	CHECK_EQ((l->events[i]->offset_ps + l->events[i]->duration_ps) / 1000, until_ns);
	found = stat_text(host, l->events[i], "cut");
	CHECK(cut ? found && !strcmp(found, cut) : !found);
}

TEST(a_trace_shows_the_part_in_the_window_nested_on_enough_lines)
{
	static const struct timeline t = { .start_ns = 505, .end_ns = 650 };
	struct startups startups = {};
	struct startup_track *added = startups_add(&startups, 77);
	const XPlane *host;
	XSpace *space;

	begin();
	load(500, 11, "/models/a/1", "/models/a/1/variables/v");
	feed(VERB_OPEN, WORK_LOAD, 560, 12, 0);
	path(VERB_POINT, WORK_LOAD, 561, 12, 0, "/models/b/1");
	startup_phases(&s, added);
	space = export_with(&t, &(struct export_options){ .level = 1, .startups = &startups });
	host = find_plane(space, "/host:CPU");
	check_event(host, line(host, 0), 0, "load /models/a/1", 0, 95, "start");
	check_event(host, line(host, 0), 1, "restore /models/a/1", 15, 35, NULL);
	check_event(host, line(host, 0), 2, "wait for the first request", 95, 145, "end");
	CHECK_EQ(line(host, 0)->n_events, 3);
	check_event(host, line(host, 1), 0, "load /models/b/1", 55, 145, "end");
	CHECK(!line(host, 2));
	CHECK_EQ(space->n_warnings, 0);
	space_free(space);
	space = export_with(&t, &(struct export_options){ .level = 0, .startups = &startups });
	CHECK(!find_plane(space, "/host:CPU"));
	space_free(space);
	startups_done(&startups);
}

CHECK_MAIN()
