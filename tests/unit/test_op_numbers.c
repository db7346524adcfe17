/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that are numbers: each pack's have names of their own, and no object has such a one.
 */
#include <string.h>

#include "daemon/correlate/correlate.h"
#include "lib/base/macro.h"
#include "lib/elf/table.h"
#include "tests/unit/check.h"

static bool any(const char *s, uint32_t size)
{
	return s && size > 0;
}

static const struct table_path list = { .function = "op_name", .at_least = 2 };
static const struct probe_row rows[] = {
	{ .symbol = "compute", OPEN(OP), .action = ACTION_ENTRY, .value = { ARGUMENT_1 } },
};

#define PACK(pack_name, ...)                                                                       \
	{                                                                                          \
		.name = pack_name, .rows = rows, .n_rows = 1, .ops_end_at_next = true, .names = {  \
			.is_name = any,                                                            \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

static const struct pack ops = PACK("ops", .list = &list), valves = PACK("valves", .list = &list),
			 objects = PACK("objects", .form = NAME_C_STRING, .name_offset = 8);

static void feed_name(struct correlator *c, unsigned site, uint64_t object, const char *text)
{
	struct record_name r = { .head = { .time = 1000,
					   .kind = RECORD_NAME,
					   .site = (uint8_t)site,
					   .size8 = sizeof(r) / 8 },
				 .object = object,
				 .name_size = (uint32_t)strlen(text),
				 .type_size = (uint32_t)strlen(text) };

	strcpy(r.name, text);
	strcpy(r.type, text);
	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static void feed_op(struct correlator *c, uint64_t time, unsigned site, uint64_t value)
{
	struct record_probe r = { .head = { .time = time,
					    .tid = 5,
					    .kind = RECORD_PROBE,
					    .site = (uint8_t)site,
					    .size8 = sizeof(r) / 8 },
				  .stack = 4096,
				  .value = value };

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

TEST(the_same_number_has_the_name_of_its_own_pack)
{
	static const char *const expected[] = { "ADD:ADD", "Open:Open", "ADD:ADD", "object:object",
						"operation whose name could not be read" };
	struct pack_set set = {};
	struct correlate_target target = { .pid = 77, .packs = &set };
	struct correlator *c = NULL;
	struct timeline *t = NULL;
	unsigned n = 0;

	CHECK_EQ(pack_set_add(&set, &ops), 0);
	CHECK_EQ(pack_set_add(&set, &valves), 0);
	CHECK_EQ(pack_set_add(&set, &objects), 0);
	CHECK_EQ(correlator_new(1000, &c), 0);
	CHECK_EQ(correlator_add_target(c, &target), 0);
	/* As another release has numbered its packs: what counts is the row. */
	feed_name(c, 0, op_number_object(1, 2), "ADD");
	feed_name(c, 1, op_number_object(0, 2), "Open");
	feed_name(c, 2, 2, "object");
	feed_op(c, 2000, 0, 2);
	feed_op(c, 3000, 1, 2);
	/* Beside a number of 32 bits may be anything. */
	feed_op(c, 4000, 0, 0xabcdef0100000002);
	feed_op(c, 5000, 2, 2);
	feed_op(c, 6000, 0, 3);
	CHECK_EQ(correlator_finish(c, 9000, 5000000000, &t), 0);
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_OP && n < ARRAY_SIZE(expected))
			CHECK_STR(t->names[t->spans[i].name].name, expected[n++]);
	CHECK_EQ(n, ARRAY_SIZE(expected));
	CHECK_EQ(t->n_lost_names, 1);
	timeline_free(t);
	correlator_free(c);
}

CHECK_MAIN()
