/* SPDX-License-Identifier: Apache-2.0 */
/* Which work a process does for its parent: by the pid that the parent reads when it hands it over.
 */
#include <string.h>

#include "tests/unit/fed.h"

enum { S_BATCH, S_BATCH_END, S_HAND, S_DO, S_DONE, S_RUN, S_RUN_END, N_SITES };

static const struct probe_row probes[N_SITES] = {
	[S_BATCH] = { OPEN(BATCH), .event = "Batch" },
	[S_BATCH_END] = { CLOSE(BATCH) },
	[S_HAND] = { ENQUEUE(CHILD), .action = ACTION_READ },
	[S_DO] = { OPEN(CHILD), .event = "Do" },
	[S_DONE] = { CLOSE(CHILD) },
	[S_RUN] = { OPEN(RUN), .group = 1, .event = "Run" },
	[S_RUN_END] = { CLOSE(RUN), .group = 1 },
};

TEST_PACK(probes, N_SITES);

/* Targets by number. Children of the server, of which one is in another pid namespace, one is of a
 * server that is not captured, and one has the pid that a child of the server has. */
enum { SERVER, CHILD, INNER, STRANGER, OTHER_SERVER, OTHER_CHILD };

static void begin(void)
{
	const struct correlate_target targets[] = {
		[SERVER] = { .pid = 77, .parent = 1, .own_pid = 77 },
		[CHILD] = { .pid = 88, .parent = 77, .own_pid = 88 },
		[INNER] = { .pid = 90, .parent = 77, .own_pid = 12 },
		[STRANGER] = { .pid = 95, .parent = 70, .own_pid = 88 },
		[OTHER_SERVER] = { .pid = 78, .parent = 1, .own_pid = 1 },
		[OTHER_CHILD] = { .pid = 96, .parent = 78, .own_pid = 12 },
	};

	CHECK_EQ(correlator_new(1000, &c), 0);
	for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct correlate_target target = targets[i];

		target.packs = set_of(&pack);
		CHECK_EQ(correlator_add_target(c, &target), 0);
	}
}

/* Above the pid the word holds something else. */
static void hand(uint8_t target, uint64_t time, uint32_t tid, uint32_t pid)
{
	const struct record_probe2 r = { .probe = { .head = { .time = time,
							      .tid = tid,
							      .kind = RECORD_PROBE,
							      .site = S_HAND,
							      .target = target,
							      .size8 = sizeof(r) / 8 },
						    .stack = 300 },
					 .value2 = UINT64_C(0x1234) << 32 | pid };

	CHECK_EQ(correlator_feed(c, &r.probe.head), 0);
}

static const struct span *piece_at(const struct timeline *t, uint64_t start)
{
	const struct span *s = span_at(t, SPAN_EXECUTOR, start);

	CHECK(s);
	return s;
}

static uint64_t batch_at(const struct timeline *t, uint64_t start)
{
	const struct span *s = span_at(t, SPAN_BATCH, start);

	CHECK(s && s->context);
	return s->context;
}

TEST(a_child_does_what_its_parent_has_handed_to_it)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	feed_probe(SERVER, 1120, 2, S_BATCH, 400, 0xb1);
	hand(SERVER, 1130, 2, 12);
	feed_probe(INNER, 1140, 6, S_DO, 500, 0);
	feed_probe(CHILD, 1150, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1200, 5, S_DONE, 600, 0);
	feed_probe(INNER, 1210, 6, S_DONE, 600, 0);
	feed_probe(SERVER, 1300, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(SERVER, 1310, 2, S_BATCH_END, 420, 0xb1);
	t = finish();
	CHECK_EQ(piece_at(t, 1150)->context, batch_at(t, 1100));
	CHECK_EQ(piece_at(t, 1140)->context, batch_at(t, 1120));
	CHECK_EQ(piece_at(t, 1150)->end_ns, 1200);
	CHECK_EQ(piece_at(t, 1140)->end_ns, 1210);
	CHECK_EQ(piece_at(t, 1140)->flags, SPAN_CHILD);
	CHECK(span_at(t, SPAN_BATCH, 1100)->flags & SPAN_CHILD);
	CHECK_STR(t->names[piece_at(t, 1140)->name].name, "Do");
	timeline_free(t);
}

