/* SPDX-License-Identifier: Apache-2.0 */
/* The XSpace writer, read back with the protobuf-c classes of lib/proto/xplane.proto. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/xspace/xspace.h"
#include "proto/xplane.pb-c.h"
#include "tests/unit/check.h"

typedef Tensorflow__Profiler__XSpace XSpace;
typedef Tensorflow__Profiler__XPlane XPlane;
typedef Tensorflow__Profiler__XLine XLine;
typedef Tensorflow__Profiler__XEvent XEvent;
typedef Tensorflow__Profiler__XStat XStat;

static XSpace *decode(const struct xspace_result *result)
{
	uint8_t *bytes = malloc(result->size + 1), *p = bytes;
	XSpace *space;

	for (size_t i = 0; i < result->n_chunks; i++)
		p = (uint8_t *)memcpy(p, result->chunks[i].iov_base, result->chunks[i].iov_len) +
		    result->chunks[i].iov_len;
	CHECK_EQ(p - bytes, result->size);
	space = tensorflow__profiler__xspace__unpack(NULL, result->size, bytes);
	free(bytes);
	CHECK(space);
	return space;
}

/* Ends the message and reads it back. */
static XSpace *finish(struct xspace *x)
{
	struct xspace_result result = {};
	XSpace *space;

	CHECK_EQ(xspace_finish(x, &result), 0);
	xspace_free(x);
	space = decode(&result);
	xspace_result_done(&result);
	return space;
}

static void space_free(XSpace *space)
{
	tensorflow__profiler__xspace__free_unpacked(space, NULL);
}

static struct xspace *start(void)
{
	struct xspace *x = NULL;

	CHECK_EQ(xspace_new(0, &x), 0);
	return x;
}

/* A message with a bit of everything: 2 planes, 3 lines in the first, 30 events. */
static int write_sample(struct xspace *x)
{
	const struct xspace_line lines[] = {
		{ .id = 1,
		  .name = "one",
		  .timestamp_ns = 1000,
		  .display_id = 3,
		  .display_name = "first" },
		{ .id = 1 << 20, .name = "two", .timestamp_ns = 1000 },
		{ .id = -1, .name = "", .timestamp_ns = 1000 },
	};
	uint32_t op = 0, other = 0, id = 0, kind = 0;

	xspace_hostname(x, "host");
	xspace_plane_begin(x, 1, "/host:CPU");
	for (unsigned int i = 0; i < 3; i++) {
		xspace_line_begin(x, &lines[i]);
		for (unsigned int j = 0; j < 10; j++) {
			xspace_event_name(x, j % 2 ? "a/MatMul:MatMul" : "other",
					  j % 2 ? "MatMul" : NULL, j % 2 ? &op : &other);
			xspace_stat_name(x, "id", &id);
			xspace_event(x, j % 2 ? op : other, j * 1000000000ULL, i,
				     &(struct xspace_stat){
					     .name = id, .type = XSPACE_INT64, .value = j },
				     j % 2);
		}
		xspace_line_end(x);
	}
	xspace_event_kind(x, "kind",
			  &(struct xspace_stat){ .name = id, .type = XSPACE_INT64, .value = 1000 },
			  1, &kind);
	xspace_plane_end(x);
	xspace_plane_begin(x, 2, "Task Environment");
	xspace_stat_name(x, "start", &id);
	xspace_plane_stat(
		x, &(struct xspace_stat){ .name = id, .type = XSPACE_UINT64, .value = UINT64_MAX });
	xspace_plane_end(x);
	xspace_error(x, "an error");
	return xspace_warning(x, "a warning");
}

TEST(an_empty_message_is_valid)
{
	XSpace *space = finish(start());

	CHECK_EQ(space->n_planes, 0);
	space_free(space);
}

