/* SPDX-License-Identifier: Apache-2.0 */
/* A server's own names for its threads' work: from records to events with these names unchanged,
 * and not interpreted. */
#include "tests/unit/exported.h"
#include "tests/unit/fed.h"

enum { S_BEGIN, S_END, S_OP, N_SITES };

static const struct probe_row probes[N_SITES] = {
	[S_BEGIN] = { OPEN(LABEL), .action = ACTION_TEXT },
	[S_END] = { CLOSE(LABEL) },
	[S_OP] = { OPEN(OP) },
};

TEST_PACK(probes, N_SITES);

static void begin(uint64_t time, uint32_t tid, const char *text)
{
	struct record_text r = { .probe.head = { .time = time,
						 .tid = tid,
						 .kind = RECORD_TEXT,
						 .site = S_BEGIN,
						 .size8 = sizeof(r) / 8 },
				 .size = (uint32_t)strlen(text) };

	memcpy(r.text, text, MIN(strlen(text), sizeof(r.text)));
	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static void end(uint64_t time, uint32_t tid)
{
	struct record_probe r = { .head = { .time = time,
					    .tid = tid,
					    .kind = RECORD_PROBE,
					    .site = S_END,
					    .size8 = sizeof(r) / 8 } };

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static const XEvent *event(const XPlane *host, unsigned int line, unsigned int i)
{
	CHECK(line < host->n_lines && i < host->lines[line]->n_events);
	return host->lines[line]->events[i];
}

static void check(const XPlane *host, const XEvent *e, const char *shown, uint64_t from,
		  uint64_t until)
{
	CHECK_STR(event_display(host, e), shown);
	CHECK_EQ(e->offset_ps / 1000, from);
	CHECK_EQ((e->offset_ps + e->duration_ps) / 1000, until);
}

TEST(spans_nest_on_their_thread_and_have_their_arguments_and_numbers)
{
	struct timeline *t;
	const XPlane *host;
	XSpace *space;

	begin_with(&pack);
	end(1050, 11); /* of one that began before the window */
	begin(1100, 11, "decode#request_id=17,codec=json,step_num=-3#");
	begin(1200, 11, "parse");
	begin(1250, 12, "elsewhere#");
	end(1300, 11);
	end(1400, 12);
	end(1500, 11);
	t = finish();
	space = export_at(t, 1);
	host = find_plane(space, "/host:CPU");
	check(host, event(host, 0, 0), "decode", 100, 500);
	CHECK_STR(event_name(host, event(host, 0, 0)), "span decode");
	CHECK_STR(stat_text(host, event(host, 0, 0), "arguments"),
		  "request_id=17,codec=json,step_num=-3");
	CHECK(has_int(host, event(host, 0, 0), "request_id", 17));
	CHECK(has_int(host, event(host, 0, 0), "step_num", -3));
	CHECK(has_int(host, event(host, 0, 0), "_r", 1));
	check(host, event(host, 0, 1), "parse", 200, 300);
	CHECK_EQ(event(host, 0, 1)->n_stats, 0);
	check(host, event(host, 1, 0), "elsewhere", 250, 400);
	CHECK_EQ(event(host, 1, 0)->n_stats, 0);
	space_free(space);
	timeline_free(t);
}

/* A request for which nothing runs, such as a health check, changes nothing. */
TEST(in_a_process_that_serves_requests_these_are_the_steps_and_spans_are_not)
{
	static struct request requests[] = {
		{ .start_ns = 1500, .end_ns = 1600 },
		{ .start_ns = 1500, .end_ns = 1600, .n_runs = 1 },
		{ .start_ns = 1500, .end_ns = 1600, .protocol = PROTOCOL_MARK }
	};
	const XEvent *e, *span = NULL;
	struct timeline *t, with;
	const XPlane *host;
	XSpace *space;

	begin_with(&pack);
	begin(1100, 11, "handle#step_num=7#");
	end(1500, 11);
	t = finish();
	with = *t;
	for (size_t k = 0; k < ARRAY_SIZE(requests); k++, span = NULL) {
		with.requests = &requests[k];
		with.n_requests = 1;
		space = export_at(&with, 1);
		host = find_plane(space, "/host:CPU");
		for (size_t i = 0; i < host->n_lines && !span; i++)
			if ((e = host->lines[i]->events[0]) &&
			    !strcmp(event_name(host, e), "span handle"))
				span = e;
		CHECK(span && has_int(host, span, "step_num", 7));
		CHECK_EQ(span && find_stat(host, span, "_r"), k == 0);
		space_free(space);
	}
	timeline_free(t);
}

TEST(a_span_in_progress_at_the_end_of_the_window_is_truncated_and_not_a_step)
{
	struct timeline *t;
	const XPlane *host;
	XSpace *space;

	begin_with(&pack);
	begin(1100, 11, "outer#step_num=1#");
	begin(1200, 11, "inner");
	t = finish();
	space = export_at(t, 1);
	host = find_plane(space, "/host:CPU");
	check(host, event(host, 0, 0), "outer", 100, 8000);
	check(host, event(host, 0, 1), "inner", 200, 8000);
	CHECK_STR(stat_text(host, event(host, 0, 0), "cut"), "end");
	CHECK(!find_stat(host, event(host, 0, 0), "_r"));
	space_free(space);
	timeline_free(t);
}

TEST(names_are_shown_unchanged_and_are_not_misread)
{
	static const char *const names[] = { "train",  "a:MatMul", "ProcessBatch",
					     "\x01\n", "\xff\"",   "" };
	static const char *const shown[] = { "train", "a:MatMul", "ProcessBatch", "  ", "?\"", "" };
	struct timeline *t;
	const XPlane *host;
	XSpace *space;

	begin_with(&pack);
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		begin(1100 + 10 * i, 11, names[i]);
		end(1105 + 10 * i, 11);
	}
	t = finish();
	space = export_at(t, 1);
	host = find_plane(space, "/host:CPU");
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		check(host, event(host, 0, i), shown[i], 100 + 10 * i, 105 + 10 * i);
		CHECK(!strncmp(event_name(host, event(host, 0, i)), "span ", 5));
	}
	space_free(space);
	timeline_free(t);
}

TEST(a_server_that_only_begins_spans_or_makes_up_names_is_bounded)
{
	struct timeline *t;
	char name[32];

	begin_with(&pack);
	for (unsigned int i = 0; i < 6000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		begin(1100 + i, 11, name);
	}
	for (unsigned int i = 0; i < 6000; i++)
		end(7200 + i / 100, 11);
	for (unsigned int i = 0; i < 6000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		begin(7500, 12, name);
		end(7500, 12);
	}
	t = finish();
	CHECK_EQ(t->n_spans, 16 + 6000);
	CHECK(t->n_names < 4096 + 16);
	timeline_free(t);
}

CHECK_MAIN()
