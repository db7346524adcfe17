/* SPDX-License-Identifier: Apache-2.0 */
/* The device plane: a timeline's operations in the form of a device, on request. */
#include "tests/unit/exported.h"

enum {
	NAME_RUN,
	NAME_MATMUL,
	NAME_ARG,
	NAME_LOST,
	NAME_COLONS,
	NAME_OTHER_TYPE,
	NAME_FUTEX,
	NAME_SPACE,
	NAME_COLON
};

#define START 5000000

static struct span_name names[] = {
	[NAME_RUN] = { .name = (char *)"SessionRun" },
	[NAME_MATMUL] = { .name = (char *)"dense/MatMul:MatMul", .display = (char *)"MatMul" },
	[NAME_ARG] = { .name = (char *)"x:_Arg", .display = (char *)"_Arg" },
	[NAME_LOST] = { .name = (char *)"operation at 0x7f:00", .lost = true },
	[NAME_COLONS] = { .name = (char *)"a\xff:b:Mystery", .display = (char *)"Mystery" },
	[NAME_OTHER_TYPE] = { .name = (char *)"dense/MatMul:Relu", .display = (char *)"Relu" },
	[NAME_FUTEX] = { .name = (char *)"futex" },
	[NAME_SPACE] = { .name = (char *)"dense MatMul:my.op", .display = (char *)"my.op" },
	[NAME_COLON] = { .name = (char *)"dense:MatMul:my.op", .display = (char *)"my.op" },
};

static struct thread threads[] = {
	{ .tid = 71, .process = 0, .name = "worker\xff" },
	{ .tid = 70, .process = 0, .name = "other" },
	{ .tid = 12, .process = 1, .name = "second" },
};

static struct process processes[] = { { .pid = 70, .name = "server" },
				      { .pid = 12, .name = "another" } };

/* Two threads whose operations overlap, a thread of another process, one operation inside another.
 */
static struct span spans[] = {
	{ .start_ns = START,
	  .end_ns = START + 9000,
	  .context = 7,
	  .step = 41,
	  .kind = SPAN_RUN,
	  .name = NAME_RUN },
	{ .start_ns = START + 1000, .end_ns = START + 4000, .kind = SPAN_OP, .name = NAME_MATMUL },
	{ .start_ns = START + 1500,
	  .end_ns = START + 2000,
	  .waker = -1,
	  .kind = SPAN_BLOCKED,
	  .name = NAME_FUTEX },
	{ .start_ns = START + 4000,
	  .end_ns = START + 4100,
	  .kind = SPAN_OP,
	  .name = NAME_ARG,
	  .flags = SPAN_CHEAP },
	{ .start_ns = START + 5000, .end_ns = START + 6000, .kind = SPAN_OP, .name = NAME_LOST },
	{ .start_ns = START + 6000,
	  .end_ns = START + 7000,
	  .kind = SPAN_OP,
	  .name = NAME_OTHER_TYPE },

	{ .start_ns = START + 3000,
	  .end_ns = START + 5000,
	  .thread = 1,
	  .kind = SPAN_OP,
	  .name = NAME_MATMUL },
	{ .start_ns = START + 3500,
	  .end_ns = START + 4500,
	  .thread = 1,
	  .kind = SPAN_OP,
	  .name = NAME_COLONS },

	{ .start_ns = START + 9900,
	  .end_ns = START + 12000,
	  .thread = 2,
	  .kind = SPAN_OP,
	  .name = NAME_MATMUL,
	  .flags = SPAN_TRUNCATED_END },
};

static struct timeline sample(void)
{
	return (struct timeline){
		.start_ns = START,
		.end_ns = START + 10000,
		.start_unix_ns = 1700000000000000000,
		.spans = spans,
		.n_spans = ARRAY_SIZE(spans),
		.threads = threads,
		.n_threads = ARRAY_SIZE(threads),
		.processes = processes,
		.n_processes = ARRAY_SIZE(processes),
		.names = names,
		.n_names = ARRAY_SIZE(names),
	};
}

