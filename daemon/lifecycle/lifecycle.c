/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lifecycle/lifecycle.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "daemon/lifecycle/lives.h"
#include "daemon/lifecycle/start_watch.h"
#include "lib/base/cond.h"
#include "lib/base/macro.h"
#include "lib/proc/start_time.h"

/* Threads of a process that are examined. */
#define THREADS_MAX 512

struct lifecycles {
	struct lifecycles_options options;
	pthread_t thread;
	struct lives lives;
	struct start_watch watch; /* owned by the thread */
};

static void on_ended(void *data)
{
	struct lifecycles *l = data;

	pthread_join(l->thread, NULL);
	l->options.ended(l->options.data);
	pthread_cond_destroy(&l->lives.changed);
	pthread_mutex_destroy(&l->lives.lock);
	free(l);
}

static void *lifecycle_thread(void *data)
{
	struct lifecycles *l = data;

	start_watch_run(&l->watch);
	loop_post_surely(l->options.loop, on_ended, l);
	return NULL;
}

int lifecycles_new(const struct lifecycles_options *options, struct lifecycles **ret)
{
	struct lifecycles *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->options = *options;
	l->watch.options = &l->options;
	l->watch.lives = &l->lives;
	pthread_mutex_init(&l->lives.lock, NULL);
	cond_init(&l->lives.changed);
	r = -pthread_create(&l->thread, NULL, lifecycle_thread, l);
	if (r < 0) {
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void lifecycles_end(struct lifecycles *l)
{
	pthread_mutex_lock(&l->lives.lock);
	l->lives.ending = true;
	pthread_cond_signal(&l->lives.changed);
	pthread_mutex_unlock(&l->lives.lock);
}

/* Of CLOCK_MONOTONIC; 0: unknown. */
static uint64_t start_of(pid_t pid, pid_t tid)
{
	uint64_t ago, now;

	if (started_ago(pid, tid, &ago) < 0)
		return 0;
	/* This clock does not advance while the machine sleeps. */
	now = loop_now();
	return now - MIN(now, ago);
}

/* When the first existing thread of the runtime was created. */
static uint64_t find_pools(pid_t pid)
{
	uint64_t first = 0, started;
	const struct dirent *entry;
	unsigned n = 0;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && n++ < THREADS_MAX && (entry = readdir(tasks))) {
		char comm[16] = "";
		pid_t tid = atoi(entry->d_name);
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
		f = tid > 0 && tid != pid ? fopen(path, "re") : NULL;
		if (f && fgets(comm, sizeof(comm), f) && !strncmp(comm, "tf_", 3)) {
			started = start_of(pid, tid);
			if (started && (!first || started < first))
				first = started;
		}
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return first;
}

/* Whether the packs of the target's runtimes have probes for model loads. */
static bool loads_are_seen(const struct target *target)
{
	for (unsigned i = 0; i < target->packs->n_rows; i++)
		if (row_is(target->packs->rows[i], VERB_OPEN, WORK_LOAD))
			return true;
	return false;
}

void lifecycles_add(struct lifecycles *l, const struct target *target)
{
	struct broker_message m = { .type = BROKER_BIRTH, .pid = (uint32_t)target->pid };
	struct life *life;
	bool is_new;

	if (proxy_call(l->options.proxy, &m, NULL, NULL) < 0)
		m.birth = (struct birth){};
	pthread_mutex_lock(&l->lives.lock);
	life = lives_find(&l->lives, target->program);
	is_new = !life;
	for (unsigned i = 0; i < TARGETS_MAX && !life; i++)
		if (!l->lives.list[i].used)
			life = &l->lives.list[i];
	if (life && is_new) {
		*life = (struct life){ .used = true, .target = *target };
		life->lifecycle.startup.started_ns = start_of(target->pid, 0);
	}
	if (life) {
		struct startup *s = &life->lifecycle.startup;

		life->target = *target;
		/* Earlier answers had the times that the broker no longer keeps. */
		s->executed_ns = m.birth.executed_ns ?: s->executed_ns;
		s->first_mapped_ns = m.birth.first_mapped_ns ?: s->first_mapped_ns;
		/* One whose beginning was not seen had started before. */
		life->waits |= l->options.watches && s->executed_ns && !startup_is_over(s) &&
			       !s->unwatched_ns && loads_are_seen(target);
		if (!life->waits && !life->lifecycle.is_watched && is_new)
			life_note(
				life,
				s->executed_ns
					? l->options.watches
						  ? "model loads are not recorded in this runtime"
						  : "model loads and the first request are not recorded: start tfprofd with --lifecycle"
					: "it started before the daemon, which can only record the start of later processes");
		pthread_cond_signal(&l->lives.changed);
	}
	pthread_mutex_unlock(&l->lives.lock);
}

void lifecycles_remove(struct lifecycles *l, const struct target *target)
{
	struct life *life;

	pthread_mutex_lock(&l->lives.lock);
	life = lives_find(&l->lives, target->program);
	if (life)
		life->used = false;
	pthread_mutex_unlock(&l->lives.lock);
}

bool lifecycles_get(struct lifecycles *l, const struct target *target, bool looks,
		    struct lifecycle *ret)
{
	struct life *life;
	uint64_t pools;
	bool found;

	pthread_mutex_lock(&l->lives.lock);
	life = lives_find(&l->lives, target->program);
	if (life)
		*ret = life->lifecycle;
	found = life != NULL;
	pthread_mutex_unlock(&l->lives.lock);
	if (!found || !looks || ret->startup.runtime_ns || ret->startup.pools_ns)
		return found;
	pools = ret->startup.pools_ns = find_pools(target->pid);
	pthread_mutex_lock(&l->lives.lock);
	life = lives_find(&l->lives, target->program);
	if (life)
		life->lifecycle.startup.pools_ns = pools;
	pthread_mutex_unlock(&l->lives.lock);
	return true;
}

bool lifecycles_track(const struct target *target, struct startup_track *ret, void *lifecycles)
{
	struct lifecycle lifecycle;

	if (!lifecycles_get(lifecycles, target, false, &lifecycle))
		return false;
	startup_phases(&lifecycle.startup, ret);
	return true;
}
