/* SPDX-License-Identifier: Apache-2.0 */
/* When processes began, from the kernel's events. */
#include "daemon/broker/watch/births.h"

#include "lib/base/macro.h"
#include "tests/unit/check.h"

#define LIBRARY "/venv/tensorflow/libtensorflow_framework.so.2"

static struct births *b;

static void tell(enum sideband_kind kind, pid_t pid, uint64_t time, const char *name)
{
	births_event(b, &(struct sideband_event){
				.kind = kind, .pid = pid, .time = time, .name = name });
}

static void check(pid_t pid, uint64_t executed, uint64_t first)
{
	struct birth birth = births_get(b, pid);

	CHECK_EQ(birth.executed_ns, executed);
	CHECK_EQ(birth.first_mapped_ns, first);
}

TEST(a_process_begins_with_its_exec_and_maps_its_runtime)
{
	CHECK_EQ(births_new(&b), 0);
	tell(SIDEBAND_FORKED, 7, 90, NULL);
	check(7, 90, 0);
	tell(SIDEBAND_EXECUTED, 7, 100, NULL);
	tell(SIDEBAND_MAPPED, 7, 110, "/lib/libc.so.6");
	check(7, 100, 0);
	tell(SIDEBAND_MAPPED, 7, 120, LIBRARY);
	tell(SIDEBAND_MAPPED, 7, 130, "/venv/tensorflow/libtensorflow_cc.so.2");
	tell(SIDEBAND_MAPPED, 7, 140, "//anon");
	check(7, 100, 120);
	check(8, 0, 0);
	tell(SIDEBAND_EXECUTED, 7, 200, NULL);
	check(7, 200, 0);
	tell(SIDEBAND_EXITED, 7, 300, NULL);
	check(7, 0, 0);
	check(0, 0, 0);
	check(-5, 0, 0);
	b = births_free(b);
}

TEST(a_late_fork_event_changes_nothing)
{
	CHECK_EQ(births_new(&b), 0);
	tell(SIDEBAND_EXECUTED, 7, 100, NULL);
	tell(SIDEBAND_MAPPED, 7, 120, LIBRARY);
	tell(SIDEBAND_FORKED, 7, 90, NULL);
	check(7, 100, 120);
	tell(SIDEBAND_FORKED, 7, 200, NULL);
	check(7, 200, 0);
	b = births_free(b);
}

TEST(a_process_without_an_exec_event_still_has_its_mappings)
{
	CHECK_EQ(births_new(&b), 0);
	tell(SIDEBAND_MAPPED, 7, 120, LIBRARY);
	check(7, 0, 120);
	b = births_free(b);
}

TEST(processes_with_a_runtime_stay_in_the_table_when_many_others_start)
{
	CHECK_EQ(births_new(&b), 0);
	tell(SIDEBAND_EXECUTED, 7, 100, NULL);
	tell(SIDEBAND_MAPPED, 7, 120, LIBRARY);
	for (pid_t pid = 8; pid < 60000; pid++)
		tell(SIDEBAND_EXECUTED, pid, 1000 + (uint64_t)pid, NULL);
	check(7, 100, 120);
	for (pid_t pid = 59999; pid > 59400; pid--)
		check(pid, 1000 + (uint64_t)pid, 0);
	/* If all of them have one, the oldest is dropped. */
	for (pid_t i = 1; i <= 4; i++) {
		tell(SIDEBAND_EXECUTED, 7 + 256 * i, 100000, NULL);
		tell(SIDEBAND_MAPPED, 7 + 256 * i, 100001, LIBRARY);
	}
	check(7, 0, 0);
	check(7 + 256, 100000, 100001);
	b = births_free(b);
}

CHECK_MAIN()