static XSpace *export_device(const struct timeline *t, unsigned int level)
{
	return export_with(t, &(struct export_options){ .level = level,
							.hostname = "host",
							.extras.device_plane = true });
}

/* A stat that all events of that name have, 0 or NULL when it is missing. */
static const XStat *kind_stat(const XPlane *plane, const XEvent *event, const char *name)
{
	const Tensorflow__Profiler__XEventMetadata *kind =
		plane->event_metadata[event->metadata_id - 1]->value;

	for (size_t i = 0; i < kind->n_stats; i++)
		if (!strcmp(plane->stat_metadata[kind->stats[i]->metadata_id - 1]->value->name,
			    name))
			return kind->stats[i];
	return NULL;
}

static const char *kind_text(const XPlane *plane, const XEvent *event, const char *name)
{
	const XStat *stat = kind_stat(plane, event, name);

	return stat && stat->value_case == TENSORFLOW__PROFILER__XSTAT__VALUE_REF_VALUE
		       ? plane->stat_metadata[stat->ref_value - 1]->value->name
		       : NULL;
}

static int64_t kind_int(const XPlane *plane, const XEvent *event, const char *name)
{
	const XStat *stat = kind_stat(plane, event, name);

	return stat && stat->value_case == TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE
		       ? stat->int64_value
		       : 0;
}

TEST(each_thread_has_a_line_with_its_operations_and_nothing_else)
{
	struct timeline t = sample();
	XSpace *space = export_device(&t, 3);
	const XPlane *device = find_plane(space, "/device:TPU:0");
	static const struct {
		const char *display_name;
		int64_t id;
		size_t n;
	} lines[] = { { "[70] server worker?/71", 71, 4 },
		      { "[70] server other/70", 70, 1 },
		      { "[70] server other/70, within others: 1", 70 | 1 << 24, 1 },
		      { "[12] another second/12", 12, 1 } };

	CHECK_EQ(device->n_lines, ARRAY_SIZE(lines));
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const XLine *line = device->lines[i];

		CHECK_STR(line->name, "XLA Ops");
		CHECK_STR(line->display_name, lines[i].display_name);
		CHECK_EQ(line->id, lines[i].id);
		for (size_t k = 0; k < i; k++)
			CHECK(line->display_id != device->lines[k]->display_id);
		CHECK_EQ(line->timestamp_ns, 1000);
		CHECK_EQ(line->n_events, lines[i].n);
	}
	CHECK_EQ(device->lines[0]->events[0]->offset_ps, 1000000);
	CHECK_EQ(device->lines[0]->events[0]->duration_ps, 3000000);
	CHECK_EQ(device->lines[3]->events[0]->duration_ps, 100000);
	CHECK_EQ(device->n_stats, 1);
	CHECK_STR(device->stat_metadata[device->stats[0]->metadata_id - 1]->value->name,
		  "device_type_string");
	CHECK_STR(device->stat_metadata[device->stats[0]->ref_value - 1]->value->name,
		  "CPU, presented as a device");
	space_free(space);
}

/* The name under which the host's line of a thread has its last operation. */
static const char *host_name_at_the_end(const XSpace *space)
{
	const XPlane *host = find_plane(space, "/host:CPU");
	const XLine *line = host->lines[0];

	return event_name(host, line->events[line->n_events - 1]);
}

TEST(names_that_would_be_shown_alike_stay_two_operations_and_are_the_same_on_all_planes)
{
	struct timeline t = sample();
	struct span copies[ARRAY_SIZE(spans)];
	const char *found[2];

	t.spans = memcpy(copies, spans, sizeof(spans));
	for (int i = 0; i < 2; i++) {
		XSpace *space;
		const XPlane *device;
		XEvent *last;

		copies[5].name = i ? NAME_COLON : NAME_SPACE;
		space = export_device(&t, 2);
		device = find_plane(space, "/device:TPU:0");
		last = device->lines[0]->events[2];
		found[i] = i ? "dense_MatMul_8:_my_op" : "dense_MatMul:_my_op";
		CHECK_STR(host_name_at_the_end(space), found[i]);
		CHECK_STR(kind_text(device, last, "tf_op"), found[i]);
		CHECK_STR(kind_text(device, last, "hlo_category"), "my.op");
		space_free(space);
	}
}

