/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sites/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/macro.h"

int child_start(void (*round)(unsigned number, void *data), void *data, struct child *ret)
{
	int ask[2], answer[2];
	char byte = 0;
	pid_t pid;

	if (pipe(ask) < 0)
		return -errno;
	if (pipe(answer) < 0) {
		close(ask[0]);
		close(ask[1]);
		return -errno;
	}
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ask[1]);
		close(answer[0]);
		for (unsigned i = 0; read(ask[0], &byte, 1) == 1; i++) {
			round(i, data);
			if (write(answer[1], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(ask[0]);
	close(answer[1]);
	*ret = (struct child){ .pid = pid, .ask = ask[1], .answer = answer[0] };
	if (pid < 0) {
		close(ask[1]);
		close(answer[0]);
		return -EAGAIN;
	}
	return 0;
}

int child_round(struct child *child)
{
	char byte = 0;

	/* A child that has died closed the other ends. */
	signal(SIGPIPE, SIG_IGN);
	return write(child->ask, &byte, 1) == 1 && read(child->answer, &byte, 1) == 1 ? 0 : -EPIPE;
}

void child_end(struct child *child)
{
	close(child->ask);
	close(child->answer);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}
