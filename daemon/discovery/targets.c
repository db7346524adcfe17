/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/targets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/discovery/program.h"
#include "daemon/discovery/target_file.h"
#include "daemon/plan/knowledge.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"

/* A process that has just mapped something is examined after it had time to map the rest, and a
 * child after it had time to exec. */
#define LOOK_AFTER_NS 100000000ull
#define HURRIED_LOOK_AFTER_NS 20000000ull
/* While its files are being read. */
#define LOOK_AGAIN_AFTER_NS 10000000ull
#define PENDING_MAX 256
/* Processes that are examined without a pause; a pause of this many times their duration
 * follows. */
#define LOOKS_AT_ONCE 16
/* Nor longer than this, plus one more. */
#define LOOKS_NS 20000000ull
#define REST_FACTOR 4
/* The minimal interval between examinations of all processes on behalf of the broker. */
#define SCAN_EVERY_NS 1000000000ull
/* After an examination of all processes for a client: a pause of this many times its duration, at
 * most so long. Clients can ask for it as fast as they like, and all others wait for it. */
#define SCAN_PAUSE 99
#define SCAN_PAUSE_MAX_NS 1000000000ull

struct targets {
	struct targets_options options;
	struct target targets[TARGETS_MAX];
	uint32_t n_programs;
	struct pending {
		pid_t pid;
		/* When it is to be examined; later ones wait longer. */
		uint64_t at;
		/* Its files are being read; its user. */
		bool is_read;
		uid_t user;
	} pending[PENDING_MAX];
	unsigned n_pending;
	bool scan_pending;
	uint64_t scan_at;     /* not before */
	uint64_t asked_again; /* not before, for a client */
	DIR *scan;            /* of /proc, while it is read */
	uint64_t rest_until;
	struct loop_timer *timer;
};

/* The next process in /proc, 0: there are no more. */
static pid_t next_process(DIR *proc)
{
	struct dirent *entry;

	while ((entry = readdir(proc))) {
		char *end;
		long pid = strtol(entry->d_name, &end, 10);

		if (*end == 0 && pid > 0)
			return (pid_t)pid;
	}
	return 0;
}

static DIR *open_processes(void)
{
	DIR *proc = opendir("/proc");

	if (!proc)
		log_warning("cannot list processes: %m");
	return proc;
}

/* Puts it before those that wait longer. */
static void add_pending(struct targets *t, const struct pending *pending)
{
	unsigned i = t->n_pending;

	for (; i > 0 && t->pending[i - 1].at > pending->at; i--)
		t->pending[i] = t->pending[i - 1];
	t->pending[i] = *pending;
	t->n_pending++;
}

static void look_at_pending(struct targets *t, unsigned *looks)
{
	uint64_t now = loop_now();
	struct pending due[LOOKS_AT_ONCE];
	unsigned n = 0;
	int ignored;

	for (; n < LOOKS_AT_ONCE && n < t->n_pending && t->pending[n].at <= now; n++)
		due[n] = t->pending[n];
	t->n_pending -= n;
	memmove(t->pending, t->pending + n, t->n_pending * sizeof(t->pending[0]));
	for (unsigned i = 0; i < n; i++) {
		/* Some files take long: other work of the loop is done first then. */
		if (loop_now() - now > LOOKS_NS)
			add_pending(t, &due[i]);
		else
			targets_examine(t, due[i].pid, &ignored);
	}
	*looks += n;
}

static void continue_scanning(struct targets *t, unsigned *looks)
{
	uint64_t now = loop_now();
	pid_t pid = 1;
	int ignored;

	if (!t->scan && t->scan_pending && t->scan_at <= now) {
		t->scan_pending = false;
		t->scan_at = now + SCAN_EVERY_NS;
		t->scan = open_processes();
	}
	for (; t->scan && *looks < LOOKS_AT_ONCE && pid && loop_now() - now < LOOKS_NS; ++*looks) {
		pid = next_process(t->scan);
		if (pid)
			targets_examine(t, pid, &ignored);
	}
	if (t->scan && !pid) {
		closedir(t->scan);
		t->scan = NULL;
	}
}

static void set_timer(struct targets *t)
{
	uint64_t at = LOOP_NEVER;

	if (t->n_pending)
		at = t->pending[0].at;
	if (t->scan)
		at = 0;
	else if (t->scan_pending)
		at = MIN(at, t->scan_at);
	loop_timer_set(t->timer, at == LOOP_NEVER ? at : MAX(at, t->rest_until));
}

static void on_timer(void *data)
{
	uint64_t begin = loop_now(), end;
	struct targets *t = data;
	unsigned looks = 0;

	look_at_pending(t, &looks);
	continue_scanning(t, &looks);
	end = loop_now();
	t->rest_until = end + REST_FACTOR * (end - begin);
	set_timer(t);
}

