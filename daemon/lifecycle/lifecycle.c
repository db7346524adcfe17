/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lifecycle/lifecycle.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/prepare.h"
#include "daemon/capture/session.h"
#include "lib/base/cond.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/proc/start_time.h"

#define SECOND 1000000000ull
#define ROUND_NS 20000000ull
/* Nobody waits longer for a process to start. */
#define WATCH_MAX_NS (600 * SECOND)
#define FOREVER_NS (100 * 365 * 86400ull * SECOND)
/* Threads of a process that are looked at. */
#define THREADS_MAX 512
/* After there was no room, or a session could not begin. */
#define AGAIN_NS SECOND
/* Of one process several can be prepared: its files come one after the other. */
#define PREPARED_MAX (2 * RECORD_MAX_TARGETS)

struct life {
	bool used, waits;  /* waits: to be watched */
	uint64_t again_ns; /* it waits, and is not tried before */
	struct target target;
	struct lifecycle lifecycle;
};

struct lifecycles {
	struct lifecycles_options options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	bool ending;
	struct life lives[TARGETS_MAX];
	/* The thread's own. */
	struct record_sink sink;
	struct session *session; /* NULL: nobody starts */
	struct prepared prepared[PREPARED_MAX];
	unsigned n_prepared;
	struct watched {
		uint32_t program;
		const struct probe_pack *pack;
		bool is_done;
	} watched[RECORD_MAX_TARGETS]; /* the session's targets, by their numbers; of one there may
					  be several that are prepared */
	unsigned n_watched;
	struct forecast forecast;
};

static struct life *find(struct lifecycles *l, uint32_t program)
{
	for (unsigned i = 0; i < TARGETS_MAX; i++)
		if (l->lives[i].used && l->lives[i].target.program == program)
			return &l->lives[i];
	return NULL;
}

static void note_life(struct life *life, const char *text)
{
	snprintf(life->lifecycle.note, sizeof(life->lifecycle.note), "%s", text);
}

static void note(struct lifecycles *l, uint32_t program, const char *text)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = find(l, program);
	if (life)
		note_life(life, text);
	pthread_mutex_unlock(&l->lock);
}

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	struct lifecycles *l = data;

	for (unsigned i = 0; i < l->n_watched; i++)
		if (!l->watched[i].is_done)
			note(l, l->watched[i].program, "records were lost while it started");
	return 0;
}

static int on_record(const struct record *record, void *data)
{
	struct lifecycles *l = data;
	const struct watched *w;
	struct life *life;

	if ((record->kind != RECORD_PROBE && record->kind != RECORD_TEXT) ||
	    record->target >= l->n_watched)
		return 0;
	w = &l->watched[record->target];
	if (w->is_done || record->site >= w->pack->n_probes)
		return 0;
	pthread_mutex_lock(&l->lock);
	life = find(l, w->program);
	if (life)
		startup_feed(&life->lifecycle.startup, &w->pack->probes[record->site], record);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/* why: a sentence without its point, NULL: nothing more is to be seen. */
static void stop_watching(struct lifecycles *l, uint32_t program, const char *why)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = find(l, program);
	if (life && life->lifecycle.is_watched) {
		life->lifecycle.is_watched = false;
		life->lifecycle.startup.unwatched_ns = loop_now();
	}
	if (life && why)
		note_life(life, why);
	pthread_mutex_unlock(&l->lock);
}

/* What was told until now is taken in; then nothing more comes. */
static void finish_session(struct lifecycles *l)
{
	if (!l->session)
		return;
	session_close(l->session, loop_now());
	session_finish(l->session);
}

static void drop_session(struct lifecycles *l)
{
	l->session = session_free(l->session);
	for (unsigned i = 0; i < l->n_prepared; i++)
		prepared_done(&l->prepared[i], l->options.proxy);
	l->n_prepared = l->n_watched = 0;
}

static void end_session(struct lifecycles *l, const char *why)
{
	finish_session(l);
	for (unsigned i = 0; i < l->n_watched; i++)
		if (!l->watched[i].is_done)
			stop_watching(l, l->watched[i].program, why);
	drop_session(l);
}

static int begin_session(struct lifecycles *l, char *text, size_t size)
{
	struct session_options options = {
		.proxy = l->options.proxy,
		.client = BROKER_DAEMON,
		.forecast = &l->forecast,
		.detail = { .level = 1, .no_sockets = true, .memory = MEMORY_OFF, .startup = true }
	};

	l->sink = (struct record_sink){ .loss = on_loss, .record = on_record, .data = l };
	sinks_add(&options.sinks, &l->sink);
	forecast_get(l->options.proxy, l->options.cache, &l->forecast);
	return session_new(&options, &l->session, text, size);
}

