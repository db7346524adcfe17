/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches the programs of empty.bpf.c to a process, at the same sites that tfprofd probes at a
 * level in this release of the runtime, until a signal ends it. With --count it prints at the end
 * how often they ran on behalf of that process.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench/empty.skel.h"
#include "daemon/broker/kernel/uprobe_multi.h"
#include "daemon/plan/detail.h"
#include "daemon/plan/plan.h"
#include "daemon/plan/search.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

#define FILES_MAX 8
#define SITES_MAX 512

struct empty {
	struct empty_bpf *skel;
	pid_t pid;
	unsigned level;
	const char *release;
	uint64_t inodes[FILES_MAX]; /* of the files that are done */
	unsigned n_files, n_sites;
};

static int attach_file(struct empty *e, int fd, const struct pack_set *set)
{
	uint64_t offsets[SITES_MAX];
	const struct detail detail = { .level = e->level };
	const char *reason = "";
	unsigned n = 0;
	struct plan *plan;
	char path[32];
	int r;

	r = plan_new(fd, -1, set, &plan, &reason);
	if (r < 0) {
		fprintf(stderr, "empty_probe: %s\n", reason);
		return r;
	}
	for (unsigned i = 0; i < plan->n_sites && n < SITES_MAX; i++)
		if (plan->sites[i].site.class != SITE_REFUSED &&
		    plan_is_of_release(set, &plan->sites[i], e->release) &&
		    probe_is_wanted(set->rows[plan->sites[i].spec], &detail))
			offsets[n++] = plan->sites[i].offset;
	plan_unref(plan);
	if (!n)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* The link stays until the process ends. */
	r = uprobe_multi_link(bpf_program__fd(e->skel->progs.on_probe), path, offsets, NULL, NULL,
			      n, false, e->pid);
	if (r < 0)
		return r;
	e->n_sites += n;
	return 0;
}

static int on_mapping(const struct maps_entry *m, void *data)
{
	const char *base = strrchr(m->path, '/');
	_cleanup_close_ int fd = -1;
	uint64_t runtimes;
	struct empty *e = data;
	char path[80];

	runtimes = base && m->executable ? packs_of_runtimes(packs_of_file(base + 1)) : 0;
	for (unsigned i = 0; i < e->n_files; i++)
		if (e->inodes[i] == m->inode)
			runtimes = 0;
	if (!runtimes)
		return 0;
	if (e->n_files == FILES_MAX)
		return -E2BIG;
	e->inodes[e->n_files++] = m->inode;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", e->pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : attach_file(e, fd, pack_set_get(runtimes));
}

static int attach_scheduler(struct empty *e)
{
	struct bpf_program *const programs[] = {
		e->skel->progs.on_exit,   e->skel->progs.on_exec,   e->skel->progs.on_fork,
		e->skel->progs.on_switch, e->skel->progs.on_waking, e->skel->progs.on_wakeup_new,
	};

	/* As tfprofd does. */
	for (unsigned i = 0; i < (e->level >= 2 ? ARRAY_SIZE(programs) : 3); i++)
		if (!bpf_program__attach(programs[i]))
			return -errno;
	return 0;
}

static int attach(struct empty *e, bool counting)
{
	_cleanup_close_ int maps = -1;
	char path[32];
	int r;

	e->skel = empty_bpf__open();
	if (!e->skel)
		return -errno;
	e->skel->rodata->counting = counting;
	e->skel->rodata->target = e->pid;
	bpf_program__set_expected_attach_type(e->skel->progs.on_probe,
					      (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);
	r = empty_bpf__load(e->skel);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/maps", e->pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return -errno;
	r = maps_read(maps, on_mapping, e);
	return r < 0 ? r : attach_scheduler(e);
}

int main(int argc, char *argv[])
{
	bool counting = argc > 1 && !strcmp(argv[1], "--count");
	struct empty e = {};
	sigset_t signals;
	int r, number;

	if (argc != 4 + counting) {
		fputs("Usage: empty_probe [--count] LEVEL PID RELEASE\n", stderr);
		return 2;
	}
	e.level = (unsigned)strtoul(argv[1 + counting], NULL, 10);
	e.pid = (pid_t)strtol(argv[2 + counting], NULL, 10);
	e.release = argv[3 + counting];
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = attach(&e, counting);
	if (r < 0) {
		fprintf(stderr, "empty_probe: cannot attach to process %d: %s\n", e.pid,
			strerror(-r));
		return 1;
	}
	printf("attached %u sites\n", e.n_sites);
	fflush(stdout);
	sigwait(&signals, &number);
	if (counting)
		printf("probes %llu switches %llu wakes %llu threads %llu foreign %llu\n",
		       (unsigned long long)e.skel->bss->n_probes,
		       (unsigned long long)e.skel->bss->n_switches,
		       (unsigned long long)e.skel->bss->n_wakes,
		       (unsigned long long)e.skel->bss->n_threads,
		       (unsigned long long)e.skel->bss->n_foreign);
	return 0;
}