TEST(every_level_of_nesting_is_read_back)
{
	struct xspace *x = start();
	XSpace *space;
	XPlane *plane;

	CHECK_EQ(write_sample(x), 0);
	CHECK_EQ(xspace_n_events(x), 30);
	space = finish(x);
	CHECK_EQ(space->n_planes, 2);
	CHECK_STR(space->hostnames[0], "host");
	CHECK_STR(space->errors[0], "an error");
	CHECK_STR(space->warnings[0], "a warning");
	plane = space->planes[0];
	CHECK_EQ(plane->id, 1);
	CHECK_STR(plane->name, "/host:CPU");
	CHECK_EQ(plane->n_lines, 3);
	CHECK_EQ(plane->lines[0]->id, 1);
	CHECK_EQ(plane->lines[0]->display_id, 3);
	CHECK_STR(plane->lines[0]->display_name, "first");
	CHECK_STR(plane->lines[1]->name, "two");
	CHECK_STR(plane->lines[1]->display_name, "");
	CHECK_EQ(plane->lines[2]->id, -1);
	for (size_t i = 0; i < 3; i++) {
		const XLine *line = plane->lines[i];

		CHECK_EQ(line->timestamp_ns, 1000);
		CHECK_EQ(line->n_events, 10);
		for (size_t j = 0; j < line->n_events; j++) {
			const XEvent *event = line->events[j];

			CHECK_EQ(event->metadata_id, 1 + j % 2);
			CHECK_EQ(event->data_case, TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS);
			CHECK_EQ(event->offset_ps, j * 1000000000);
			CHECK_EQ(event->duration_ps, i);
			CHECK_EQ(event->n_stats, j % 2);
			if (j % 2)
				CHECK_EQ(event->stats[0]->int64_value, j);
		}
	}
	CHECK_EQ(space->planes[1]->n_lines, 0);
	CHECK_EQ(space->planes[1]->n_stats, 1);
	CHECK_EQ(space->planes[1]->stats[0]->value_case,
		 TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
	CHECK(space->planes[1]->stats[0]->uint64_value == UINT64_MAX);
	space_free(space);
}

TEST(names_are_interned_by_plane_and_keys_equal_ids)
{
	struct xspace *x = start();
	uint32_t id, again, other;
	char name[32];
	XSpace *space;

	for (unsigned int plane = 0; plane < 2; plane++) {
		xspace_plane_begin(x, plane, "plane");
		for (unsigned int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "name %u", i);
			CHECK_EQ(xspace_event_name(x, name, "display", &id), 0);
			CHECK_EQ(id, i + 1);
		}
		CHECK_EQ(xspace_event_name(x, "name 500", NULL, &again), 0);
		CHECK_EQ(again, 501);
		CHECK_EQ(xspace_stat_name(x, "name 500", &other), 0);
		CHECK_EQ(other, 1);
		xspace_plane_end(x);
	}
	space = finish(x);
	for (size_t p = 0; p < 2; p++) {
		CHECK_EQ(space->planes[p]->n_event_metadata, 1000);
		CHECK_EQ(space->planes[p]->n_stat_metadata, 1);
		for (size_t i = 0; i < 1000; i++) {
			CHECK_EQ(space->planes[p]->event_metadata[i]->key, i + 1);
			CHECK_EQ(space->planes[p]->event_metadata[i]->value->id, i + 1);
		}
		CHECK_STR(space->planes[p]->event_metadata[999]->value->name, "name 999");
		CHECK_STR(space->planes[p]->event_metadata[999]->value->display_name, "display");
	}
	space_free(space);
}

