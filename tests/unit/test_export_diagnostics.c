/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace reports about itself: what was captured in part, and that this is not counted. */
#include "tests/unit/exported.h"

#define START 1000

static struct thread threads[] = { { .tid = 71, .name = "worker" },
				   { .tid = 12, .process = 1, .name = "other" } };
static struct process processes[] = { { .pid = 70, .name = "server" },
				      { .pid = 12, .name = "other" } };
static struct span_name names[] = { { .name = (char *)"SessionRun" } };
static char *warnings[] = { (char *)"3 events were lost" };

static struct timeline timeline_of(struct request *requests, uint32_t n_requests,
				   struct span *spans, uint64_t n_spans)
{
	return (struct timeline){
		.start_ns = START,
		.end_ns = START + 10000,
		.start_unix_ns = 1700000000000000000,
		.requests = requests,
		.n_requests = n_requests,
		.spans = spans,
		.n_spans = n_spans,
		.threads = threads,
		.n_threads = ARRAY_SIZE(threads),
		.processes = processes,
		.n_processes = ARRAY_SIZE(processes),
		.names = names,
		.n_names = ARRAY_SIZE(names),
		.warnings = warnings,
		.n_warnings = 1,
		.n_lanes = 1,
	};
}

static struct span run(uint32_t thread, uint64_t start_ns, uint64_t end_ns, uint8_t flags)
{
	return (struct span){ .start_ns = START + start_ns,
			      .end_ns = START + end_ns,
			      .step = -1,
			      .thread = thread,
			      .kind = SPAN_RUN,
			      .flags = flags };
}

static bool is_root(const XPlane *host, const char *line, uint64_t start_ns)
{
	const XLine *l = find_line(host, line);

	for (size_t i = 0; l && i < l->n_events; i++)
		if ((uint64_t)l->events[i]->offset_ps == start_ns * 1000)
			return find_stat(host, l->events[i], "_r") != NULL;
	CHECK(!"an event begins there");
	return false;
}

TEST(partially_captured_requests_are_counted_unless_filtered)
{
	struct request requests[] = {
		{ .start_ns = START, .end_ns = START + 10, .flags = REQUEST_TRUNCATED_START },
		{ .start_ns = START,
		  .end_ns = START + 10000,
		  .flags = REQUEST_TRUNCATED_START | REQUEST_TRUNCATED_END },
		{ .start_ns = START,
		  .end_ns = START + 20,
		  .flags = REQUEST_TRUNCATED_START | REQUEST_FILTERED },
		{ .start_ns = START + 100, .end_ns = START + 200 },
		{ .start_ns = START + 300, .end_ns = START + 400, .flags = REQUEST_LOST },
		{ .start_ns = START + 500, .end_ns = START + 9000, .flags = REQUEST_TRUNCATED_END },
	};
	struct timeline t = timeline_of(requests, ARRAY_SIZE(requests), NULL, 0);
	XSpace *space = export_at(&t, 1);

	CHECK_STR(
		space->warnings[1],
		"Note: 3 of 5 requests were captured in part: the beginning of 2 of them and the end of 2 are missing. "
		"They count in no latency and no percentile, and are not steps.");
	CHECK_STR(space->warnings[2], "3 events were lost");
	space_free(space);
	space = export_at(&t, 0);
	CHECK_STR(space->warnings[1], "3 events were lost");
	space_free(space);
}

TEST(whole_requests_and_runs_give_no_warning)
{
	struct request whole = { .start_ns = START + 100, .end_ns = START + 200 };
	struct span spans[] = { run(1, 100, 200, 0) };
	struct timeline t = timeline_of(&whole, 1, spans, 1);
	XSpace *space = export_at(&t, 1);

	CHECK_EQ(space->n_warnings, 2);
	CHECK_STR(space->warnings[1], "3 events were lost");
	space_free(space);
}

TEST(partially_captured_runs_and_their_content_are_no_roots_and_those_of_requests_are_not_counted)
{
	struct request whole = { .start_ns = START + 100, .end_ns = START + 200 };
	struct span spans[] = {
		run(0, 0, 50, SPAN_TRUNCATED_START), /* of a process whose requests are recorded */
		run(1, 0, 2000, SPAN_TRUNCATED_START),
		run(1, 500, 900, SPAN_INNER),
		run(1, 3000, 4000, 0),
		run(1, 5000, 6000, SPAN_END_NOT_SEEN),
		run(1, 7000, 10000, SPAN_TRUNCATED_END),
	};
	struct timeline t = timeline_of(&whole, 1, spans, ARRAY_SIZE(spans));
	XSpace *space = export_at(&t, 1);
	const XPlane *host = find_plane(space, "/host:CPU");

	CHECK_STR(
		space->warnings[1],
		"Note: 3 of 4 runs were captured in part: the beginning of 1 of them and the end of 2 are missing. "
		"They count in no latency and no percentile, and are not steps.");
	CHECK(!is_root(host, "other/12", 0));
	CHECK(!is_root(host, "other/12", 500));
	CHECK(is_root(host, "other/12", 3000));
	CHECK(!is_root(host, "other/12", 5000));
	CHECK(!is_root(host, "other/12", 7000));
	space_free(space);
}

CHECK_MAIN()