/* Those that have not started yet wait again, for a session with room. */
static void begin_anew(struct lifecycles *l)
{
	finish_session(l);
	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < l->n_watched; i++) {
		struct life *life = l->watched[i].is_done ? NULL : find(l, l->watched[i].program);

		if (!life || startup_is_over(&life->lifecycle.startup))
			continue;
		life->waits = true;
		startup_interrupt(&life->lifecycle.startup);
		note_life(life, "for a moment it was not watched, because many processes started");
	}
	pthread_mutex_unlock(&l->lock);
	/* Who has started meanwhile is not watched any more, and who waits is until it is told
	 * otherwise. */
	for (unsigned i = 0; i < l->n_watched; i++)
		if (!l->watched[i].is_done)
			stop_watching(l, l->watched[i].program, NULL);
	drop_session(l);
}

/* Whether some of them have started, or ended. */
static bool can_begin_anew(const struct lifecycles *l)
{
	for (unsigned i = 0; i < l->n_watched; i++)
		if (l->watched[i].is_done)
			return true;
	return false;
}

/* NULL: it is none of the session's. */
static struct watched *find_watched(struct lifecycles *l, uint32_t program)
{
	for (unsigned i = 0; i < l->n_watched; i++)
		if (l->watched[i].program == program)
			return &l->watched[i];
	return NULL;
}

/* Of those that are watched the kernel may refuse a probe whenever something is attached. */
static void look_who_was_refused(struct lifecycles *l)
{
	for (unsigned i = 0; l->session && i < l->n_watched; i++)
		if (!l->watched[i].is_done && session_target_left_out(l->session, i)) {
			l->watched[i].is_done = true;
			stop_watching(l, l->watched[i].program,
				      "its loads are not seen: the kernel refused a probe in it");
		}
}

static int watch(struct lifecycles *l, const struct target *target, char *text, size_t size)
{
	struct prepared *p = &l->prepared[l->n_prepared];
	bool is_new = !l->session, was_added;
	uint64_t ignored;
	int r = prepare_target(l->options.proxy, l->options.plans, target, p, text, size);

	if (r < 0)
		return r;
	if (is_new)
		r = begin_session(l, text, size);
	if (r >= 0)
		r = session_add(l->session, p, text, size);
	was_added = l->session && session_n_targets(l->session) > l->n_watched;
	/* From then on the session refers to it. */
	if (r < 0 && !was_added && !find_watched(l, target->program)) {
		prepared_done(p, l->options.proxy);
		return r;
	}
	l->n_prepared++;
	if (was_added)
		l->watched[l->n_watched++] = (struct watched){ .program = target->program,
							       .pack = target->pack,
							       .is_done = r < 0 };
	if (r >= 0)
		r = session_attach(l->session, text, size);
	if (r >= 0 && is_new)
		r = session_open(l->session, FOREVER_NS, &ignored);
	if (r < 0 && was_added && !l->watched[l->n_watched - 1].is_done) {
		l->watched[l->n_watched - 1].is_done = true;
		session_forget(l->session, l->n_watched - 1);
	}
	return r;
}

static bool is_due(const struct life *life, uint64_t now)
{
	return life->used && life->waits && life->again_ns <= now;
}

/* Taken off the list of those that wait; false: nobody is to be tried now. */
static bool take_waiting(struct lifecycles *l, struct target *ret)
{
	uint64_t now = loop_now();
	bool found = false;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < TARGETS_MAX && !found; i++)
		if (is_due(&l->lives[i], now)) {
			l->lives[i].waits = false;
			*ret = l->lives[i].target;
			found = true;
		}
	pthread_mutex_unlock(&l->lock);
	return found;
}

#define MISSING "in this build it is not seen: "

/* What of a start the files of the process that were looked into do not tell; "": nothing. */
static void explain_missing(const struct lifecycles *l, const struct target *target, char *text,
			    size_t size)
{
	const struct probe_pack *pack = target->pack;

	*text = 0;
	for (unsigned i = 0; i < pack->n_probes && !*text; i++) {
		bool has = !pack->probes[i].lost ||
			   probe_kind_of_role(pack->probes[i].role) != KIND_STARTUP;

		for (unsigned k = 0; k < l->n_prepared; k++)
			has |= l->prepared[k].target.program == target->program &&
			       prepared_has(&l->prepared[k], i);
		if (!has)
			snprintf(text, size, MISSING "%s", pack->probes[i].lost);
	}
}