TEST(nothing_is_taken_up_twice_or_after_its_end)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	feed_probe(CHILD, 1120, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1130, 5, S_DONE, 600, 0);
	feed_probe(CHILD, 1140, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1150, 5, S_DONE, 600, 0);
	hand(SERVER, 1160, 1, 88);
	feed_probe(SERVER, 1170, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(CHILD, 1180, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1190, 5, S_DONE, 600, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1120)->context, batch_at(t, 1100));
	CHECK_EQ(piece_at(t, 1140)->context, 0);
	CHECK_EQ(piece_at(t, 1180)->context, 0);
	timeline_free(t);
}

TEST(what_was_given_up_can_be_what_is_taken_up_next)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	feed_probe(SERVER, 1120, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(SERVER, 1130, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1140, 1, 88);
	feed_probe(CHILD, 1150, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1160, 5, S_DONE, 600, 0);
	feed_probe(CHILD, 1170, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1180, 5, S_DONE, 600, 0);
	feed_probe(SERVER, 1190, 1, S_BATCH_END, 420, 0xb0);
	/* All is taken up. */
	feed_probe(SERVER, 1200, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1210, 1, 88);
	feed_probe(CHILD, 1220, 5, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1150)->context, 0);
	CHECK_EQ(piece_at(t, 1170)->context, 0);
	CHECK_EQ(piece_at(t, 1220)->context, batch_at(t, 1200));
	CHECK_EQ(t->n_warnings, 1);
	CHECK(strstr(t->warnings[0], "2 of 3 times"));
	timeline_free(t);
}

TEST(after_a_loss_nothing_is_certain)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	CHECK_EQ(correlator_note_loss(c, 1112, 1115), 0);
	feed_probe(CHILD, 1120, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1130, 5, S_DONE, 600, 0);
	/* The next one may be what was lost, the one after it is not. */
	hand(SERVER, 1140, 1, 88);
	feed_probe(CHILD, 1150, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1160, 5, S_DONE, 600, 0);
	feed_probe(SERVER, 1170, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(SERVER, 1180, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1190, 1, 88);
	feed_probe(CHILD, 1200, 5, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1120)->context, 0);
	CHECK_EQ(piece_at(t, 1150)->context, 0);
	CHECK_EQ(piece_at(t, 1200)->context, batch_at(t, 1180));
	timeline_free(t);
}

TEST(a_lost_begin_is_not_counted_for_ever)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	CHECK_EQ(correlator_note_loss(c, 1112, 1115), 0);
	feed_probe(SERVER, 1120, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(SERVER, 1130, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1140, 1, 88);
	feed_probe(CHILD, 1150, 5, S_DO, 500, 0);
	feed_probe(SERVER, 1160, 1, S_BATCH_END, 420, 0xb0);
	feed_probe(SERVER, 1170, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1180, 1, 88);
	feed_probe(CHILD, 1190, 5, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1150)->context, 0);
	CHECK_EQ(piece_at(t, 1190)->context, batch_at(t, 1170));
	timeline_free(t);
}

TEST(what_a_child_was_handed_before_it_was_a_target_is_not_counted)
{
	const struct correlate_target late = {
		.pid = 91, .parent = 77, .own_pid = 91, .packs = set_of(&pack)
	};
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 91);
	feed_probe(SERVER, 1120, 1, S_BATCH_END, 420, 0xb0);
	CHECK_EQ(correlator_add_target(c, &late), 0);
	feed_probe(SERVER, 1130, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1140, 1, 91);
	feed_probe(OTHER_CHILD + 1, 1150, 9, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1150)->context, batch_at(t, 1130));
	timeline_free(t);
}

