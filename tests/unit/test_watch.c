/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/watch/watch.h"

#include "tests/unit/check.h"

#define SECOND 1000000000ull
#define LIBRARY "/opt/lib/libtensorflow_framework.so.2"

static bool others; /* what the next process whose first thread ends has */

static bool has_threads(pid_t pid)
{
	return others;
}

static struct watch *make(void)
{
	struct watch *w = NULL;

	others = false;
	CHECK_EQ(watch_new(has_threads, &w), 0);
	return w;
}

static void mapped(struct watch *w, pid_t pid, const char *name, uint64_t now)
{
	watch_event(w,
		    &(struct sideband_event){
			    .kind = SIDEBAND_MAPPED, .pid = pid, .name = name, .size = 4096 },
		    now);
}

static void forked(struct watch *w, pid_t parent, pid_t pid, uint64_t now)
{
	watch_event(
		w,
		&(struct sideband_event){ .kind = SIDEBAND_FORKED, .pid = pid, .parent = parent },
		now);
}

static void executed(struct watch *w, pid_t pid, uint64_t now)
{
	watch_event(w, &(struct sideband_event){ .kind = SIDEBAND_EXECUTED, .pid = pid }, now);
}

static void exited(struct watch *w, pid_t pid, uint64_t now)
{
	watch_event(w, &(struct sideband_event){ .kind = SIDEBAND_EXITED, .pid = pid }, now);
}

/* The reported process that is to be examined; 0: none. */
static pid_t take(struct watch *w)
{
	pid_t pid = watch_next(w);

	if (pid)
		watch_reported(w);
	return pid;
}

TEST(runtime_code_and_large_code_are_reported_and_other_code_is_not)
{
	struct watch *w = make();

	mapped(w, 10, LIBRARY, 0);
	mapped(w, 11, "/usr/lib/libc.so.6", 0);
	mapped(w, 12, "", 0);
	watch_event(w,
		    &(struct sideband_event){ .kind = SIDEBAND_MAPPED,
					      .pid = 13,
					      .name = "/usr/bin/big",
					      .size = 64 << 20 },
		    0);
	mapped(w, 14, "tensorflow_model_server", 0);
	mapped(w, 10, LIBRARY, 0);
	CHECK_EQ(take(w), 10);
	CHECK_EQ(take(w), 13);
	CHECK_EQ(take(w), 14);
	CHECK_EQ(take(w), 0);
	CHECK(!watch_wants_rescan(w, 0));
	watch_free(w);
}

TEST(children_of_known_processes_are_reported_and_others_are_not)
{
	struct watch *w = make();

	forked(w, 10, 11, 0);
	executed(w, 10, 0);
	CHECK_EQ(take(w), 0);
	watch_add(w, 10, 0);
	CHECK_EQ(take(w), 0);
	forked(w, 10, 12, 100 * SECOND);
	CHECK_EQ(take(w), 12);
	/* A child of the child, before it could be examined. */
	forked(w, 12, 13, 100 * SECOND);
	CHECK_EQ(take(w), 13);
	watch_free(w);
}

TEST(a_reported_process_that_is_not_a_target_is_forgotten)
{
	struct watch *w = make();

	mapped(w, 10, LIBRARY, 0);
	CHECK_EQ(take(w), 10);
	forked(w, 10, 11, 60 * SECOND);
	executed(w, 10, 60 * SECOND);
	CHECK_EQ(take(w), 0);
	watch_free(w);
}

TEST(exec_is_reported_and_resets_what_is_known)
{
	struct watch *w = make();

	watch_add(w, 10, 0);
	executed(w, 10, SECOND);
	CHECK_EQ(take(w), 10);
	forked(w, 10, 11, 2 * SECOND);
	CHECK_EQ(take(w), 11);
	/* The front opened none of its files: it is a shell now. */
	forked(w, 10, 12, 60 * SECOND);
	CHECK_EQ(take(w), 0);
	watch_free(w);
}

TEST(an_ended_process_is_not_reported)
{
	struct watch *w = make();

	watch_add(w, 10, 0);
	for (pid_t pid = 100; pid < 5100; pid++) {
		forked(w, 10, pid, 0);
		exited(w, pid, 0);
	}
	CHECK_EQ(take(w), 0);
	CHECK(!watch_wants_rescan(w, 0));
	exited(w, 10, 0);
	forked(w, 10, 11, 0);
	CHECK_EQ(take(w), 0);
	watch_free(w);
}

TEST(a_process_whose_first_thread_ended_lives_on_with_the_others)
{
	struct watch *w = make();

	watch_add(w, 10, 0);
	others = true;
	exited(w, 10, 0);
	forked(w, 10, 11, 0);
	CHECK_EQ(take(w), 11);
	watch_free(w);
}

TEST(too_many_processes_become_one_rescan_at_most_once_a_second)
{
	struct watch *w = make();
	unsigned told = 0;

	watch_add(w, 10, 0);
	for (pid_t pid = 100; pid < 20100; pid++)
		forked(w, 10, pid, 0);
	CHECK(watch_wants_rescan(w, 0));
	while (take(w))
		told++;
	CHECK(told <= WATCH_PENDING_MAX);
	watch_rescanned(w, 0);
	CHECK(!watch_wants_rescan(w, 0));
	watch_lost(w);
	CHECK(!watch_wants_rescan(w, SECOND - 1));
	CHECK(watch_wants_rescan(w, SECOND));
	/* A target that was known before is known still. */
	exited(w, 100, SECOND);
	forked(w, 10, 30000, 60 * SECOND);
	CHECK_EQ(take(w), 30000);
	watch_free(w);
}

TEST(a_full_table_still_accepts_targets)
{
	struct watch *w = make();

	for (pid_t pid = 1; pid <= 2 * WATCH_KNOWN_MAX; pid++)
		watch_add(w, pid, 0);
	forked(w, 2 * WATCH_KNOWN_MAX, 10000, SECOND);
	CHECK_EQ(take(w), 10000);
	watch_free(w);
}

CHECK_MAIN()
