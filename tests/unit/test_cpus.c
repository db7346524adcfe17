/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread had a CPU for most of a time span. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/check.h"

static bool fail;

#define calloc(n, size) (fail ? NULL : calloc(n, size))
#include "daemon/correlate/sched/cpus.c"
#undef calloc

TEST(the_thread_with_the_largest_total_in_the_interval_counts)
{
	struct cpus c = { 0 };

	CHECK_EQ(cpus_longest(&c, 3, 0, 1000), 0);
	CHECK_EQ(cpus_switch(&c, 3, 100, 1, 2, CPU_HAD_UNKNOWN), 0);
	CHECK_EQ(cpus_switch(&c, 3, 200, 2, 3, CPU_HAD_UNKNOWN), 0);
	CHECK_EQ(cpus_switch(&c, 3, 260, 3, 2, CPU_HAD_UNKNOWN), 0);
	CHECK_EQ(cpus_switch(&c, 3, 280, 2, 3, CPU_HAD_UNKNOWN), 0);
	CHECK_EQ(cpus_switch(&c, 3, 330, 3, 1, CPU_HAD_UNKNOWN), 0);
	CHECK_EQ(cpus_longest(&c, 3, 0, 1000), 2);
	CHECK_EQ(cpus_longest(&c, 3, 190, 1000), 3);
	CHECK_EQ(cpus_longest(&c, 3, 150, 205), 2);
	CHECK_EQ(cpus_longest(&c, 2, 0, 1000), 0);
	CHECK_EQ(cpus_longest(&c, 4, 0, 1000), 0);
	CHECK_EQ(cpus_longest(&c, 3, 330, 1000), 0);
	cpus_done(&c);
	CHECK_EQ(cpus_longest(&c, 3, 0, 1000), 0);
}

TEST(an_unknown_gap_is_divided_between_its_neighbors)
{
	struct cpus c = { 0 };

	/* 2 was given the CPU, and 3 left it; 2 has it again. Or 4, with more than the half. */
	cpus_switch(&c, 0, 100, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 300, 3, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 150, 300), 3);
	cpus_switch(&c, 0, 310, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 350, 2, 4, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 100, 350), 2);
	cpus_switch(&c, 0, 560, 4, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 100, 560), 4);
	cpus_done(&c);
}

TEST(a_thread_that_was_there_for_a_moment_is_not_the_one_that_had_the_cpu)
{
	const uint64_t ms = 1000000;
	struct cpus c = { 0 };

	/* 3 leaves the CPU that 2 was given, and had it for 0.1 ms only. */
	cpus_switch(&c, 0, 1 * ms, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 9 * ms, 3, 1, ms / 10);
	CHECK_EQ(cpus_longest(&c, 0, 1 * ms, 9 * ms), 2);
	/* When the wait began, another thread may have had it. */
	CHECK_EQ(cpus_longest(&c, 0, 8 * ms + ms / 2, 9 * ms), 0);
	CHECK_EQ(cpus_longest(&c, 0, 9 * ms - ms / 10, 9 * ms), 3);
	/* 3 had it for most of the time. */
	cpus_switch(&c, 0, 10 * ms, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 18 * ms, 3, 1, 5 * ms);
	CHECK_EQ(cpus_longest(&c, 0, 10 * ms, 18 * ms), 3);
	/* 2 has had it for long before. */
	cpus_switch(&c, 0, 19 * ms, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 19 * ms + ms / 2, 2, 1, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 19 * ms + ms / 2, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 20 * ms, 3, 1, ms / 100);
	CHECK_EQ(cpus_longest(&c, 0, 20 * ms - ms / 10, 20 * ms), 2);
	/* The CPU was idle in the end: it is not known for how long. */
	cpus_switch(&c, 0, 20 * ms, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 28 * ms, 0, 1, 0);
	CHECK_EQ(cpus_longest(&c, 0, 27 * ms + ms / 2, 28 * ms), 0);
	cpus_done(&c);
}

TEST(an_idle_cpu_is_not_what_a_thread_waited_for)
{
	const uint64_t ms = 1000000;
	struct cpus c = { 0 };

	/* It became idle a second ago; 3 had it for most of the wait, or for a moment of it. */
	cpus_switch(&c, 0, 1 * ms, 1, 0, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 1000 * ms, 3, 1, 5 * ms);
	CHECK_EQ(cpus_longest(&c, 0, 992 * ms, 1000 * ms), 3);
	cpus_switch(&c, 0, 1001 * ms, 1, 0, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 2000 * ms, 3, 1, ms / 10);
	CHECK_EQ(cpus_longest(&c, 0, 1992 * ms, 2000 * ms), 0);
	cpus_done(&c);
}

TEST(a_thread_that_had_the_cpu_for_long_had_it_rather_than_one_that_was_there_for_a_moment)
{
	const uint64_t ms = 1000000;
	struct cpus c = { 0 };

	/* 2 has the CPU whenever 1 does not; 3 was unseen until it left the CPU. */
	for (uint64_t now = 0; now < 100 * ms; now += 10 * ms) {
		cpus_switch(&c, 0, now, 1, 2, CPU_HAD_UNKNOWN);
		cpus_switch(&c, 0, now + 9 * ms, 2, 1, CPU_HAD_UNKNOWN);
	}
	cpus_switch(&c, 0, 100 * ms, 1, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 109 * ms, 3, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 101 * ms, 109 * ms), 2);
	/* It may have woken the one that waits. */
	CHECK_EQ(cpus_longest(&c, 0, 109 * ms - 20000, 109 * ms), 3);
	cpus_done(&c);
}

TEST(until_the_first_switch_the_thread_that_then_left_had_the_cpu)
{
	struct cpus c = { 0 };

	cpus_switch(&c, 0, 5000000, 7, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 100, 5000000), 7);
	CHECK_EQ(cpus_longest(&c, 0, 5000000, 6000000), 0);
	cpus_switch(&c, 1, 5000000, 0, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 1, 100, 5000000), 0);
	cpus_done(&c);
}

TEST(an_idle_cpu_has_no_thread)
{
	struct cpus c = { 0 };

	cpus_switch(&c, 65535, 100, 1, 0, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 65535, 300, 0, 2, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 65535, 310, 2, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 65535, 100, 310), 0);
	CHECK_EQ(cpus_longest(&c, 65535, 290, 310), 2);
	cpus_done(&c);
}

TEST(of_a_long_wait_the_last_stints_count)
{
	struct cpus c = { 0 };

	for (uint32_t i = 0; i < 3 * CPU_STINTS; i++)
		cpus_switch(&c, 0, 100 * i, i % 2 ? 7 : 8, i % 2 ? 8 : 7, CPU_HAD_UNKNOWN);
	cpus_switch(&c, 0, 100 * 3 * CPU_STINTS + 10, 8, 1, CPU_HAD_UNKNOWN);
	CHECK_EQ(cpus_longest(&c, 0, 0, UINT64_MAX), 8);
	cpus_done(&c);
}

TEST(lack_of_memory_is_reported)
{
	struct cpus c = { 0 };

	fail = true;
	CHECK_EQ(cpus_switch(&c, 1, 100, 1, 2, CPU_HAD_UNKNOWN), -ENOMEM);
	fail = false;
	CHECK_EQ(cpus_switch(&c, 1, 100, 1, 2, CPU_HAD_UNKNOWN), 0);
	cpus_done(&c);
}

CHECK_MAIN()
