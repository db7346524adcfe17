/* SPDX-License-Identifier: Apache-2.0 */
/* What one target can make grow has a limit, which takes nothing from the other targets; and what
 * is looked up costs no more for it. */
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/correlate/correlate.h"
#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"
#include "tests/unit/packed.h"

enum { S_OP, S_OP_END, S_FREE, S_STREAM, N_SITES };

static const struct probe_row probes[N_SITES] = {
	[S_OP] = { OPEN(OP), .action = ACTION_OBJECT },
	[S_OP_END] = { CLOSE(OP) },
	[S_FREE] = { FREE(OP) },
	[S_STREAM] = { OPEN(STREAM), .action = ACTION_READ },
};

static bool any(const char *s, uint32_t size)
{
	return size > 0;
}

static const struct pack pack = { .name = "test",
				  .rows = probes,
				  .n_rows = N_SITES,
				  .names = {
					  .is_name = any, .is_type = any, .type_distance = 16 } };

enum { HOSTILE, OTHER, TARGETS };

static struct correlator *new_correlator(void)
{
	struct correlator *c = NULL;

	CHECK_EQ(correlator_new(1000, &c), 0);
	for (unsigned i = 0; i < TARGETS; i++) {
		const struct correlate_target target = { .pid = 70 + (int)i,
							 .name = "server",
							 .packs = set_of(&pack) };

		CHECK_EQ(correlator_add_target(c, &target), 0);
	}
	return c;
}

static void use(struct correlator *c, uint64_t time, uint8_t target, uint8_t site, uint64_t object)
{
	const struct record_probe r = { .head = { .time = time,
						  .tid = 1 + target,
						  .kind = RECORD_PROBE,
						  .site = site,
						  .size8 = sizeof(r) / 8,
						  .target = target },
					.stack = 100,
					.value = object };

	if (correlator_feed(c, &r.head) < 0)
		CHECK(false);
}

static void name(struct correlator *c, uint64_t time, uint8_t target, uint64_t object,
		 uint64_t number)
{
	struct record_name r = { .head = { .time = time,
					   .tid = 1 + target,
					   .kind = RECORD_NAME,
					   .size8 = sizeof(r) / 8,
					   .target = target },
				 .object = object,
				 .type_size = 3,
				 .type = "Mul" };

	r.name_size =
		(uint32_t)snprintf(r.name, sizeof(r.name), "%0400llu", (unsigned long long)number);
	if (correlator_feed(c, &r.head) < 0)
		CHECK(false);
}

TEST(names_of_one_target_are_limited_and_those_of_others_are_not)
{
	struct correlator *c = new_correlator();
	uint64_t time = 2000;
	struct timeline *t;
	uint32_t n;

	for (uint64_t i = 0; i < 200000; i++)
		name(c, time++, HOSTILE, i % 64, i);
	n = names_count(&c->names);
	CHECK(n < (40u << 20) / 400);
	/* A name that is known costs nothing. */
	name(c, time++, HOSTILE, 500, 1);
	use(c, time++, HOSTILE, S_OP, 500);
	use(c, time++, HOSTILE, S_OP_END, 0);
	/* An object at a known address is not shown under the name of an earlier one. */
	use(c, time++, HOSTILE, S_OP, 199999 % 64);
	use(c, time++, HOSTILE, S_OP_END, 0);
	name(c, time++, OTHER, 500, 1000000);
	CHECK_EQ(names_count(&c->names), n + 1);
	use(c, time++, OTHER, S_OP, 500);
	use(c, time++, OTHER, S_OP_END, 0);
	CHECK_EQ(correlator_finish(c, time, 5000000000, &t), 0);
	correlator_free(c);
	CHECK_EQ(t->n_lost_names, 1);
	timeline_free(t);
}

TEST(threads_are_limited)
{
	struct correlator *c = new_correlator();
	struct record_thread r = { .head = { .kind = RECORD_FORK, .size8 = sizeof(r) / 8 },
				   .pid = 70,
				   .comm = "hostile" };
	struct timeline *t;

	use(c, 2000, OTHER, S_OP, 1);
	for (uint32_t i = 0; i < 1000000; i++) {
		r.head.time = 3000 + i;
		r.head.tid = 1000 + i;
		if (correlator_feed(c, &r.head) < 0)
			CHECK(false);
	}
	/* A thread that is known goes on. */
	use(c, 2000000, OTHER, S_OP_END, 0);
	CHECK_EQ(correlator_finish(c, 3000000, 5000000000, &t), 0);
	correlator_free(c);
	CHECK_EQ(t->n_threads, 65536);
	CHECK_EQ(t->n_spans_left_out, 1000000 - 65535);
	CHECK_EQ(t->n_spans, 1);
	CHECK_EQ(t->spans[0].end_ns, 2000000);
	timeline_free(t);
}

