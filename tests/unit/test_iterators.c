/* SPDX-License-Identifier: Apache-2.0 */
/* Iterators of tf.data: from records to events that readers take for work of an input pipeline. */
#include "tests/unit/exported.h"
#include "tests/unit/fed.h"

enum { S_BEGIN, S_END, S_OP, S_OP_END, N_SITES };

static const struct probe_row probes[N_SITES] = {
	[S_BEGIN] = { OPEN(STAGE), .action = ACTION_TEXT },
	[S_END] = { CLOSE(STAGE) },
	[S_OP] = { OPEN(OP) },
	[S_OP_END] = { CLOSE(OP) },
};

TEST_PACK(probes, N_SITES);

/* size: what the object states. */
static void begin_named(uint64_t time, uint32_t stack, uint32_t iterator, const char *name,
			uint32_t size)
{
	struct record_text r = { .probe = { .head = { .time = time,
						      .tid = 11,
						      .kind = RECORD_TEXT,
						      .site = S_BEGIN,
						      .size8 = sizeof(r) / 8 },
					    .stack = stack,
					    .tag = iterator },
				 .size = size };

	memcpy(r.text, name, MIN(strlen(name), sizeof(r.text)));
	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static void begin(uint64_t time, uint32_t stack, uint32_t iterator, const char *name)
{
	begin_named(time, stack, iterator, name, (uint32_t)strlen(name));
}

static void probe(uint64_t time, unsigned site, uint32_t stack, uint32_t tag)
{
	struct record_probe r = { .head = { .time = time,
					    .tid = 11,
					    .kind = RECORD_PROBE,
					    .site = (uint8_t)site,
					    .size8 = sizeof(r) / 8 },
				  .stack = stack,
				  .tag = tag,
				  .value = tag };

	CHECK_EQ(correlator_feed(c, &r.head), 0);
}

static const struct span *find(const struct timeline *t, const char *name, unsigned nth)
{
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_ITERATOR &&
		    !strcmp(t->names[t->spans[i].name].name, name) && !nth--)
			return &t->spans[i];
	return NULL;
}

static void check(const struct span *s, uint64_t from, uint64_t until, unsigned flags)
{
	CHECK(s);
	CHECK_EQ(s->start_ns, from);
	CHECK_EQ(s->end_ns, until);
	CHECK_EQ(s->flags & SPAN_NOT_WHOLE, flags);
}

TEST(an_iterator_lasts_until_it_has_its_element_and_contains_its_inputs)
{
	struct timeline *t;
	XSpace *space;

	begin_with(&pack);
	probe(1050, S_END, 700, 1); /* of one that began before the window */
	begin(1100, 900, 1, "Iterator::Root");
	begin(1200, 800, 2, "Iterator::Root::Map");
	begin(1300, 700, 3, "Iterator::Root::Map::TensorSlice");
	probe(1400, S_END, 600, 3);
	probe(1450, S_END, 600, 77); /* of what is unknown */
	begin(1500, 700, 3, "Iterator::Root::Map::TensorSlice");
	probe(1600, S_END, 600, 3);
	probe(1700, S_END, 700, 2);
	probe(1800, S_END, 800, 1);
	t = finish();
	check(find(t, "Iterator::Root", 0), 1100, 1800, 0);
	check(find(t, "Iterator::Root::Map", 0), 1200, 1700, 0);
	check(find(t, "Iterator::Root::Map::TensorSlice", 0), 1300, 1400, 0);
	check(find(t, "Iterator::Root::Map::TensorSlice", 1), 1500, 1600, 0);
	CHECK_EQ(t->n_spans, 4);
	space = export_at(t, 1);
	CHECK(!shows(find_plane(space, "/host:CPU"), "Iterator::Root"));
	space_free(space);
	space = export_at(t, 2);
	CHECK(shows(find_plane(space, "/host:CPU"), "Iterator::Root::Map"));
	space_free(space);
	timeline_free(t);
}

TEST(an_iterator_without_an_end_record_ends_with_its_enclosing_span)
{
	struct timeline *t;

	begin_with(&pack);
	begin(1100, 900, 1, "Iterator::Root");
	begin(1200, 800, 2, "Iterator::Root::Map");
	probe(1800, S_END, 800, 1);
	begin(2100, 900, 1, "Iterator::Root");
	begin(3100, 900, 1, "Iterator::Root");
	t = finish();
	check(find(t, "Iterator::Root", 0), 1100, 1800, 0);
	check(find(t, "Iterator::Root::Map", 0), 1200, 1800, SPAN_END_NOT_SEEN);
	check(find(t, "Iterator::Root", 1), 2100, 3100, SPAN_END_NOT_SEEN);
	check(find(t, "Iterator::Root", 2), 3100, 9000, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(an_enclosing_operation_is_not_changed_by_iterators)
{
	struct timeline *t;
	uint64_t ops = 0;

	begin_with(&pack);
	probe(1100, S_OP, 1000, 5);
	begin(1200, 900, 1, "Iterator::Root");
	probe(1300, S_OP, 800, 6);
	probe(1400, S_OP_END, 700, 6);
	probe(1500, S_END, 800, 1);
	probe(1600, S_OP_END, 900, 5);
	t = finish();
	for (uint64_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];

		if (s->kind != SPAN_OP)
			continue;
		ops++;
		CHECK(s->start_ns == 1100 ? s->end_ns == 1600
					  : s->start_ns == 1300 && s->end_ns == 1400);
	}
	CHECK_EQ(ops, 2);
	CHECK_EQ(t->n_ops, 2);
	check(find(t, "Iterator::Root", 0), 1200, 1500, 0);
	timeline_free(t);
}

TEST(truncated_and_missing_names_are_marked_and_the_number_of_names_is_limited)
{
	char name[128] = "", long_name[RECORD_TEXT_SIZE + 1] = "", shown[128];
	struct timeline *t;

	begin_with(&pack);
	/* Of a long name its end is kept. */
	memset(long_name, 'x', RECORD_TEXT_SIZE);
	begin_named(1100, 900, 1, long_name, RECORD_TEXT_SIZE + 20);
	long_name[3] = '\n';
	begin_named(1150, 900, 1, long_name, RECORD_TEXT_SIZE + 20);
	long_name[3] = 'x';
	begin_named(1200, 900, 1, "libstdc++", 9);
	begin_named(1300, 900, 1, "", 0);
	begin_named(1400, 900, 1, "Iterator::\0Root", 15);
	for (unsigned i = 0; i < 6000; i++) {
		snprintf(name, sizeof(name), "Iterator::Root::FlatMap[%u]", i);
		begin(2000 + i, 900, 1, name);
	}
	t = finish();
	snprintf(shown, sizeof(shown), "Iterator::...%s", long_name);
	CHECK(find(t, shown, 0));
	CHECK(find(t, "Iterator::unknown", 3));
	CHECK(find(t, "Iterator::Root::FlatMap[17]", 0));
	CHECK(!find(t, "Iterator::Root::FlatMap[5999]", 0));
	CHECK(find(t, "Iterator::other", 1000));
	CHECK(t->n_names < 4096 + 16);
	timeline_free(t);
}

CHECK_MAIN()
