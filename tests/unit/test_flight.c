/* SPDX-License-Identifier: Apache-2.0 */
/* What a flight recorder keeps. That its snapshots equal captures is in
 * test_requests_property.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/record/history.h"
#include "daemon/recorder/flight.h"
#include "daemon/recorder/lead_in.h"
#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define SECOND 1000000000ull
#define MIB (1ull << 20)

static struct record_switch switch_at(uint64_t time)
{
	return (struct record_switch){ .head = { .time = time,
						 .tid = 7,
						 .kind = RECORD_SWITCH,
						 .size8 = sizeof(struct record_switch) / 8 },
				       .next_tid = 8 };
}

static uint64_t n_gone, last_gone;

static int note_gone(const struct record *record, void *data)
{
	CHECK(record->time > last_gone);
	last_gone = record->time;
	n_gone++;
	return 0;
}

struct seen {
	uint64_t n, first, last;
};

static int see(const struct record *record, void *data)
{
	struct seen *seen = data;

	if (!seen->n++)
		seen->first = record->time;
	CHECK(record->time > seen->last);
	seen->last = record->time;
	return 0;
}

TEST(the_oldest_records_are_dropped_and_passed_on_when_there_are_too_many)
{
	struct history *history;
	struct history_view *view;
	struct seen seen = {};

	n_gone = last_gone = 0;
	CHECK_EQ(history_new(MIB, 3600 * SECOND, note_gone, NULL, &history), 0);
	for (uint64_t i = 1; i <= 100000; i++) {
		struct record_switch record = switch_at(i);

		CHECK_EQ(history_add(history, &record.head), 0);
		if (history_bytes(history) > MIB)
			check_failures++;
	}
	CHECK_EQ(history_view_new(history, &view), 0);
	CHECK_EQ(history_view_read(view, see, &seen), 0);
	CHECK_EQ(seen.n + n_gone, 100000);
	CHECK_EQ(seen.first, last_gone + 1);
	CHECK_EQ(seen.last, 100000);
	CHECK(seen.n * sizeof(struct record_switch) > MIB / 2);
	/* A view keeps its moment, even if the history continues, and is freed. */
	for (uint64_t i = 100001; i <= 200000; i++) {
		struct record_switch record = switch_at(i);

		CHECK_EQ(history_add(history, &record.head), 0);
	}
	history_free(history);
	seen = (struct seen){};
	CHECK_EQ(history_view_read(view, see, &seen), 0);
	CHECK_EQ(seen.last, 100000);
	history_view_free(view);
}

TEST(records_that_are_too_old_are_dropped_even_if_there_is_room)
{
	struct history *history;

	CHECK_EQ(history_new(64 * MIB, SECOND, NULL, NULL, &history), 0);
	for (uint64_t i = 1; i <= 200000; i++) {
		struct record_switch record = switch_at(i * SECOND / 10000);

		CHECK_EQ(history_add(history, &record.head), 0);
	}
	/* Of twenty seconds one is kept, and whatever is in the same blocks. */
	CHECK(history_oldest(history) < 19 * SECOND && history_oldest(history) > 17 * SECOND);
	history_free(history);
}

static struct record_name name_at(uint64_t time, uint64_t object, const char *name)
{
	struct record_name record = { .head = { .time = time, .kind = RECORD_NAME },
				      .object = object };

	record.name_size = (uint32_t)snprintf(record.name, sizeof(record.name), "%s", name);
	record.type_size = (uint32_t)snprintf(record.type, sizeof(record.type), "Op");
	return record;
}

static struct record_field field_at(uint64_t time, uint64_t socket, uint32_t inode, uint32_t number)
{
	return (struct record_field){ .head = { .time = time,
						.kind = RECORD_FIELD,
						.size8 = sizeof(struct record_field) / 8 },
				      .socket = socket,
				      .inode = inode,
				      .number = number,
				      .inserted = 1,
				      .name = FIELD_PATH,
				      .size = 1,
				      .text = "/" };
}

static struct record_message closed_at(uint64_t time, uint64_t socket, uint32_t inode)
{
	return (struct record_message){ .head = { .time = time,
						  .kind = RECORD_MESSAGE,
						  .size8 = sizeof(struct record_message) / 8 },
					.socket = socket,
					.inode = inode,
					.part = MESSAGE_CLOSED,
					.protocol = MESSAGE_HTTP2 };
}

