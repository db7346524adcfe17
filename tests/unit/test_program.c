/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of a process. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/discovery/program.h"
#include "tests/unit/check.h"

TEST(a_process_has_its_parent_and_its_own_pid)
{
	pid_t parent = 0, own = 0;

	program_read_pids(getpid(), &parent, &own);
	CHECK_EQ(parent, getppid());
	CHECK_EQ(own, getpid());
}

TEST(in_a_namespace_of_its_own_a_process_has_the_pid_that_it_sees)
{
	pid_t parent = 0, own = 0, pid;
	char byte;
	int end[2];

	/* Needs root; a user namespace does without. */
	CHECK_EQ(pipe(end), 0);
	if (fork() == 0) {
		if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
			_exit(2);
		pid = fork();
		if (pid == 0) {
			close(end[1]);
			_exit(read(end[0], &byte, 1) != 0);
		}
		program_read_pids(pid, &parent, &own);
		close(end[1]);
		waitpid(pid, NULL, 0);
		_exit(parent == getpid() && own == 1 ? 0 : 1);
	}
	close(end[0]);
	close(end[1]);
	wait(&end[0]);
	CHECK(WIFEXITED(end[0]) && WEXITSTATUS(end[0]) == 0);
}

TEST(of_no_process_nothing_is_known)
{
	pid_t parent = 1, own = 1;

	program_read_pids(0x7ffffff, &parent, &own);
	CHECK_EQ(parent, 0);
	CHECK_EQ(own, 0);
}

CHECK_MAIN()