static bool any_has(const struct lifecycles *l, const struct target *target, enum role role)
{
	for (unsigned i = 0; i < l->n_prepared; i++)
		if (l->prepared[i].target.program == target->program &&
		    prepared_has_role(&l->prepared[i], role))
			return true;
	return false;
}

static void note_watched(struct lifecycles *l, const struct target *target)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = find(l, target->program);
	if (life) {
		struct lifecycle *lifecycle = &life->lifecycle;
		bool is_first = !lifecycle->startup.watched_ns;

		lifecycle->is_watched = true;
		lifecycle->startup.unwatched_ns = 0;
		if (is_first)
			lifecycle->startup.watched_ns = loop_now();
		lifecycle->startup.has_handlers = any_has(l, target, ROLE_REQUEST_BEGIN) &&
						  any_has(l, target, ROLE_REQUEST_END);
		/* One more of its files may have what the others have not. */
		if (is_first || !strncmp(lifecycle->note, MISSING, sizeof(MISSING) - 1))
			explain_missing(l, target, lifecycle->note, sizeof(lifecycle->note));
	}
	pthread_mutex_unlock(&l->lock);
}

static void wait_again(struct lifecycles *l, uint32_t program)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = find(l, program);
	if (life) {
		life->waits = true;
		life->again_ns = loop_now() + AGAIN_NS;
	}
	pthread_mutex_unlock(&l->lock);
}

/* Whether there is room for one more file of the process; else it waits for some. */
static bool make_room(struct lifecycles *l, const struct target *target)
{
	bool is_full = l->n_prepared == PREPARED_MAX ||
		       (!find_watched(l, target->program) && l->n_watched == RECORD_MAX_TARGETS);

	if (is_full && can_begin_anew(l)) {
		begin_anew(l);
		is_full = false;
	}
	if (is_full) {
		note(l, target->program,
		     "its loads are not seen yet: too many processes start at a time");
		wait_again(l, target->program);
	}
	return !is_full;
}

static void note_failure(struct lifecycles *l, const struct target *target, int error,
			 const char *text)
{
	const struct watched *w = find_watched(l, target->program);
	char sentence[LIFECYCLE_NOTE];

	/* A later file that has nothing of it. */
	if (w && !w->is_done && error == -ENOENT)
		return;
	snprintf(sentence, sizeof(sentence), "its loads are not seen: %s",
		 *text ? text : strerror(-error));
	if (!w || w->is_done)
		stop_watching(l, target->program, sentence);
	else
		note(l, target->program, sentence);
	/* There may be too many captures just now. */
	if (!l->session && (error == -EBUSY || error == -ENOMEM))
		wait_again(l, target->program);
}

static void begin_watching(struct lifecycles *l, const struct target *target)
{
	struct target fresh = prepared_what_is_new(l->prepared, l->n_prepared, target);
	const struct watched *w = find_watched(l, target->program);
	char text[LIFECYCLE_NOTE - 32] = "";
	int r;

	if (!fresh.n_files || (w && w->is_done) || !make_room(l, target))
		return;
	/* Its room may be that of a session that has nothing of it yet. */
	fresh = prepared_what_is_new(l->prepared, l->n_prepared, target);
	r = watch(l, &fresh, text, sizeof(text));
	look_who_was_refused(l);
	w = find_watched(l, target->program);
	if (r < 0)
		note_failure(l, target, r, text);
	else if (w && !w->is_done)
		note_watched(l, target);
	if (l->session && !session_n_captured(l->session))
		end_session(l, NULL);
}

/* Whether the session's target has started, has ended, or is waited for no longer, and then why. */
static bool is_over(struct lifecycles *l, unsigned i, uint64_t now, const char **ret_why)
{
	const struct life *life;
	bool over;

	*ret_why = NULL;
	if (session_target_ended(l->session, i))
		return true;
	pthread_mutex_lock(&l->lock);
	life = find(l, l->watched[i].program);
	over = !life || startup_is_over(&life->lifecycle.startup);
	if (!over && now > life->lifecycle.startup.watched_ns + WATCH_MAX_NS) {
		*ret_why = "it was watched for ten minutes, and no longer";
		over = true;
	}
	pthread_mutex_unlock(&l->lock);
	return over;
}

static void look_who_has_started(struct lifecycles *l)
{
	uint64_t now = loop_now();
	bool any = false;

	for (unsigned i = 0; i < l->n_watched; i++) {
		const char *why;

		if (!l->watched[i].is_done && is_over(l, i, now, &why)) {
			l->watched[i].is_done = true;
			stop_watching(l, l->watched[i].program, why);
			/* By its number, which may be another program's by now: that one was told
			 * of then. */
			if (!session_target_left_out(l->session, i))
				session_forget(l->session, i);
		}
		any |= !l->watched[i].is_done;
	}
	if (!any)
		end_session(l, NULL);
}