TEST(stats_keep_their_type_and_an_event_of_many_large_stats_its_length)
{
	struct xspace *x = start();
	struct xspace_stat stats[XSPACE_EVENT_STATS_MAX];
	uint32_t event, text;
	XSpace *space;
	XEvent *e;

	xspace_plane_begin(x, 0, "plane");
	xspace_line_begin(x, &(struct xspace_line){ .name = "line" });
	xspace_event_name(x, "event", NULL, &event);
	xspace_stat_name(x, "a text", &text);
	for (unsigned int i = 0; i < XSPACE_EVENT_STATS_MAX; i++)
		stats[i] = (struct xspace_stat){ .name = text,
						 .type = XSPACE_INT64,
						 .value = (uint64_t) - (int64_t)i };
	stats[1] = (struct xspace_stat){ .name = text, .type = XSPACE_UINT64, .value = UINT64_MAX };
	stats[2] = (struct xspace_stat){ .name = text, .type = XSPACE_STRING, .value = text };
	CHECK_EQ(xspace_event(x, event, 0, 0, stats, XSPACE_EVENT_STATS_MAX), 0);
	for (unsigned int i = 0; i < XSPACE_EVENT_STATS_MAX; i++)
		stats[i] = (struct xspace_stat){ .name = text,
						 .type = XSPACE_UINT64,
						 .value = UINT64_MAX - i };
	CHECK_EQ(xspace_event(x, event, INT64_MAX, INT64_MAX, stats, XSPACE_EVENT_STATS_MAX), 0);
	xspace_line_end(x);
	xspace_plane_end(x);
	space = finish(x);
	e = space->planes[0]->lines[0]->events[0];
	CHECK_EQ(e->data_case, TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS);
	CHECK_EQ(e->n_stats, XSPACE_EVENT_STATS_MAX);
	CHECK_EQ(e->stats[0]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE);
	CHECK_EQ(e->stats[0]->int64_value, 0);
	CHECK_EQ(e->stats[1]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
	CHECK_EQ(e->stats[2]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_REF_VALUE);
	CHECK_EQ(e->stats[2]->ref_value, text);
	CHECK_EQ(e->stats[7]->int64_value, -7);
	e = space->planes[0]->lines[0]->events[1];
	CHECK_EQ(e->offset_ps, INT64_MAX);
	CHECK_EQ(e->duration_ps, INT64_MAX);
	CHECK_EQ(e->n_stats, XSPACE_EVENT_STATS_MAX);
	CHECK(e->stats[7]->uint64_value == UINT64_MAX - 7);
	space_free(space);
}

TEST(text_that_is_not_utf8_is_made_so)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "cut \xe2\x82", "cut ??" },
		{ "\xff\xfe", "??" },
		{ "\xc0\x80", "??" },           /* an overlong NUL */
		{ "\xed\xa0\x80", "???" },      /* a surrogate */
		{ "\xf4\x90\x80\x80", "????" }, /* above U+10FFFF */
		{ "\xe2"
		  "a",
		  "?a" },
	};
	struct xspace *x = start();
	uint32_t first, second;
	XSpace *space;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_EQ(xspace_warning(x, cases[i].in), 0);
	xspace_plane_begin(x, 0, "\xff");
	CHECK_EQ(xspace_event_name(x, "\xfe", "\xfe", &first), 0);
	CHECK_EQ(xspace_event_name(x, "\xfd", NULL, &second), 0);
	CHECK_EQ(first, second);
	xspace_plane_end(x);
	space = finish(x);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_STR(space->warnings[i], cases[i].out);
	CHECK_STR(space->planes[0]->name, "?");
	CHECK_STR(space->planes[0]->event_metadata[0]->value->display_name, "?");
	space_free(space);
}

TEST(an_event_kind_is_its_text_and_the_stats_that_all_its_events_have)
{
	struct xspace *x = start();
	uint32_t text = 0, number = 0, plain = 0, again = 0, ids[4] = { 0 };
	struct xspace_stat stats[XSPACE_KIND_STATS_MAX + 1];
	const Tensorflow__Profiler__XEventMetadata *kind;
	XSpace *space;

	xspace_plane_begin(x, 0, "plane");
	xspace_stat_name(x, "number", &number);
	xspace_stat_name(x, "text", &text);
	for (size_t i = 0; i < XSPACE_KIND_STATS_MAX + 1; i++)
		stats[i] = (struct xspace_stat){ .name = number,
						 .type = XSPACE_INT64,
						 .value = UINT64_MAX - i };
	stats[1] = (struct xspace_stat){ .name = number, .type = XSPACE_STRING, .value = text };
	CHECK_EQ(xspace_event_name(x, "op", "display", &plain), 0);
	CHECK_EQ(xspace_event_kind(x, "op", stats, 1, &ids[0]), 0);
	CHECK_EQ(xspace_event_kind(x, "op", stats, 2, &ids[1]), 0);
	CHECK_EQ(xspace_event_kind(x, "op", stats, XSPACE_KIND_STATS_MAX, &ids[2]), 0);
	CHECK_EQ(xspace_event_kind(x, "another", stats, 1, &ids[3]), 0);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(ids[i], plain + i + 1);
	CHECK_EQ(xspace_event_kind(x, "op", stats, 2, &again), 0);
	CHECK_EQ(again, ids[1]);
	CHECK_EQ(xspace_event_kind(x, "op", NULL, 0, &again), 0);
	CHECK_EQ(again, plain);
	CHECK_EQ(xspace_event_name(x, "op", NULL, &again), 0);
	CHECK_EQ(again, plain);
	xspace_plane_end(x);
	space = finish(x);
	CHECK_EQ(space->planes[0]->n_event_metadata, 5);
	kind = space->planes[0]->event_metadata[ids[1] - 1]->value;
	CHECK_EQ(kind->n_stats, 2);
	CHECK_EQ(kind->stats[0]->metadata_id, number);
	CHECK_EQ(kind->stats[0]->int64_value, -1);
	CHECK_EQ(kind->stats[1]->ref_value, text);
	CHECK_EQ(space->planes[0]->event_metadata[ids[2] - 1]->value->n_stats,
		 XSPACE_KIND_STATS_MAX);
	space_free(space);

	x = start();
	xspace_plane_begin(x, 0, "plane");
	CHECK_EQ(xspace_event_kind(x, "op", stats, XSPACE_KIND_STATS_MAX + 1, &again), -EINVAL);
	xspace_free(x);
}

