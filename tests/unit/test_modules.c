/* SPDX-License-Identifier: Apache-2.0 */
/* XLA's modules on their way into a trace. */
#include "tests/unit/exported.h"

/* An xla.HloProto: a module of this id and name, and a field that is ignored. */
#define NAMED(name, size, number) "\x0a" size "\x0a" name "\x28" number "\x1a\x03xyz"
static const char five[] = NAMED("\x01m", "\x05", "\x05");

static const struct timeline nothing = { .start_ns = 1000, .end_ns = 2000 };

static int add(struct modules *m, const char *bytes, size_t size)
{
	return modules_add(m, bytes, size);
}

static XSpace *export_modules(const struct modules *m, unsigned level)
{
	return export_with(&nothing, &(struct export_options){ .level = level, .modules = m });
}

static void check_module(const XPlane *plane, size_t i, uint64_t id, const char *name,
			 const char *bytes, size_t size)
{
	const Tensorflow__Profiler__XPlane__EventMetadataEntry *entry = plane->event_metadata[i];

	CHECK_EQ(entry->key, id);
	CHECK_EQ(entry->value->id, id);
	CHECK_STR(entry->value->name, name);
	CHECK_EQ(entry->value->n_stats, 1);
	CHECK_STR(plane->stat_metadata[entry->value->stats[0]->metadata_id - 1]->value->name,
		  "Hlo Proto");
	CHECK_EQ(entry->value->stats[0]->bytes_value.len, size);
	CHECK(!memcmp(entry->value->stats[0]->bytes_value.data, bytes, size));
}

TEST(modules_are_passed_on_as_they_are_under_their_names_and_numbers)
{
	static const char zero[] = "\x0a\x05\x0a\x03odd";
	const XPlane *plane;
	struct modules m = {};
	XSpace *space;

	CHECK_EQ(add(&m, five, sizeof(five) - 1), 0);
	CHECK_EQ(add(&m, zero, sizeof(zero) - 1), 0);
	CHECK_EQ(add(&m, five, sizeof(five) - 1), 0); /* of another process */
	space = export_modules(&m, 1);
	plane = find_plane(space, "/host:metadata");
	CHECK(plane && plane->n_lines == 0);
	CHECK_EQ(plane->n_event_metadata, 3);
	check_module(plane, 0, 5, "m(5)", five, sizeof(five) - 1);
	check_module(plane, 1, 0, "odd(0)", zero, sizeof(zero) - 1);
	check_module(plane, 2, 6, "m(6)", five, sizeof(five) - 1);
	space_free(space);
	space = export_modules(&m, 0);
	CHECK(!find_plane(space, "/host:metadata"));
	space_free(space);
	modules_done(&m);
}

TEST(without_modules_the_trace_has_no_plane_for_them)
{
	struct modules m = {};
	XSpace *space = export_modules(&m, 3);

	CHECK(!find_plane(space, "/host:metadata"));
	space_free(space);
}

TEST(an_incomplete_module_is_refused)
{
	static const char nameless[] = "\x0a\x02\x28\x05", moduleless[] = "\x1a\x03xyz";
	struct modules m = {};

	for (size_t i = 0; i < sizeof(five) - 1; i++)
		if (i != sizeof(five) - 6) /* there its last part begins, which nobody needs */
			CHECK_EQ(add(&m, five, i), -EBADMSG);
	CHECK_EQ(add(&m, nameless, sizeof(nameless) - 1), -EINVAL);
	CHECK_EQ(add(&m, moduleless, sizeof(moduleless) - 1), -EBADMSG);
	CHECK_EQ(m.n, 0);
	modules_done(&m);
}

/* Readers write each to a file of its name. */
TEST(names_that_would_leave_the_readers_directory_are_refused)
{
	static const char *const names[] = { "../../up", "/tmp/x",   "a/b", "..",
					     ".hidden",  "a\\b",     "a b", "a\nb",
					     "\x7f",     "\xc3\xa4", "\x80" };
	char name[MODULE_NAME_BYTES + 2], bytes[300];
	struct modules m = {};

	for (size_t i = 0; i < ARRAY_SIZE(names) + 2; i++) {
		bool is_long = i >= ARRAY_SIZE(names), fits = i == ARRAY_SIZE(names) + 1;
		int n;

		if (is_long) {
			memset(name, 'm', sizeof(name));
			name[MODULE_NAME_BYTES + !fits] = 0;
		}
		n = strlen(is_long ? name : names[i]);
		/* A length of two bytes, whatever it is. */
		n = snprintf(bytes, sizeof(bytes), "\x0a%c%c\x0a%c%c%s", ((n + 3) & 127) | 128,
			     (n + 3) >> 7, (n & 127) | 128, n >> 7, is_long ? name : names[i]);
		CHECK_EQ(add(&m, bytes, (size_t)n), fits ? 0 : -EINVAL);
	}
	CHECK_EQ(m.n, 1);
	CHECK_EQ(strlen(m.list[0].name), MODULE_NAME_BYTES + strlen("(0)"));
	modules_done(&m);
}

TEST(a_file_that_would_take_many_times_its_size_to_read_is_refused)
{
	size_t size = 4u << 20;
	struct modules m = {};
	char *bytes = malloc(size);

	/* A field of two bytes after the other, and the module at the end. */
	for (size_t i = 0; i < size; i += 2) {
		bytes[i] = '\x78';
		bytes[i + 1] = 1;
	}
	memcpy(bytes + size - (sizeof(five) - 1), five, sizeof(five) - 1);
	CHECK_EQ(add(&m, bytes, size), -EBADMSG);
	for (unsigned i = 1; i < MODULES_BYTES_MAX / size; i++)
		CHECK_EQ(add(&m, bytes, size), -EBADMSG);
	CHECK_EQ(add(&m, five, sizeof(five) - 1), -ENOBUFS);
	free(bytes);
	modules_done(&m);
}

TEST(the_number_of_modules_is_limited_and_a_negative_id_is_refused)
{
	static const char negative[] =
		NAMED("\x01m", "\x0e", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	struct modules m = {};

	CHECK_EQ(add(&m, negative, sizeof(negative) - 1), 0);
	CHECK_STR(m.list[0].name, "m(0)");
	for (unsigned i = 1; i < MODULES_MAX; i++)
		CHECK_EQ(add(&m, five, sizeof(five) - 1), 0);
	CHECK_EQ(add(&m, five, sizeof(five) - 1), -ENOBUFS);
	CHECK_EQ(m.n, MODULES_MAX);
	modules_done(&m);
	CHECK_EQ(m.n, 0);
}

TEST(a_trace_without_room_for_its_modules_fails)
{
	struct xspace_result result = {};
	struct modules m = {};

	CHECK_EQ(add(&m, five, sizeof(five) - 1), 0);
	CHECK_EQ(export_xspace(
			 &nothing,
			 &(struct export_options){ .level = 1, .modules = &m, .max_bytes = 60 },
			 &result),
		 -EFBIG);
	check_allocations_fail(&nothing, &(struct export_options){ .level = 1, .modules = &m }, 0,
			       100);
	modules_done(&m);
}

CHECK_MAIN()