static int ignore(const struct record *record, void *data)
{
	return 0;
}

/* Bytes of what is kept when nothing superseded is. */
static uint64_t settled_bytes(struct lead_in *l)
{
	struct lead_in *copy;
	uint64_t bytes;

	CHECK_EQ(lead_in_read(l, ignore, NULL), 0);
	CHECK_EQ(lead_in_copy(l, &copy), 0);
	bytes = lead_in_bytes(copy);
	lead_in_free(copy);
	return bytes;
}

static char changes[200];

static int note_shed(enum probe_kind kind, uint64_t time, const char *text, void *data)
{
	size_t n = strlen(changes);

	snprintf(changes + n, sizeof(changes) - n, " -%u@%llu(%s)", kind,
		 (unsigned long long)(time / SECOND), text);
	return 0;
}

static int note_resumed(enum probe_kind kind, uint64_t time, void *data)
{
	size_t n = strlen(changes);

	snprintf(changes + n, sizeof(changes) - n, " +%u@%llu", kind,
		 (unsigned long long)(time / SECOND));
	return 0;
}

static const char *changes_of(const struct flight *f, uint64_t from, uint64_t to)
{
	const struct record_sink sink = { .shed = note_shed, .resume = note_resumed };
	struct record_sinks sinks = {};
	struct flight_facts facts;
	struct flight_view *view;

	changes[0] = 0;
	sinks_add(&sinks, &sink);
	CHECK_EQ(flight_view_new(f, &view), 0);
	CHECK_EQ(flight_view_read(view, from * SECOND, to * SECOND, &sinks, &facts), 0);
	flight_view_free(view);
	return changes;
}

TEST(when_a_kind_was_not_recorded_is_known_for_every_part_of_what_is_kept)
{
	const struct record_sink *sink;
	struct flight *f;

	CHECK_EQ(flight_new(16 * MIB, 50 * SECOND, &f), 0);
	sink = flight_sink(f);
	for (uint64_t s = 1; s <= 1000; s++) {
		struct record_switch r = switch_at(s * SECOND);

		CHECK_EQ(sink->record(&r.head, sink->data), 0);
		if (s % 10 == 2)
			CHECK_EQ(sink->shed(1, s * SECOND, "a", sink->data), 0);
		if (s % 10 == 8)
			CHECK_EQ(sink->resume(1, s * SECOND, sink->data), 0);
		if (s == 985)
			CHECK_EQ(sink->shed(2, s * SECOND, "for good", sink->data), 0);
	}
	CHECK_STR(changes_of(f, 980, 1000), " -1@982(a) -2@985(for good) +1@988 -1@992(a) +1@998");
	CHECK_STR(changes_of(f, 984, 987), " -1@984(a) -2@985(for good)");
	CHECK_STR(changes_of(f, 989, 995), " -2@989(for good) -1@992(a)");
	CHECK_STR(changes_of(f, 993, 999), " -1@993(a) -2@993(for good) +1@998");
	CHECK_STR(changes_of(f, 999, 1000), " -2@999(for good)");
	/* The earliest that is kept. */
	CHECK_STR(changes_of(f, 955, 959), " -1@955(a) +1@958");
	flight_free(f);
}

TEST(the_last_statement_that_later_records_refer_to_is_kept)
{
	struct record_switch other = switch_at(9);
	struct lead_in *l;

	CHECK_EQ(lead_in_new(MIB, &l), 0);
	for (uint64_t i = 1; i <= 5; i++) {
		struct record_name first = name_at(i, 0x1000, "a"),
				   second = name_at(i, 0x2000, "b");

		CHECK_EQ(lead_in_add(l, &first.head), 0);
		CHECK_EQ(lead_in_add(l, &second.head), 0);
		CHECK_EQ(lead_in_add(l, &other.head), 0);
	}
	CHECK_EQ(settled_bytes(l), 2 * sizeof(struct record_name));
	CHECK(!lead_in_is_incomplete(l));
	lead_in_free(l);
}

TEST(the_last_quota_of_each_cgroup_is_kept)
{
	struct lead_in *l;

	CHECK_EQ(lead_in_new(MIB, &l), 0);
	for (uint32_t i = 0; i < 6; i++) {
		struct record_quota quota = {
			.head = { .time = i + 1, .kind = RECORD_QUOTA, .size8 = sizeof(quota) / 8 },
			.quota_ns = i + 1,
			.period_ns = 100,
			.cgroup = 1 + i % 2
		};

		CHECK_EQ(lead_in_add(l, &quota.head), 0);
	}
	CHECK_EQ(settled_bytes(l), 2 * sizeof(struct record_quota));
	lead_in_free(l);
}

