/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a process, on which it depends who may profile it. */
#include "daemon/broker/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/check.h"

#define FILES 64

/* In a user namespace of its own, where the host permits that: it has a lineage then. */
static pid_t start_process(void)
{
	int ready[2];
	pid_t child;
	char byte;

	CHECK_EQ(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		unshare(CLONE_NEWUSER);
		/* A test that ends early ends it, too. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return child;
}

static int read_with(rlim_t files, pid_t pid, struct target_facts *ret)
{
	struct rlimit before, limit;
	int r;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){ files, before.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	r = target_facts_read(pid, ret);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	return r;
}

TEST(without_descriptors_there_are_no_facts_rather_than_a_part_of_them)
{
	struct target_facts all, some;
	unsigned n_read = 0, n_lacking = 0;
	pid_t pid = start_process();

	CHECK_EQ(read_with(FILES, pid, &all), 0);
	for (rlim_t files = 1; files < FILES; files++) {
		int r = read_with(files, pid, &some);

		n_lacking += r == -EMFILE;
		n_read += r == 0;
		CHECK(r == 0 || r == -EMFILE);
		CHECK(r != 0 || !memcmp(&all, &some, sizeof(all)));
	}
	CHECK(n_read && n_lacking);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CHECK_MAIN()