int targets_new(const struct targets_options *options, struct targets **ret)
{
	struct targets *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->options = *options;
	r = loop_timer_new(options->loop, on_timer, t, &t->timer);
	if (r < 0) {
		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

static void target_remove(struct target *target)
{
	struct targets *t = target->table;

	if (t->options.removed)
		t->options.removed(target, t->options.data);
	loop_source_free(target->ended);
	close(target->pidfd);
	*target = (struct target){};
}

struct targets *targets_free(struct targets *t)
{
	if (!t)
		return NULL;
	for (unsigned i = 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used)
			target_remove(&t->targets[i]);
	loop_timer_free(t->timer);
	if (t->scan)
		closedir(t->scan);
	free(t);
	return NULL;
}

static void scan_soon(struct targets *t)
{
	if (!t->scan_pending) {
		t->scan_pending = true;
		t->scan_at = MAX(t->scan_at, loop_now() + LOOK_AFTER_NS);
	}
	set_timer(t);
}

void targets_examine_soon(struct targets *t, pid_t pid)
{
	uint64_t after = t->options.reports_early ? HURRIED_LOOK_AFTER_NS : LOOK_AFTER_NS;

	for (unsigned i = 0; i < t->n_pending; i++)
		if (t->pending[i].pid == pid)
			return;
	if (t->n_pending < PENDING_MAX && pid > 0)
		add_pending(t, &(struct pending){ .pid = pid, .at = loop_now() + after });
	else
		scan_soon(t);
	set_timer(t);
}

/* Its files are being read: it is examined again until they are. */
static void examine_again(struct targets *t, pid_t pid, uid_t user)
{
	for (unsigned i = 0; i < t->n_pending; i++)
		if (t->pending[i].pid == pid) {
			t->pending[i].is_read = true;
			t->pending[i].user = user;
			return;
		}
	if (t->n_pending < PENDING_MAX)
		add_pending(t, &(struct pending){ .pid = pid,
						  .at = loop_now() + LOOK_AGAIN_AFTER_NS,
						  .is_read = true,
						  .user = user });
	else
		scan_soon(t);
	set_timer(t);
}

void targets_renew(struct targets *t)
{
	struct opened_file file;

	for (unsigned i = 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used && target_file_open(t->options.proxy, t->targets[i].pid,
							   &t->targets[i].files[0], &file) == 0)
			target_file_close(t->options.proxy, &file);
	scan_soon(t);
}

bool targets_are_read(const struct targets *t, const struct authority_peer *who)
{
	for (unsigned i = 0; i < t->n_pending; i++)
		if (t->pending[i].is_read && (who->is_root || t->pending[i].user == who->uid))
			return true;
	return false;
}

static void on_ended(int fd, uint32_t events, void *data)
{
	target_remove(data);
}

/* A user whose processes map a runtime by the hundred leaves room for those of others. */
static int check_share(const struct targets *t, uid_t user)
{
	const struct share share = { .all = TARGETS_MAX, .per_user = t->options.max_per_user };
	unsigned all = 0, own = 0;

	for (unsigned i = 0; i < TARGETS_MAX; i++) {
		all += t->targets[i].used;
		own += t->targets[i].used && t->targets[i].uid == user;
	}
	switch (share_grant(&share, user, all, own, 1)) {
	case SHARE_OF_USER_HELD:
		return -EDQUOT;
	case SHARE_ALL_HELD:
		return -E2BIG;
	default:
		return 0;
	}
}

static struct target target_of(struct targets *t, pid_t pid, const struct process_program *program)
{
	struct target target = { .pid = pid,
				 .uid = program->uid,
				 .packs = program->packs,
				 .n_files = program->n_files,
				 .program = ++t->n_programs };

	memcpy(target.files, program->files, sizeof(program->files));
	program_read_name(pid, target.name);
	program_read_pids(pid, &target.parent, &target.own_pid);
	return target;
}

static struct target *target_add(struct targets *t, pid_t pid,
				 const struct process_program *program, const char *version,
				 int *ret_error)
{
	struct target *target = NULL;
	int r = check_share(t, program->uid);

	for (unsigned i = 0; i < TARGETS_MAX && r == 0 && !target; i++)
		if (!t->targets[i].used)
			target = &t->targets[i];
	if (!target) {
		*ret_error = r;
		return NULL;
	}
	*target = target_of(t, pid, program);
	target->table = t;
	target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (target->pidfd < 0) {
		*ret_error = -errno;
		return NULL;
	}
	r = loop_source_new(t->options.loop, target->pidfd, EPOLLIN, on_ended, target,
			    &target->ended);
	if (r < 0) {
		close(target->pidfd);
		*ret_error = r;
		return NULL;
	}
	target->used = true;
	snprintf(target->version, sizeof(target->version), "%s", version);
	if (t->options.added)
		t->options.added(target, t->options.data);
	return target;
}

static struct target *find(struct targets *t, pid_t pid)
{
	for (unsigned i = 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used && t->targets[i].pid == pid)
			return &t->targets[i];
	return NULL;
}

void targets_executed(struct targets *t, pid_t pid)
{
	struct target *known = find(t, pid);

	if (known)
		target_remove(known);
	targets_examine_soon(t, pid);
}

/* Whether it is still the same program, with its libraries where they were: exec and dlopen change
 * that. */
static bool is_unchanged(const struct target *known, const struct process_program *look)
{
	return known && look->packs == known->packs && look->n_files == known->n_files &&
	       !memcmp(known->files, look->files, sizeof(look->files));
}

/* The same program that has mapped more. */
static void target_change(struct target *known, const struct process_program *look,
			  const char *version)
{
	struct targets *t = known->table;

	memcpy(known->files, look->files, sizeof(look->files));
	known->n_files = look->n_files;
	known->uid = look->uid;
	program_read_name(known->pid, known->name);
	snprintf(known->version, sizeof(known->version), "%s", version);
	known->knowledge = known->asked_at = 0;
	if (t->options.changed)
		t->options.changed(known, t->options.data);
}

/* From plans that were made before: this makes none. The broker is asked again only if it can know
 * more: clients can list targets as often as they like. */
static void learn_knowledge(struct targets *t, struct target *target)
{
	unsigned knowledge = 0, asked_at = target_files_planned() + 1;

	if (target->asked_at == asked_at)
		return;
	for (unsigned i = 0; i < target->n_files && !target->knowledge; i++) {
		_cleanup_(plan_unrefp) struct plan *plan = NULL;
		int r;

		if (target->files[i].is_beside)
			continue;
		r = target_file_look(t->options.proxy, target->pid, &target->files[i],
				     target->packs, PLAN_KNOWN, &plan);
		if (r == -EINPROGRESS || r == -EBUSY) {
			examine_again(t, target->pid, target->uid);
			return;
		}
		if (r < 0) {
			target->asked_at = asked_at;
			return;
		}
		knowledge |= knowledge_of_plan(plan, target->version);
	}
	target->asked_at = asked_at;
	target->knowledge |= knowledge;
}

struct target *targets_examine(struct targets *t, pid_t pid, int *ret_error)
{
	struct target *known = find(t, pid);
	char version[sizeof(known->version)];
	struct process_program look;
	int r = program_examine(t->options.proxy, pid, false, &look);

	if (r >= 0 && is_unchanged(known, &look)) {
		*ret_error = 0;
		known->uid = look.uid;
		learn_knowledge(t, known);
		return known;
	}
	if (r >= 0 && look.packs)
		r = program_read_version(t->options.proxy, pid, &look, version, sizeof(version));
	*ret_error = MIN(r, 0);
	if (r == -EINPROGRESS)
		examine_again(t, pid, look.uid);
	if (r < 0)
		return NULL;
	if (known && look.packs == known->packs && look.n_files >= known->n_files) {
		target_change(known, &look, version);
		learn_knowledge(t, known);
		return known;
	}
	if (known)
		target_remove(known);
	known = look.packs ? target_add(t, pid, &look, version, ret_error) : NULL;
	if (known)
		learn_knowledge(t, known);
	return known;
}

int targets_describe(struct targets *t, pid_t pid, struct target *ret)
{
	_cleanup_close_ int pidfd = -1;
	struct process_program look;
	int r = program_examine(t->options.proxy, pid, true, &look);

	if (r < 0)
		return r;
	/* The id of a thread is none of a process. */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return -ESRCH;
	if (!look.n_mappings)
		return -ENOEXEC;
	if (!look.packs)
		return -ENOMEM;
	*ret = target_of(t, pid, &look);
	return 0;
}

void targets_scan(struct targets *t)
{
	uint64_t begun = loop_now();
	int ignored;
	pid_t pid;
	DIR *proc;

	if (begun < t->asked_again) {
		targets_examine_soon(t, 0);
		for (unsigned i = 0; i < TARGETS_MAX && loop_now() - begun < LOOKS_NS; i++)
			if (t->targets[i].used)
				learn_knowledge(t, &t->targets[i]);
		return;
	}
	proc = open_processes();
	if (!proc)
		return;
	while ((pid = next_process(proc)))
		targets_examine(t, pid, &ignored);
	closedir(proc);
	t->asked_again = loop_now() + MIN((loop_now() - begun) * SCAN_PAUSE, SCAN_PAUSE_MAX_NS);
}

struct target *targets_next(struct targets *t, struct target *after)
{
	for (unsigned i = after ? (unsigned)(after - t->targets) + 1 : 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used)
			return &t->targets[i];
	return NULL;
}
