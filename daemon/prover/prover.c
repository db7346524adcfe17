/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/prover/prover.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "daemon/broker/channel.h"
#include "daemon/plan/proof.h"
#include "daemon/plan/search.h"
#include "daemon/plan/stored.h"
#include "daemon/plan/version.h"
#include "daemon/sandbox/sandbox.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/elf/debug.h"
#include "lib/elf/functions.h"
#include "lib/elf/image.h"
#include "lib/elf/unwind_rows.h"

struct reading {
	struct prover_request request;
	int fds[PROVER_FDS_MAX]; /* by enum prover_fd; -1: none */
	struct stat st;
};

/* The debug file of the build, as a descriptor of this process; -1: none. */
static int ask_for_debug_file(const struct reading *w, const char *build_id)
{
	struct prover_answer question = { .type = PROVER_DEBUG };
	struct prover_debug answer;
	unsigned n = 0;
	int fd = -1;

	if (!*build_id)
		return -1;
	snprintf(question.text, sizeof(question.text), "%s", build_id);
	if (channel_send(w->fds[PROVER_LINE], &question, sizeof(question), NULL, 0) < 0 ||
	    channel_receive(w->fds[PROVER_LINE], &answer, sizeof(answer), &fd, 1, &n) < 0)
		return -1;
	return n ? fd : -1;
}

static int make_whole(const struct reading *w, const struct pack_set *set,
		      const struct elf_image *image, struct plan **ret,
		      struct prover_answer *ret_answer, const char **ret_reason)
{
	_cleanup_close_ int debug = ask_for_debug_file(w, elf_image_build_id(image));
	int r;

	*ret = stored_read(w->fds[PROVER_STORED], w->fds[PROVER_FILE], &w->st, debug >= 0, set);
	ret_answer->known = *ret != NULL;
	if (*ret)
		return 0;
	*ret_reason = "it was not planned before";
	if (w->request.wanted == PLAN_KNOWN)
		return -ENODATA;
	r = plan_new(w->fds[PROVER_FILE], debug, set, ret, ret_reason);
	/* Without it the file is only read again. */
	if (r >= 0 && w->fds[PROVER_NEW_STORED] >= 0)
		ret_answer->stored =
			stored_write(w->fds[PROVER_NEW_STORED], &w->st, debug >= 0, *ret);
	return r;
}

static int answer_questions(const struct reading *w, const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL, *debug_file = NULL;
	_cleanup_close_ int debug = -1;
	int r = elf_image_open(w->fds[PROVER_FILE], &image, ret_reason);

	if (r < 0)
		return r;
	if (unwind_rows_are_asked(w->fds[PROVER_QUESTIONS]))
		return unwind_rows_answer(w->fds[PROVER_QUESTIONS], image, w->fds[PROVER_PROOF],
					  ret_reason);
	debug = ask_for_debug_file(w, elf_image_build_id(image));
	/* One that is not the file's is as none. */
	if (debug >= 0)
		elf_debug_open(image, debug, &debug_file, NULL);
	return functions_answer(w->fds[PROVER_QUESTIONS], image, debug_file, w->fds[PROVER_PROOF],
				ret_reason);
}

static int prove(struct reading *w, struct prover_answer *ret_answer, const char **ret_reason)
{
	const struct pack_set *set = pack_set_get(w->request.packs);
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	int r;

	*ret_reason = "out of memory";
	if (!set)
		return -ENOMEM;
	if (fstat(w->fds[PROVER_FILE], &w->st) < 0)
		return -errno;
	r = elf_image_open(w->fds[PROVER_FILE], &image, ret_reason);
	if (r >= 0)
		r = w->request.wanted == PLAN_BRIEF
			    ? plan_make(set, elf_image_build_id(image), &plan)
			    : make_whole(w, set, image, &plan, ret_answer, ret_reason);
	if (r < 0)
		return r;
	if (version_of_packs(image, set->bits, plan->version, sizeof(plan->version)) < 0)
		plan->version[0] = 0;
	return proof_write(w->fds[PROVER_PROOF], plan);
}

static void set_limit(int resource, rlim_t value)
{
	struct rlimit limit = { value, value };

	setrlimit((__rlimit_resource_t)resource, &limit);
}

/* In a process of its own. */
_Noreturn static void read_file(struct reading *w, pid_t prover)
{
	struct prover_answer answer = { .type = PROVER_DONE };
	const char *reason = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != prover)
		_exit(EXIT_FAILURE);
	set_limit(RLIMIT_CPU, PROVER_CPU_SECONDS);
	set_limit(RLIMIT_FSIZE, PROOF_BYTES_MAX);
#ifndef __SANITIZE_ADDRESS__
	set_limit(RLIMIT_DATA, PROVER_DATA_BYTES);
#endif
	alarm(PROVER_SECONDS);
	/* The server that is profiled comes first; a service manager may forbid it. */
	setpriority(PRIO_PROCESS, 0, 10);
	if (sandbox_reader() < 0)
		_exit(EXIT_FAILURE);
	answer.result = w->fds[PROVER_QUESTIONS] >= 0 ? answer_questions(w, &reason)
						      : prove(w, &answer, &reason);
	if (answer.result < 0)
		snprintf(answer.text, sizeof(answer.text), "%s",
			 reason ?: strerror(-answer.result));
	channel_send(w->fds[PROVER_LINE], &answer, sizeof(answer), NULL, 0);
	_exit(EXIT_SUCCESS);
}

/* Puts the descriptors that came where they belong. False: the request is not one. */
static bool sort_out(struct reading *w, const int *fds, unsigned n)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < PROVER_FDS_MAX; i++)
		w->fds[i] = w->request.fds & 1u << i && taken < n ? fds[taken++] : -1;
	for (unsigned i = 0; i < PROVER_FDS; i++)
		if (w->fds[i] < 0)
			return false;
	return true;
}

int prover_run(int socket, const struct sandbox_user *user)
{
	const pid_t prover = getpid();
	struct reading w;
	int r;

	r = sandbox_prover(user);
	if (r < 0)
		return r;
	/* Processes that have ended are not waited for. */
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fds[PROVER_FDS_MAX];
		unsigned n;
		pid_t child;

		r = channel_receive(socket, &w.request, sizeof(w.request), fds, PROVER_FDS_MAX, &n);
		if (r < 0)
			return r == -EPIPE ? 0 : r;
		child = sort_out(&w, fds, n) ? fork() : -1;
		if (child == 0) {
			close(socket);
			read_file(&w, prover);
		}
		/* If the fork failed, the broker sees the end of the line. */
		for (unsigned i = 0; i < n; i++)
			close(fds[i]);
	}
}
