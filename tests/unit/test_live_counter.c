/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a recorder's session, counted as they finish, and passed on to triggers. */
#include "daemon/recorder/live_counter.h"

#include "daemon/correlate/http/http2.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"
#include "tests/unit/packed.h"

#define SECOND 1000000000ull
#define MS 1000000ull

enum { S_STREAM, S_OPERATIONS, N_SITES };

static const struct probe_row probes[N_SITES] = {
	[S_STREAM] = { OPEN(STREAM), .action = ACTION_READ },
	[S_OPERATIONS] = { POINT(STREAM), .action = ACTION_READ },
};

static bool any(const char *s, uint32_t size)
{
	return size > 0;
}

static const struct pack pack = { .name = "test",
				  .rows = probes,
				  .n_rows = N_SITES,
				  .names = { .is_name = any, .is_type = any, .type_distance = 16 },
				  .stream_bits = { 1, 2, 4, 64 } };

static struct live live;
static struct live_counter *counter;
static uint32_t ordinals[8][2];

static void begin_counter(struct triggers *triggers)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = set_of(&pack) };

	CHECK(target.packs);
	memset(ordinals, 0, sizeof(ordinals));
	live_init(&live);
	live_begin(&live, SECOND);
	CHECK_EQ(live_counter_new(&live, triggers, &counter), 0);
	CHECK_EQ(live_counter_sink(counter)->target(&target, counter), 0);
}

static void end_counter(void)
{
	counter = live_counter_free(counter);
	live_done(&live);
}

static uint64_t count(uint64_t *ret_longest)
{
	struct histogram h = {};
	uint64_t since;

	CHECK(live_get(&live, 77, &h, &since));
	*ret_longest = histogram_percentile(&h, 100);
	return h.n;
}

/* A whole HTTP/1 message. */
static void pass(uint64_t time, uint64_t socket, bool read, uint16_t status)
{
	struct record_message m = {
		.head = { .time = time, .tid = 5, .kind = RECORD_MESSAGE, .size8 = sizeof(m) / 8 },
		.began = time - 10,
		.socket = socket,
		.inode = (uint32_t)socket,
		.bytes = 100,
		.local_port = 80,
		.peer_port = 4000,
		.ordinal = ++ordinals[socket % 8][read],
		.status = status,
		.protocol = MESSAGE_HTTP1,
		.direction = read ? MESSAGE_READ : MESSAGE_WRITTEN,
		.part = MESSAGE_FIRST | MESSAGE_LAST
	};

	if (read)
		m.part |= MESSAGE_IS_REQUEST;
	m.part |= MESSAGE_SERVER;
	CHECK_EQ(live_counter_sink(counter)->record(&m.head, counter), 0);
}

static void request(uint64_t time, uint64_t socket, uint64_t latency)
{
	pass(time, socket, true, 0);
	pass(time + latency, socket, false, 200);
}

TEST(a_request_is_counted_once_wherever_the_counter_begins_anew_within_it)
{
	uint64_t longest;

	begin_counter(NULL);
	/* 35 s, in which the counter begins anew three times. */
	for (uint64_t i = 0; i < 3500; i++)
		request(2 * SECOND + i * 10 * MS, 1, 9 * MS);
	CHECK_EQ(count(&longest), 3500);
	CHECK(longest < 12 * MS);
	end_counter();
}

TEST(a_request_that_takes_seconds_is_counted_while_others_come_and_go)
{
	uint64_t longest;

	begin_counter(NULL);
	request(2 * SECOND, 1, MS);
	pass(9 * SECOND, 2, true, 0);
	for (uint64_t i = 0; i < 700; i++)
		request(9 * SECOND + i * 10 * MS + 5 * MS, 1, MS);
	pass(16 * SECOND, 2, false, 200);
	CHECK_EQ(count(&longest), 702);
	CHECK(longest > 6 * SECOND && longest < 9 * SECOND);
	/* What takes longer than two periods is not known to be whole. */
	pass(17 * SECOND, 2, true, 0);
	for (uint64_t i = 0; i < 250; i++)
		request(17 * SECOND + i * 100 * MS + 5 * MS, 1, MS);
	pass(43 * SECOND, 2, false, 200);
	CHECK_EQ(count(&longest), 952);
	end_counter();
}

static void encrypted(uint64_t time)
{
	const struct record_unseen r = { .head = { .time = time,
						   .tid = 5,
						   .kind = RECORD_UNSEEN,
						   .site = UNSEEN_TLS,
						   .size8 = sizeof(r) / 8 },
					 .socket = 9,
					 .inode = 9 };

	CHECK_EQ(live_counter_sink(counter)->record(&r.head, counter), 0);
}

/* gRPC's library makes the object of a stream, or its answer is passed to that. */
static void at_library(uint64_t time, uint8_t site, uint64_t object, uint64_t value)
{
	const struct record_probe2 r = { .probe = { .head = { .time = time,
							      .tid = 6,
							      .kind = RECORD_PROBE,
							      .site = site,
							      .size8 = sizeof(r) / 8 },
						    .stack = 400,
						    .tag = 8,
						    .value = object },
					 .value2 = value };

	CHECK_EQ(live_counter_sink(counter)->record(&r.probe.head, counter), 0);
}