static void stream(struct correlator *c, uint64_t time, uint8_t target, uint32_t number)
{
	const struct record_probe2 r = { .probe = { .head = { .time = time,
							      .tid = 1 + target,
							      .kind = RECORD_PROBE,
							      .site = S_STREAM,
							      .size8 = sizeof(r) / 8,
							      .target = target },
						    .value = number % 64,
						    .tag = 9 },
					 .value2 = number };

	if (correlator_feed(c, &r.probe.head) < 0)
		CHECK(false);
}

TEST(streams_of_one_target_are_limited_and_what_is_left_out_is_counted)
{
	struct correlator *c = new_correlator();
	const struct record_unseen unseen = { .head = { .time = 1500,
							.kind = RECORD_UNSEEN,
							.site = UNSEEN_TLS,
							.size8 = sizeof(unseen) / 8,
							.target = OTHER },
					      .socket = 5,
					      .inode = 5 };
	struct timeline *t;
	bool warned = false;

	CHECK_EQ(correlator_feed(c, &unseen.head), 0);
	for (uint32_t i = 0; i < REQUESTS_MAX; i++)
		stream(c, 2000 + i, HOSTILE, 1 + 2 * i);
	stream(c, 2000 + REQUESTS_MAX, OTHER, 1);
	CHECK_EQ(correlator_n_open(c, HOSTILE), 0);
	CHECK_EQ(correlator_n_open(c, OTHER), 1);
	CHECK_EQ(correlator_oldest_open(c), 2000 + REQUESTS_MAX);
	CHECK_EQ(correlator_finish(c, 3000000, 5000000000, &t), 0);
	correlator_free(c);
	CHECK_EQ(t->n_requests, 1);
	for (uint32_t i = 0; i < t->n_warnings; i++)
		warned |= strstr(t->warnings[i],
				 "524288 streams of gRPC's library were left out") != NULL;
	CHECK(warned);
	timeline_free(t);
}

TEST(one_process_among_others_takes_at_most_half)
{
	struct correlator *c = new_correlator();
	struct shares shares = {};
	uint32_t hostile, other;

	use(c, 2000, HOSTILE, S_OP_END, 0);
	use(c, 2000, OTHER, S_OP_END, 0);
	hostile = thread_table_find(c, 1 + HOSTILE);
	other = thread_table_find(c, 1 + OTHER);
	for (unsigned i = 0; i < 1000; i++)
		CHECK_EQ(shares_take(&shares, c, hostile, 100), i < 50);
	for (unsigned i = 0; i < 30; i++)
		CHECK(shares_take(&shares, c, other, 100));
	CHECK_EQ(shares.n, 80);
	correlator_free(c);
}

/* Each would be searched for among all of the address's earlier objects. */
TEST(objects_without_a_name_at_an_address_of_many_are_looked_up_in_bounded_time)
{
	struct correlator *c = new_correlator();
	uint64_t time = 2000;
	struct timeline *t;

	for (uint64_t i = 0; i < 300000; i++) {
		use(c, time++, HOSTILE, S_FREE, 5);
		use(c, time++, HOSTILE, S_OP, 5);
		use(c, time++, HOSTILE, S_OP_END, 0);
		use(c, time++, HOSTILE, S_FREE, 5);
		name(c, time++, HOSTILE, 5, i % 2);
	}
	CHECK_EQ(correlator_finish(c, time, 5000000000, &t), 0);
	correlator_free(c);
	CHECK_EQ(t->n_spans, 300000);
	timeline_free(t);
	CHECK(clock() < 20 * CLOCKS_PER_SEC);
}

TEST(threads_that_the_client_may_not_see_are_one_without_an_id)
{
	const struct record_switch switches[] = {
		{ .head = { .time = 2000, .tid = RECORD_TID_OTHER_USER },
		  .next_tid = 1,
		  .flags = SWITCH_IN },
		{ .head = { .time = 2100, .tid = 1 },
		  .next_tid = RECORD_TID_OTHER_USER,
		  .flags = SWITCH_OUT | SWITCH_PREEMPTED },
		{ .head = { .time = 2900, .tid = RECORD_TID_OTHER_USER },
		  .next_tid = 1,
		  .flags = SWITCH_IN },
	};
	struct correlator *c = new_correlator();
	const struct thread *by;
	struct timeline *t;

	use(c, 1500, HOSTILE, S_OP_END, 0);
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		struct record_switch r = switches[i];

		r.head.kind = RECORD_SWITCH;
		r.head.size8 = sizeof(r) / 8;
		CHECK_EQ(correlator_feed(c, &r.head), 0);
	}
	CHECK_EQ(correlator_finish(c, 3000, 5000000000, &t), 0);
	correlator_free(c);
	by = NULL;
	for (uint64_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].kind == SPAN_RUNNABLE)
			by = &t->threads[t->spans[i].cpu_user];
	CHECK(by);
	CHECK_EQ(by->tid, 0);
	CHECK_STR(by->name, TIMELINE_OTHER_USER);
	timeline_free(t);
}

CHECK_MAIN()