TEST(the_statements_of_a_connection_are_dropped_with_it)
{
	struct record_field field;
	struct record_message closed = closed_at(10, 5, 1);
	struct lead_in *l;

	CHECK_EQ(lead_in_new(MIB, &l), 0);
	for (uint32_t i = 0; i < 8; i++) {
		field = field_at(i + 1, 5 + i % 2, 1, i);
		CHECK_EQ(lead_in_add(l, &field.head), 0);
	}
	CHECK_EQ(lead_in_add(l, &closed.head), 0);
	/* Another connection has the socket's number: it begins again. */
	field = field_at(11, 5, 2, 0);
	CHECK_EQ(lead_in_add(l, &field.head), 0);
	CHECK_EQ(settled_bytes(l), 5 * sizeof(struct record_field));
	/* The record of its end was lost; the next inode shows it. */
	field = field_at(12, 6, 2, 0);
	CHECK_EQ(lead_in_add(l, &field.head), 0);
	CHECK_EQ(settled_bytes(l), 2 * sizeof(struct record_field));
	lead_in_free(l);
}

TEST(each_encrypted_connection_is_kept_until_its_socket_is_closed)
{
	struct record_message closed = closed_at(10, 5, 1);
	struct lead_in *l;

	CHECK_EQ(lead_in_new(MIB, &l), 0);
	for (uint32_t i = 0; i < 6; i++) {
		struct record_unseen unseen = { .head = { .time = i + 1,
							  .kind = RECORD_UNSEEN,
							  .site = i < 4 ? UNSEEN_TLS : UNSEEN_OTHER,
							  .size8 = sizeof(unseen) / 8 },
						.socket = 5 + i % 2,
						.inode = 1 };

		CHECK_EQ(lead_in_add(l, &unseen.head), 0);
	}
	CHECK_EQ(settled_bytes(l), 3 * sizeof(struct record_unseen));
	CHECK_EQ(lead_in_add(l, &closed.head), 0);
	CHECK_EQ(settled_bytes(l), 2 * sizeof(struct record_unseen));
	lead_in_free(l);
}

TEST(beyond_the_limit_the_oldest_is_dropped_and_this_is_reported)
{
	struct lead_in *l;

	CHECK_EQ(lead_in_new(100 * sizeof(struct record_name), &l), 0);
	for (uint64_t i = 1; i <= 101; i++) {
		struct record_name name = name_at(i, i * 64, "a");

		CHECK_EQ(lead_in_add(l, &name.head), 0);
	}
	CHECK_EQ(settled_bytes(l), 100 * sizeof(struct record_name));
	CHECK(lead_in_is_incomplete(l));
	lead_in_free(l);
}

/* An hour of a busy server: 20,000 records a second, objects and connections that come and go. */
TEST(an_hour_of_load_stays_within_the_given_bytes)
{
	const uint64_t bytes = 16 * MIB, step = SECOND / 20000;
	const struct record_sink *sink;
	struct flight *flight;
	uint64_t most = 0;

	CHECK_EQ(flight_new(bytes, 30 * SECOND, &flight), 0);
	sink = flight_sink(flight);
	for (uint64_t i = 1; i <= 3600 * 20000ull && !check_failures; i++) {
		struct record_switch record = switch_at(i * step);

		if (sink->record(&record.head, sink->data) < 0)
			check_failures++;
		if (i % 1000 == 0) {
			struct record_name name = name_at(i * step, i / 1000 % 500 * 4096, "a/b");
			struct record_field field = field_at(i * step, i / 1000 % 300,
							     (uint32_t)(i / 300000), (uint32_t)i);

			if (sink->record(&name.head, sink->data) < 0 ||
			    sink->record(&field.head, sink->data) < 0)
				check_failures++;
			most = MAX(most, flight_bytes(flight));
		}
		if (i % 1000000 == 0 && sink->loss(i * step, i * step + 1, 1, sink->data) < 0)
			check_failures++;
	}
	CHECK(most <= bytes);
	CHECK(most > bytes / 2);
	flight_free(flight);
}

CHECK_MAIN()