TEST(an_encrypted_request_that_takes_seconds_is_counted_while_others_come_and_go)
{
	uint64_t longest;

	begin_counter(NULL);
	encrypted(2 * SECOND);
	at_library(9 * SECOND, S_STREAM, 71, 1);
	for (uint32_t i = 0; i < 700; i++) {
		at_library(9 * SECOND + (i * 10 + 5) * MS, S_STREAM, 72, 3 + 2 * i);
		at_library(9 * SECOND + (i * 10 + 6) * MS, S_OPERATIONS, 72, 2);
	}
	at_library(16 * SECOND, S_OPERATIONS, 71, 2);
	CHECK_EQ(count(&longest), 701);
	CHECK(longest > 6 * SECOND && longest < 9 * SECOND);
	end_counter();
}

/* Header fields that HTTP/2's tables hold since the first request. */
static void ask2(uint64_t time, uint32_t stream)
{
	struct record_field path = {
		.head = { .time = time, .tid = 5, .kind = RECORD_FIELD, .size8 = sizeof(path) / 8 },
		.socket = 3,
		.inode = 3,
		.stream = stream,
		.number = 1,
		.inserted = 1,
		.direction = MESSAGE_READ,
		.name = FIELD_PATH,
		.size = 21,
		.text = "/v1/models/m1:predict"
	};
	struct record_headers h = { .message = { .head = { .time = time,
							   .tid = 5,
							   .kind = RECORD_MESSAGE,
							   .size8 = sizeof(h) / 8 },
						 .began = time - 10,
						 .socket = 3,
						 .inode = 3,
						 .stream = stream,
						 .protocol = MESSAGE_HTTP2,
						 .direction = MESSAGE_READ,
						 .type = FRAME_HEADERS,
						 .part = MESSAGE_FIRST | MESSAGE_LAST |
							 MESSAGE_SERVER },
				    .inserted = 1,
				    .method = 3,
				    .n_references = 1,
				    .references = { 1 } };

	if (stream == 1)
		CHECK_EQ(live_counter_sink(counter)->record(&path.head, counter), 0);
	CHECK_EQ(live_counter_sink(counter)->record(&h.message.head, counter), 0);
	h.message.head.time = time + 200 * MS;
	h.message.direction = MESSAGE_WRITTEN;
	h.inserted = h.method = h.n_references = 0;
	h.status = 8;
	CHECK_EQ(live_counter_sink(counter)->record(&h.message.head, counter), 0);
}

struct seen {
	struct loop *loop;
	unsigned n;
	struct trigger_firing firing;
};

static void on_fired(const struct trigger_firing *firing, void *data)
{
	struct seen *seen = data;

	seen->n++;
	seen->firing = *firing;
}

static void stop(void *data)
{
	loop_exit(data, 0);
}

TEST(a_model_that_is_in_a_connection_s_tables_is_known_when_the_counter_has_begun_anew)
{
	const struct trigger_rule rules[] = {
		{ .name = "other",
		  .condition = TRIGGER_LATENCY,
		  .latency_ns = SECOND,
		  .requests = 1 },
		{ .name = "slow",
		  .model = "m1",
		  .condition = TRIGGER_LATENCY,
		  .latency_ns = 100 * MS,
		  .requests = 2,
		  .window_ns = 100 * SECOND },
	};
	struct seen seen = {};
	struct triggers_options options = {
		.rules = rules, .n = ARRAY_SIZE(rules), .fired = on_fired, .data = &seen
	};
	struct triggers *triggers;

	CHECK_EQ(loop_new(&seen.loop), 0);
	options.loop = seen.loop;
	CHECK_EQ(triggers_new(&options, &triggers), 0);
	begin_counter(triggers);
	ask2(2 * SECOND, 1);
	ask2(30 * SECOND, 3);
	end_counter();
	/* Behind what was posted. */
	CHECK_EQ(loop_post(seen.loop, stop, seen.loop), 0);
	CHECK_EQ(loop_run(seen.loop), 0);
	CHECK_EQ(seen.n, 1);
	CHECK_STR(seen.firing.trigger, "slow");
	CHECK_EQ(seen.firing.pid, 77);
	CHECK_STR(seen.firing.process, "server");
	CHECK_STR(seen.firing.reason,
		  "model m1: 2 requests within 100 s took longer than 100 ms, the slowest 200 ms");
	triggers_free(triggers);
	loop_free(seen.loop);
}

TEST(encrypted_requests_in_progress_are_a_queue)
{
	const struct trigger_rule rule = { .name = "queue",
					   .condition = TRIGGER_QUEUE,
					   .queue = 3 };
	struct seen seen = {};
	struct triggers_options options = {
		.rules = &rule, .n = 1, .fired = on_fired, .data = &seen
	};
	struct triggers *triggers;

	CHECK_EQ(loop_new(&seen.loop), 0);
	options.loop = seen.loop;
	CHECK_EQ(triggers_new(&options, &triggers), 0);
	begin_counter(triggers);
	encrypted(2 * SECOND);
	for (uint32_t i = 1; i <= 3; i++) {
		at_library(2 * SECOND + i * MS, S_STREAM, 70 + i, 2 * i - 1);
		if (i < 3)
			at_library(2 * SECOND + i * MS + 1, S_OPERATIONS, 70 + i, 2);
	}
	at_library(3 * SECOND, S_STREAM, 80, 11);
	at_library(4 * SECOND, S_STREAM, 81, 13);
	at_library(5 * SECOND, S_STREAM, 82, 15);
	end_counter();
	CHECK_EQ(loop_post(seen.loop, stop, seen.loop), 0);
	CHECK_EQ(loop_run(seen.loop), 0);
	CHECK_EQ(seen.n, 1);
	triggers_free(triggers);
	loop_free(seen.loop);
}

CHECK_MAIN()
