/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/plan/version.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "lib/proc/maps.h"

/* A process that just mapped something is looked at when it had the time to map the rest, and a
 * child when it had that to exec. */
#define LOOK_AFTER_NS 100000000ull
#define HURRIED_LOOK_AFTER_NS 20000000ull
#define PENDING_MAX 256
/* Processes that are looked at in one go; then others have their turn, for this many times as long
 * as that took. */
#define LOOKS_AT_ONCE 16
/* Nor longer than this, with one more. */
#define LOOKS_NS 20000000ull
#define REST_FACTOR 4
/* From one look at every process, which the broker asked for, to the next. */
#define SCAN_EVERY_NS 1000000000ull

struct targets {
	struct targets_options options;
	struct target targets[TARGETS_MAX];
	uint32_t n_programs;
	struct {
		pid_t pid;
		uint64_t at; /* when it is looked at; later ones wait longer */
	} pending[PENDING_MAX];
	unsigned n_pending;
	bool scan_pending;
	uint64_t scan_at; /* not before */
	DIR *scan;        /* of /proc, while it is read */
	uint64_t rest_until;
	struct loop_timer *timer;
};

/* The next process of /proc, 0: there is none any more. */
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

static void look_at_pending(struct targets *t, unsigned *looks)
{
	uint64_t now = loop_now();
	pid_t pids[LOOKS_AT_ONCE];
	unsigned n = 0;
	int ignored;

	while (n < LOOKS_AT_ONCE && n < t->n_pending && t->pending[n].at <= now) {
		pids[n] = t->pending[n].pid;
		n++;
	}
	t->n_pending -= n;
	memmove(t->pending, t->pending + n, t->n_pending * sizeof(t->pending[0]));
	for (unsigned i = 0; i < n; i++) {
		/* Some files take long: others that wait on the loop come first, then. */
		if (loop_now() - now > LOOKS_NS)
			targets_look_soon(t, pids[i]);
		else
			targets_look(t, pids[i], &ignored);
	}
	*looks += n;
}

static void go_on_scanning(struct targets *t, unsigned *looks)
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
			targets_look(t, pid, &ignored);
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
	go_on_scanning(t, &looks);
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

void targets_look_soon(struct targets *t, pid_t pid)
{
	uint64_t now = loop_now();

	for (unsigned i = 0; i < t->n_pending; i++)
		if (t->pending[i].pid == pid)
			return;
	if (t->n_pending < PENDING_MAX && pid > 0) {
		t->pending[t->n_pending].pid = pid;
		t->pending[t->n_pending++].at =
			now + (t->options.hurries ? HURRIED_LOOK_AFTER_NS : LOOK_AFTER_NS);
	} else if (!t->scan_pending) {
		t->scan_pending = true;
		t->scan_at = MAX(t->scan_at, now + LOOK_AFTER_NS);
	}
	set_timer(t);
}

static void on_ended(int fd, uint32_t events, void *data)
{
	target_remove(data);
}

/* One of each that packs name. */
#define BESIDE_MAX 2

struct look {
	const struct probe_pack *pack;
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	struct target_file
		beside[BESIDE_MAX]; /* libraries that may be looked at with the runtime's */
	unsigned n_beside;
	unsigned n_mappings; /* of code, of whatever file: the first is the program's own */
	struct target_file program;
	bool program_is_big;
};

static struct target_file file_of(const struct maps_entry *e)
{
	struct target_file file = {
		.start = e->start, .end = e->end, .device = e->device, .inode = e->inode
	};

	snprintf(file.path, sizeof(file.path), "%s", e->path);
	return file;
}

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct look *look = data;
	const char *base = strrchr(e->path, '/');
	const struct probe_pack *pack;

	if (!e->executable || !e->inode || !base || base[1] == 0)
		return 0;
	if (look->n_mappings++ == 0) {
		look->program = file_of(e);
		look->program_is_big = e->end - e->start >= PACK_BIG_CODE;
	}
	if (pack_is_beside(base + 1) && look->n_beside < BESIDE_MAX)
		look->beside[look->n_beside++] = file_of(e);
	pack = pack_find(base + 1, false) ?: pack_find(base + 1, true);
	if (!pack || (look->pack && look->pack != pack) || look->n_files == TARGET_FILES_MAX)
		return 0;
	/* A library can be mapped in several pieces. */
	for (unsigned i = 0; i < look->n_files; i++)
		if (look->files[i].device == e->device && look->files[i].inode == e->inode)
			return 0;
	look->pack = pack;
	look->files[look->n_files++] = file_of(e);
	return 0;
}

static int open_file(struct targets *t, pid_t pid, const struct target_file *file)
{
	struct broker_message m = {
		.type = BROKER_OPEN, .pid = (uint32_t)pid, .start = file->start, .end = file->end
	};
	unsigned n_fds;
	int fd = -1, r;

	r = proxy_call(t->options.proxy, &m, &fd, &n_fds);
	if (r < 0)
		return r;
	/* The broker's copy is for attaching. */
	proxy_call_id(t->options.proxy, BROKER_CLOSE, m.id);
	return fd;
}