TEST(an_operation_has_a_category_a_program_and_a_symbol_and_no_invented_flops)
{
	struct timeline t = sample();
	XSpace *space = export_device(&t, 2);
	const XPlane *device = find_plane(space, "/device:TPU:0");
	XEvent **first = device->lines[0]->events, **second = device->lines[1]->events,
	       **inner = device->lines[2]->events, **third = device->lines[3]->events;

	CHECK_EQ(device->lines[0]->n_events, 3);
	CHECK_STR(event_name(device, first[0]), "dense/MatMul");
	CHECK_STR(kind_text(device, first[0], "hlo_category"), "dot");
	CHECK_STR(kind_text(device, first[0], "tf_op"), "dense/MatMul:MatMul");
	CHECK_EQ(kind_int(device, first[0], "program_id"), 1000000070);
	CHECK(!kind_stat(device, first[0], "flops") &&
	      !kind_stat(device, first[0], "bytes_accessed"));
	CHECK_EQ(first[0]->n_stats, 0);
	/* One operation is one, whichever thread runs it; another type, or another process, makes
	 * another one. */
	CHECK_EQ(first[0]->metadata_id, second[0]->metadata_id);
	CHECK_STR(event_name(device, first[2]), "dense/MatMul");
	CHECK_STR(kind_text(device, first[2], "hlo_category"), "elementwise");
	CHECK(kind_int(device, first[2], "symbol_id") != kind_int(device, first[0], "symbol_id"));
	CHECK_STR(event_name(device, third[0]), "dense/MatMul");
	CHECK_EQ(kind_int(device, third[0], "program_id"), 1000000012);
	CHECK_EQ(kind_int(device, third[0], "symbol_id"), kind_int(device, first[0], "symbol_id"));

	/* A colon would make readers count an event twice. */
	CHECK_STR(event_name(device, first[1]), "operation at 0x7f 00");
	CHECK_STR(kind_text(device, first[1], "hlo_category"), "unknown");
	CHECK(!kind_stat(device, first[1], "tf_op"));
	CHECK_STR(event_name(device, inner[0]), "a? b");
	CHECK_STR(kind_text(device, inner[0], "hlo_category"), "Mystery");
	CHECK_STR(kind_text(device, inner[0], "tf_op"), "a__b:Mystery");
	space_free(space);
}

TEST(everything_else_is_unchanged_and_a_warning_describes_the_device)
{
	struct timeline t = sample();
	XSpace *with = export_device(&t, 3);
	XSpace *without =
		export_with(&t, &(struct export_options){ .level = 3, .hostname = "host" });

	CHECK_EQ(with->n_planes, without->n_planes + 1);
	CHECK_EQ(with->n_warnings, without->n_warnings + 1);
	CHECK(with->n_warnings && strstr(with->warnings[0], "CPU is presented as a device"));
	for (size_t i = 0; i < without->n_planes; i++) {
		const XPlane *a = without->planes[i], *b = find_plane(with, a->name);
		size_t size = protobuf_c_message_get_packed_size(&a->base);
		uint8_t *x = malloc(size), *y = malloc(size);

		CHECK(b && protobuf_c_message_get_packed_size(&b->base) == size);
		protobuf_c_message_pack(&a->base, x);
		if (b && protobuf_c_message_get_packed_size(&b->base) == size)
			protobuf_c_message_pack(&b->base, y);
		CHECK(!memcmp(x, y, size));
		free(x);
		free(y);
	}
	space_free(with);
	space_free(without);
}

TEST(without_operations_there_is_no_plane_and_a_warning_reports_it)
{
	struct timeline t = sample(), empty = {};
	XSpace *space = export_device(&t, 1);

	CHECK(!find_plane(space, "/device:TPU:0"));
	CHECK_EQ(space->n_warnings, 1);
	CHECK(space->n_warnings && strstr(space->warnings[0], "capture at level 2 or 3"));
	space_free(space);
	space = export_device(&empty, 3);
	CHECK(!find_plane(space, "/device:TPU:0"));
	CHECK_EQ(space->n_warnings, 2);
	space_free(space);
}