TEST(a_server_that_is_a_target_again_has_another_number)
{
	const struct correlate_target again = {
		.pid = 77, .parent = 1, .own_pid = 77, .packs = set_of(&pack)
	};
	struct timeline *t;

	begin();
	CHECK_EQ(correlator_add_target(c, &again), 0);
	feed_probe(OTHER_CHILD + 1, 1100, 1, S_BATCH, 400, 0xb0);
	hand(OTHER_CHILD + 1, 1110, 1, 88);
	feed_probe(CHILD, 1120, 5, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1120)->context, batch_at(t, 1100));
	timeline_free(t);
}

TEST(what_another_server_hands_over_is_for_its_own_child)
{
	struct timeline *t;

	begin();
	feed_probe(OTHER_SERVER, 1100, 3, S_BATCH, 400, 0xb0);
	hand(OTHER_SERVER, 1110, 3, 12);
	feed_probe(SERVER, 1120, 1, S_BATCH, 400, 0xb1);
	hand(SERVER, 1130, 1, 88);
	feed_probe(INNER, 1140, 6, S_DO, 500, 0);
	feed_probe(STRANGER, 1150, 7, S_DO, 500, 0);
	feed_probe(OTHER_CHILD, 1160, 8, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1140)->context, 0);
	CHECK_EQ(piece_at(t, 1150)->context, 0);
	CHECK_EQ(piece_at(t, 1160)->context, batch_at(t, 1100));
	timeline_free(t);
}

TEST(what_is_handed_over_outside_of_work_is_of_none)
{
	struct timeline *t;

	begin();
	hand(SERVER, 1100, 1, 88);
	feed_probe(CHILD, 1110, 5, S_DO, 500, 0);
	t = finish();
	CHECK_EQ(piece_at(t, 1110)->context, 0);
	CHECK_EQ(piece_at(t, 1110)->flags & SPAN_TRUNCATED_END, SPAN_TRUNCATED_END);
	timeline_free(t);
}

TEST(runs_in_it_are_inner_ones_if_it_is_known_of_what_it_is)
{
	struct timeline *t;

	begin();
	feed_probe(SERVER, 1100, 1, S_BATCH, 400, 0xb0);
	hand(SERVER, 1110, 1, 88);
	feed_probe(CHILD, 1120, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1130, 5, S_RUN, 400, 0);
	feed_probe(CHILD, 1140, 5, S_RUN_END, 390, 0);
	feed_probe(CHILD, 1150, 5, S_DONE, 600, 0);
	feed_probe(CHILD, 1160, 5, S_DO, 500, 0);
	feed_probe(CHILD, 1170, 5, S_RUN, 400, 0);
	/* Its end was not seen: the piece's end is the later one. */
	feed_probe(CHILD, 1180, 5, S_DONE, 600, 0);
	t = finish();
	CHECK(span_at(t, SPAN_RUN, 1130)->flags & SPAN_INNER);
	CHECK(!(span_at(t, SPAN_RUN, 1170)->flags & SPAN_INNER));
	CHECK_EQ(piece_at(t, 1160)->end_ns, 1180);
	timeline_free(t);
}

TEST(an_end_without_a_begin_changes_nothing)
{
	struct timeline *t;

	begin();
	feed_probe(CHILD, 1100, 5, S_DONE, 600, 0);
	feed_probe(CHILD, 1110, 5, S_RUN, 400, 0);
	feed_probe(CHILD, 1120, 5, S_RUN_END, 390, 0);
	feed_probe(CHILD, 1130, 5, S_DONE, 600, 0);
	t = finish();
	CHECK_EQ(t->n_spans, 1);
	CHECK_EQ(span_at(t, SPAN_RUN, 1110)->end_ns, 1120);
	timeline_free(t);
}

CHECK_MAIN()
