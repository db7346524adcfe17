/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the system clock, of which the reader's own times must not depend. */
#include "lib/base/clock_steps.h"

#include "tests/unit/check.h"

#define OFFSET 1000000000000ull
#define HOUR 3600000000000ll

TEST(the_offset_at_a_time_is_that_before_the_steps_after_it)
{
	struct clock_steps s = {};

	clock_steps_look(&s, 0, OFFSET);
	CHECK_EQ(clock_steps_offset_at(&s, 0), OFFSET);
	clock_steps_look(&s, 10, OFFSET + HOUR);
	clock_steps_look(&s, 20, OFFSET - HOUR);
	CHECK_EQ(s.n, 2);
	CHECK_EQ(s.list[0].by_ns, HOUR);
	CHECK_EQ(s.list[1].by_ns, -2 * HOUR);
	CHECK_EQ(clock_steps_offset_at(&s, 5), OFFSET);
	CHECK_EQ(clock_steps_offset_at(&s, 10), OFFSET + HOUR);
	CHECK_EQ(clock_steps_offset_at(&s, 20), OFFSET - HOUR);
}

TEST(readings_that_differ_a_little_are_no_step_however_many)
{
	struct clock_steps s = {};

	clock_steps_look(&s, 0, OFFSET);
	for (unsigned i = 0; i < 100; i++)
		clock_steps_look(&s, i, OFFSET + i % 2 * (CLOCK_STEP_MIN_NS - 1));
	CHECK_EQ(s.n, 0);
	CHECK_EQ(clock_steps_offset_at(&s, 0), OFFSET);
}

TEST(of_many_steps_the_last_are_kept)
{
	struct clock_steps s = {};

	clock_steps_look(&s, 0, OFFSET);
	for (unsigned i = 1; i <= 3 * CLOCK_STEPS_MAX; i++)
		clock_steps_look(&s, i, OFFSET + i * (uint64_t)HOUR);
	CHECK_EQ(s.n, CLOCK_STEPS_MAX);
	CHECK_EQ(s.list[CLOCK_STEPS_MAX - 1].at_ns, 3 * CLOCK_STEPS_MAX);
	CHECK_EQ(clock_steps_offset_at(&s, 3 * CLOCK_STEPS_MAX - 1),
		 OFFSET + (3 * CLOCK_STEPS_MAX - 1) * (uint64_t)HOUR);
}

CHECK_MAIN()