TEST(a_limit_is_exact_and_beyond_it_nothing_is_returned)
{
	struct xspace_result result = {}, untouched = { .n_chunks = 77 };
	struct xspace *x = start();
	uint64_t size;

	write_sample(x);
	CHECK_EQ(xspace_finish(x, &result), 0);
	xspace_free(x);
	size = result.size;
	xspace_result_done(&result);
	CHECK(!result.chunks);
	xspace_result_done(&result);

	for (uint64_t limit = 1; limit <= size; limit++) {
		CHECK_EQ(xspace_new(limit, &x), 0);
		CHECK_EQ(write_sample(x), limit < size ? -EFBIG : 0);
		if (limit < size) {
			CHECK_EQ(xspace_finish(x, &untouched), -EFBIG);
			CHECK_EQ(untouched.n_chunks, 77);
		} else {
			CHECK_EQ(xspace_finish(x, &result), 0);
			CHECK_EQ(result.size, size);
			xspace_result_done(&result);
		}
		xspace_free(x);
	}
}

TEST(calls_out_of_order_are_refused_permanently)
{
	struct xspace_result result;
	struct xspace *x = start();
	uint32_t id;

	CHECK_EQ(xspace_line_begin(x, &(struct xspace_line){ .name = "line" }), -EINVAL);
	CHECK_EQ(xspace_plane_begin(x, 0, "plane"), -EINVAL);
	CHECK_EQ(xspace_finish(x, &result), -EINVAL);
	xspace_free(x);

	x = start();
	CHECK_EQ(xspace_event_name(x, "name", NULL, &id), -EINVAL);
	xspace_free(x);

	x = start();
	CHECK_EQ(xspace_plane_begin(x, 0, "plane"), 0);
	CHECK_EQ(xspace_warning(x, "inside a plane"), -EINVAL);
	xspace_free(x);

	x = start();
	CHECK_EQ(xspace_plane_begin(x, 0, "plane"), 0);
	CHECK_EQ(xspace_finish(x, &result), -EINVAL);
	xspace_free(x);

	x = start();
	CHECK_EQ(xspace_finish(x, &result), 0);
	xspace_result_done(&result);
	CHECK_EQ(xspace_finish(x, &result), -EINVAL);
	xspace_free(x);
	xspace_free(NULL);
}

TEST(a_million_events_and_a_text_longer_than_a_block_are_read_back)
{
	enum { N = 1000000, LINES = 4, LONG = 3 << 20 };
	struct xspace *x = start();
	char *text = malloc(LONG + 1);
	uint32_t name, stat;
	XSpace *space;

	memset(text, 'x', LONG);
	text[LONG] = 0;
	xspace_plane_begin(x, 0, "plane");
	xspace_stat_name(x, "id", &stat);
	xspace_event_name(x, "event", NULL, &name);
	for (unsigned int line = 0; line < LINES; line++) {
		xspace_line_begin(
			x, &(struct xspace_line){ .id = line, .name = line == 2 ? text : "line" });
		for (uint64_t i = 0; i < N / LINES; i++)
			xspace_event(x, name, i * 4000, 3000,
				     &(struct xspace_stat){
					     .name = stat, .type = XSPACE_INT64, .value = i },
				     i % 2);
		xspace_line_end(x);
	}
	xspace_plane_end(x);
	CHECK_EQ(xspace_n_events(x), N);
	space = finish(x);
	CHECK_EQ(space->planes[0]->n_lines, LINES);
	for (size_t line = 0; line < LINES; line++) {
		const XLine *l = space->planes[0]->lines[line];
		size_t wrong = 0;

		CHECK_EQ(strlen(l->name), line == 2 ? LONG : 4);
		CHECK_EQ(l->n_events, N / LINES);
		for (size_t i = 0; i < l->n_events; i++)
			wrong += l->events[i]->offset_ps != (int64_t)i * 4000 ||
				 l->events[i]->n_stats != i % 2 ||
				 (i % 2 && l->events[i]->stats[0]->int64_value != (int64_t)i);
		CHECK_EQ(wrong, 0);
	}
	space_free(space);
	free(text);
}

CHECK_MAIN()