TEST(events_out_of_order_are_counted_once)
{
	struct span wrong[] = { spans[3], spans[1], spans[4] };
	struct timeline t = sample();
	XSpace *space;

	t.spans = wrong;
	t.n_spans = ARRAY_SIZE(wrong);
	space = export_device(&t, 3);
	CHECK_EQ(find_plane(space, "/device:TPU:0")->lines[0]->n_events, 2);
	CHECK(space->n_warnings == 2);
	CHECK_STR(
		space->warnings[space->n_warnings - 1],
		"1 events were out of order on their line, the first on \"worker?/71\" at 0.001 ms, and are not shown.");
	space_free(space);
}

/* Readers leave out, or take time from, what has something within it on its line. */
TEST(operations_within_each_other_are_on_lines_of_their_own)
{
	enum { DEEP = 20, AFTER = 3 };
	struct span deep[DEEP + AFTER];
	struct timeline t = sample();
	const XPlane *device;
	size_t n = 0;
	XSpace *space;

	for (uint64_t i = 0; i < DEEP; i++)
		deep[i] = (struct span){ .start_ns = START + i,
					 .end_ns = START + 1000 - i,
					 .kind = SPAN_OP,
					 .name = NAME_MATMUL };
	/* These begin when the one before has ended. */
	for (uint64_t i = 0; i < AFTER; i++)
		deep[DEEP + i] = (struct span){ .start_ns = START + 1000 + i * 10,
						.end_ns = START + 1010 + i * 10,
						.kind = SPAN_OP,
						.name = NAME_MATMUL };
	t.spans = deep;
	t.n_spans = ARRAY_SIZE(deep);
	space = export_device(&t, 2);
	device = find_plane(space, "/device:TPU:0");
	CHECK_EQ(device->n_lines, 8);
	for (size_t i = 0; i < device->n_lines; i++) {
		CHECK_EQ(device->lines[i]->n_events, i == 0 ? 1 + AFTER : i < 7 ? 1 : DEEP - 7);
		CHECK_STR(device->lines[i]->name, "XLA Ops");
		for (size_t k = 0; k < i; k++)
			CHECK(device->lines[i]->id != device->lines[k]->id &&
			      device->lines[i]->display_id != device->lines[k]->display_id);
		n += device->lines[i]->n_events;
	}
	CHECK_EQ(n, DEEP + AFTER);
	space_free(space);
}

TEST(names_of_any_length_are_shown_with_what_fits)
{
	char *name = malloc((64 << 10) + 1);
	struct span_name long_names[ARRAY_SIZE(names)];
	struct timeline t = sample();
	XSpace *space;
	const XPlane *device;

	memcpy(long_names, names, sizeof(names));
	memset(name, 'x', 64 << 10);
	name[64 << 10] = 0;
	long_names[NAME_MATMUL] = (struct span_name){ .name = name };
	long_names[NAME_OTHER_TYPE] =
		(struct span_name){ .name = (char *)":", .display = (char *)"" };
	long_names[NAME_COLONS] =
		(struct span_name){ .name = (char *)"", .display = (char *)"Type" };
	t.names = long_names;
	space = export_device(&t, 2);
	device = find_plane(space, "/device:TPU:0");
	CHECK_EQ(strlen(event_name(device, device->lines[0]->events[0])), 511);
	CHECK_STR(event_name(device, device->lines[0]->events[2]), "unnamed operation");
	CHECK_STR(event_name(device, device->lines[2]->events[0]), "unnamed operation");
	space_free(space);
	free(name);
}

TEST(every_allocation_that_fails_gives_enomem_and_a_limit_efbig)
{
	const struct export_options options = { .level = 3, .extras.device_plane = true };
	struct timeline t = sample();

	check_limits(&t, options, check_allocations_fail(&t, &options, 10, 100));
}

CHECK_MAIN()