/* Looks into a big program for a runtime that its name does not tell; each file once. */
static void look_into_program(struct targets *t, pid_t pid, struct look *look)
{
	_cleanup_close_ int fd = open_file(t, pid, &look->program);
	const char *reason;

	for (const struct probe_pack *const *pack = packs; fd >= 0 && *pack && !look->pack;
	     pack++) {
		_cleanup_(plan_unrefp) struct plan *plan = NULL;

		if (plan_cache_get(t->options.plans, fd, *pack, false, &plan, NULL, &reason) < 0 ||
		    !plan_holds_runtime(plan))
			continue;
		look->pack = *pack;
		look->files[look->n_files++] = look->program;
	}
}

static void look_beside(struct look *look)
{
	for (unsigned i = 0; i < look->n_beside && look->n_files < TARGET_FILES_MAX; i++) {
		look->beside[i].is_beside = true;
		look->files[look->n_files++] = look->beside[i];
	}
}

/* A server that marks its requests does so in its own program. */
static void look_for_marks(struct targets *t, pid_t pid, struct look *look)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_close_ int fd = -1;
	const char *reason;

	for (unsigned i = 0; i < look->n_files; i++)
		if (look->files[i].device == look->program.device &&
		    look->files[i].inode == look->program.inode)
			return;
	if (look->n_files == TARGET_FILES_MAX || !look->program.inode)
		return;
	fd = open_file(t, pid, &look->program);
	if (fd < 0 ||
	    plan_cache_get(t->options.plans, fd, look->pack, false, &plan, NULL, &reason) < 0 ||
	    !plan_has_marks(plan))
		return;
	look->program.is_beside = true;
	look->files[look->n_files++] = look->program;
}

static void read_comm(pid_t pid, char ret[16])
{
	_cleanup_close_ int fd = -1;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, ret, 15) : 0;
	ret[MAX(n, 0)] = 0;
	ret[strcspn(ret, "\n")] = 0;
}

/* The release that one of its files tells, or else the build-id of the first that has one. */
static void read_version(struct targets *t, struct target *target)
{
	snprintf(target->version, sizeof(target->version), "unknown");
	for (unsigned i = 0; i < target->n_files; i++) {
		_cleanup_close_ int fd = open_file(t, target->pid, &target->files[i]);
		_cleanup_(elf_image_freep) struct elf_image *image = NULL;
		char version[sizeof(target->version)];
		const char *reason;

		if (target->files[i].is_beside)
			continue;
		if (fd < 0 || elf_image_open(fd, &image, &reason) < 0 ||
		    version_read(image, target->pack, version, sizeof(version)) < 0)
			continue;
		if (strncmp(version, "build-id:", 9) || !strcmp(target->version, "unknown"))
			strcpy(target->version, version);
	}
}

static struct target *target_add(struct targets *t, pid_t pid, uid_t uid, const struct look *look,
				 int *ret_error)
{
	struct target *target = NULL;
	int r;

	for (unsigned i = 0; i < TARGETS_MAX && !target; i++)
		if (!t->targets[i].used)
			target = &t->targets[i];
	if (!target) {
		*ret_error = -E2BIG;
		return NULL;
	}
	*target = (struct target){ .pid = pid,
				   .uid = uid,
				   .pack = look->pack,
				   .n_files = look->n_files,
				   .table = t,
				   .program = ++t->n_programs };
	memcpy(target->files, look->files, sizeof(look->files));
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
	read_comm(pid, target->name);
	read_version(t, target);
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
	targets_look_soon(t, pid);
}

struct target *targets_look(struct targets *t, pid_t pid, int *ret_error)
{
	struct broker_message m = { .type = BROKER_MAPS, .pid = (uint32_t)pid };
	struct target *known = find(t, pid);
	struct look look = {};
	unsigned n_fds;
	int fd = -1, r;

	*ret_error = 0;
	r = proxy_call(t->options.proxy, &m, &fd, &n_fds);
	if (r >= 0) {
		r = maps_read(fd, on_mapping, &look);
		close(fd);
	}
	if (r < 0) {
		*ret_error = r;
		return NULL;
	}
	if (!look.pack && look.program_is_big)
		look_into_program(t, pid, &look);
	if (look.pack) {
		look_for_marks(t, pid, &look);
		look_beside(&look);
	}
	if (known) {
		/* The same program still, and its libraries where they were? exec and dlopen change
		 * that. */
		if (look.pack == known->pack && look.n_files >= known->n_files) {
			bool changed = look.n_files != known->n_files ||
				       memcmp(known->files, look.files, sizeof(look.files));

			memcpy(known->files, look.files, sizeof(look.files));
			known->n_files = look.n_files;
			known->uid = m.uid;
			if (changed) {
				read_comm(pid, known->name);
				read_version(t, known);
				if (t->options.changed)
					t->options.changed(known, t->options.data);
			}
			return known;
		}
		target_remove(known);
	}
	if (!look.pack)
		return NULL;
	return target_add(t, pid, m.uid, &look, ret_error);
}

void targets_scan(struct targets *t)
{
	DIR *proc = open_processes();
	int ignored;
	pid_t pid;

	if (!proc)
		return;
	while ((pid = next_process(proc)))
		targets_look(t, pid, &ignored);
	closedir(proc);
}

struct target *targets_next(struct targets *t, struct target *after)
{
	for (unsigned i = after ? (unsigned)(after - t->targets) + 1 : 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used)
			return &t->targets[i];
	return NULL;
}
