/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "daemon/record/sink.h"
#include "tests/unit/check.h"

/* A letter for each call, of all sinks in one text. */
static char calls[32];

static void note(const char *data)
{
	strcat(calls, data);
}

static int on_begin(uint64_t start_ns, void *data)
{
	note(data);
	return 0;
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	note(data);
	return 0;
}

static int on_record(const struct record *record, void *data)
{
	note(data);
	return *(const char *)data == 'b' ? -ENOMEM : 0;
}

static const struct record_sink first = { .begin = on_begin, .record = on_record, .data = "a" };
static const struct record_sink second = { .loss = on_loss, .record = on_record, .data = "b" };
static const struct record_sink third = { .begin = on_begin, .record = on_record, .data = "c" };

TEST(sinks_are_called_in_order_until_one_fails)
{
	struct record_sinks sinks = {};

	CHECK_EQ(sinks_begin(&sinks, 1), 0);
	sinks_add(&sinks, &first);
	sinks_add(&sinks, &second);
	sinks_add(&sinks, &third);
	calls[0] = 0;
	CHECK_EQ(sinks_begin(&sinks, 1), 0);
	CHECK_STR(calls, "ac");
	calls[0] = 0;
	CHECK_EQ(sinks_loss(&sinks, 1, 2, 3), 0);
	CHECK_EQ(sinks_shed(&sinks, KIND_RUNS, 1, ""), 0);
	CHECK_STR(calls, "b");
	calls[0] = 0;
	CHECK_EQ(sinks_record(&sinks, NULL), -ENOMEM);
	CHECK_STR(calls, "ab");
}

CHECK_MAIN()
