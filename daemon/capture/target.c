#include "daemon/capture/target.h"

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

/* A process that just mapped something is looked at when it had the time to map the rest. */
#define LOOK_AFTER_NS 300000000ull
#define PENDING_MAX 256

struct targets {
	struct targets_options options;
	struct target targets[TARGETS_MAX];
	pid_t pending[PENDING_MAX];
	unsigned n_pending;
	bool scan_pending;
	struct loop_timer *timer;
};

static void on_timer(void *data)
{
	struct targets *t = data;
	unsigned n = t->n_pending;
	bool scan = t->scan_pending;
	pid_t pids[PENDING_MAX];
	int ignored;

	memcpy(pids, t->pending, n * sizeof(pids[0]));
	t->n_pending = 0;
	t->scan_pending = false;
	if (scan)
		targets_scan(t);
	for (unsigned i = 0; i < n && !scan; i++)
		targets_look(t, pids[i], &ignored);
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
	free(t);
	return NULL;
}

void targets_look_soon(struct targets *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_pending; i++)
		if (t->pending[i] == pid)
			return;
	if (t->n_pending < PENDING_MAX && pid > 0)
		t->pending[t->n_pending++] = pid;
	else
		t->scan_pending = true;
	if (loop_timer_at(t->timer) == LOOP_NEVER)
		loop_timer_set(t->timer, loop_now() + LOOK_AFTER_NS);
}

static void on_ended(int fd, uint32_t events, void *data)
{
	target_remove(data);
}

struct look {
	const struct probe_pack *pack;
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	unsigned n_mappings; /* of code, of whatever file: the first is the program's own */
	struct target_file program; /* when it is big */
};

static struct target_file file_of(const struct maps_entry *e)
{
	struct target_file file = { .start = e->start, .end = e->end, .device = e->device, .inode = e->inode };

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
	if (look->n_mappings++ == 0 && e->end - e->start >= PACK_BIG_CODE)
		look->program = file_of(e);
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
	struct broker_message m = { .type = BROKER_OPEN, .pid = (uint32_t)pid, .start = file->start, .end = file->end };
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

	for (const struct probe_pack *const *pack = packs; fd >= 0 && *pack && !look->pack; pack++) {
		_cleanup_(plan_unrefp) struct plan *plan = NULL;

		if (plan_cache_get(t->options.plans, fd, *pack, &plan, NULL, &reason) < 0 || !plan_holds_runtime(plan))
			continue;
		look->pack = *pack;
		look->files[look->n_files++] = look->program;
	}
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

		if (fd < 0 || elf_image_open(fd, &image, &reason) < 0 || version_read(image, target->pack, version, sizeof(version)) < 0)
			continue;
		if (strncmp(version, "build-id:", 9) || !strcmp(target->version, "unknown"))
			strcpy(target->version, version);
	}
}

static struct target *target_add(struct targets *t, pid_t pid, uid_t uid, const struct look *look, int *ret_error)
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
	*target = (struct target){ .pid = pid, .uid = uid, .pack = look->pack, .n_files = look->n_files, .table = t };
	memcpy(target->files, look->files, sizeof(look->files));
	target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (target->pidfd < 0) {
		*ret_error = -errno;
		return NULL;
	}
	r = loop_source_new(t->options.loop, target->pidfd, EPOLLIN, on_ended, target, &target->ended);
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
	if (!look.pack && look.program.inode)
		look_into_program(t, pid, &look);
	if (known) {
		/* The same program still, and its libraries where they were? exec and dlopen change that. */
		if (look.pack == known->pack && look.n_files >= known->n_files) {
			bool changed = look.n_files != known->n_files || memcmp(known->files, look.files, sizeof(look.files));

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
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int ignored;

	if (!proc) {
		log_warning("cannot list processes: %m");
		return;
	}
	while ((entry = readdir(proc))) {
		char *end;
		long pid = strtol(entry->d_name, &end, 10);

		if (*end == 0 && pid > 0)
			targets_look(t, (pid_t)pid, &ignored);
	}
	closedir(proc);
}

struct target *targets_next(struct targets *t, struct target *after)
{
	for (unsigned i = after ? (unsigned)(after - t->targets) + 1 : 0; i < TARGETS_MAX; i++)
		if (t->targets[i].used)
			return &t->targets[i];
	return NULL;
}
