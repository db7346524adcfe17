/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a recorder's session, counted as they finish, and passed on to triggers. */
#include "daemon/recorder/live_counter.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define SECOND 1000000000ull
#define MS 1000000ull

static struct live live;
static struct live_counter *counter;
static uint32_t ordinals[8][2];

static void begin_counter(struct triggers *triggers)
{
	const struct correlate_target target = { .pid = 77,
						 .name = "server",
						 .packs = pack_set_get(1) };

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

CHECK_MAIN()