static bool wait_round(struct lifecycles *l)
{
	uint64_t now = loop_now();
	bool ending, waits = false, is_any_due = false;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < TARGETS_MAX; i++) {
		waits |= l->lives[i].used && l->lives[i].waits;
		is_any_due |= is_due(&l->lives[i], now);
	}
	if (!l->ending && (l->session || (waits && !is_any_due)))
		cond_wait_until(&l->changed, &l->lock, now + ROUND_NS);
	else if (!l->ending && !waits)
		pthread_cond_wait(&l->changed, &l->lock);
	ending = l->ending;
	pthread_mutex_unlock(&l->lock);
	return !ending;
}

static void on_ended(void *data)
{
	struct lifecycles *l = data;

	pthread_join(l->thread, NULL);
	l->options.ended(l->options.data);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void *lifecycle_thread(void *data)
{
	struct lifecycles *l = data;
	struct target target;

	while (wait_round(l)) {
		if (l->session && session_drain(l->session) < 0)
			end_session(l, "what it told could not be read any more");
		if (l->session)
			look_who_has_started(l);
		if (take_waiting(l, &target))
			begin_watching(l, &target);
	}
	end_session(l, NULL);
	while (loop_post(l->options.loop, on_ended, l) < 0)
		poll(NULL, 0, 100);
	return NULL;
}

int lifecycles_new(const struct lifecycles_options *options, struct lifecycles **ret)
{
	struct lifecycles *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->options = *options;
	pthread_mutex_init(&l->lock, NULL);
	cond_init(&l->changed);
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
	pthread_mutex_lock(&l->lock);
	l->ending = true;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* Of CLOCK_MONOTONIC; 0: not known. */
static uint64_t start_of(pid_t pid, pid_t tid)
{
	uint64_t ago, now;

	if (started_ago(pid, tid, &ago) < 0)
		return 0;
	/* This clock stands still while the machine sleeps. */
	now = loop_now();
	return now - MIN(now, ago);
}

/* When the first of the runtime's threads was made, of those that there are. */
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

void lifecycles_add(struct lifecycles *l, const struct target *target)
{
	struct broker_message m = { .type = BROKER_BIRTH, .pid = (uint32_t)target->pid };
	struct life *life;
	bool is_new;

	if (proxy_call(l->options.proxy, &m, NULL, NULL) < 0)
		m.birth = (struct birth){};
	pthread_mutex_lock(&l->lock);
	life = find(l, target->program);
	is_new = !life;
	for (unsigned i = 0; i < TARGETS_MAX && !life; i++)
		if (!l->lives[i].used)
			life = &l->lives[i];
	if (life && is_new) {
		*life = (struct life){ .used = true, .target = *target };
		life->lifecycle.startup.started_ns = start_of(target->pid, 0);
	}
	if (life) {
		struct startup *s = &life->lifecycle.startup;

		life->target = *target;
		/* What is not kept any more was told before. */
		s->executed_ns = m.birth.executed_ns ?: s->executed_ns;
		s->first_mapped_ns = m.birth.first_mapped_ns ?: s->first_mapped_ns;
		/* One whose begin was not seen had started before. */
		life->waits |= l->options.watches && s->executed_ns && !startup_is_over(s) &&
			       !s->unwatched_ns;
		if (!life->waits && !life->lifecycle.is_watched && is_new)
			note_life(
				life,
				s->executed_ns
					? "loads and the first request are not seen: start tfprofd with --lifecycle"
					: "it is older than the daemon, which sees how a process starts when that is there before");
		pthread_cond_signal(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
}

void lifecycles_remove(struct lifecycles *l, const struct target *target)
{
	struct life *life;

	pthread_mutex_lock(&l->lock);
	life = find(l, target->program);
	if (life)
		life->used = false;
	pthread_mutex_unlock(&l->lock);
}

bool lifecycles_get(struct lifecycles *l, const struct target *target, bool looks,
		    struct lifecycle *ret)
{
	struct life *life;
	uint64_t pools;
	bool found;

	pthread_mutex_lock(&l->lock);
	life = find(l, target->program);
	if (life)
		*ret = life->lifecycle;
	found = life != NULL;
	pthread_mutex_unlock(&l->lock);
	if (!found || !looks || ret->startup.runtime_ns || ret->startup.pools_ns)
		return found;
	pools = ret->startup.pools_ns = find_pools(target->pid);
	pthread_mutex_lock(&l->lock);
	life = find(l, target->program);
	if (life)
		life->lifecycle.startup.pools_ns = pools;
	pthread_mutex_unlock(&l->lock);
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
