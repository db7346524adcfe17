/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lifecycle/start_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cond.h"
#include "lib/base/macro.h"

#define SECOND 1000000000ull
#define ROUND_NS 20000000ull
/* No start of a process is watched for longer. */
#define WATCH_MAX_NS (600 * SECOND)
#define FOREVER_NS (100 * 365 * 86400ull * SECOND)

static int on_loss(uint64_t from, uint64_t to, uint64_t n, void *data)
{
	struct start_watch *watch = data;

	for (unsigned i = 0; i < watch->n_watched; i++)
		if (!watch->watched[i].is_done)
			lives_note(watch->lives, watch->watched[i].program,
				   "records were lost during its start");
	return 0;
}

static int on_record(const struct record *record, void *data)
{
	struct start_watch *watch = data;
	const struct watched *w;
	struct life *life;

	if ((record->kind != RECORD_PROBE && record->kind != RECORD_TEXT) ||
	    record->target >= watch->n_watched)
		return 0;
	w = &watch->watched[record->target];
	if (w->is_done || record->site >= w->packs->n_rows)
		return 0;
	pthread_mutex_lock(&watch->lives->lock);
	life = lives_find(watch->lives, w->program);
	if (life)
		startup_feed(&life->lifecycle.startup, w->packs->owners[record->site],
			     w->packs->rows[record->site], record);
	pthread_mutex_unlock(&watch->lives->lock);
	return 0;
}

/* Reads what was recorded until now; then nothing more arrives. */
static void finish_session(struct start_watch *watch)
{
	if (!watch->session)
		return;
	session_close(watch->session, loop_now());
	session_finish(watch->session);
}

static void drop_session(struct start_watch *watch)
{
	watch->session = session_free(watch->session);
	for (unsigned i = 0; i < watch->n_prepared; i++)
		prepared_done(&watch->prepared[i], watch->options->proxy);
	watch->n_prepared = watch->n_watched = 0;
}

static void end_session(struct start_watch *watch, const char *why)
{
	finish_session(watch);
	for (unsigned i = 0; i < watch->n_watched; i++)
		if (!watch->watched[i].is_done)
			lives_stop_watching(watch->lives, watch->watched[i].program, why);
	drop_session(watch);
}

static int begin_session(struct start_watch *watch, char *text, size_t size)
{
	struct session_options options = {
		.proxy = watch->options->proxy,
		.client = BROKER_DAEMON,
		.forecast = &watch->forecast,
		.detail = { .level = 1, .no_sockets = true, .memory = MEMORY_OFF, .startup = true }
	};

	watch->sink = (struct record_sink){ .loss = on_loss, .record = on_record, .data = watch };
	sinks_add(&options.sinks, &watch->sink);
	forecast_get(watch->options->proxy, watch->options->cache, &watch->forecast);
	return session_new(&options, &watch->session, text, size);
}

/* Processes that have not started yet wait again, for a session with room. */
static void restart_session(struct start_watch *watch)
{
	finish_session(watch);
	pthread_mutex_lock(&watch->lives->lock);
	for (unsigned i = 0; i < watch->n_watched; i++) {
		struct life *life = watch->watched[i].is_done
					    ? NULL
					    : lives_find(watch->lives, watch->watched[i].program);

		if (!life || startup_is_over(&life->lifecycle.startup))
			continue;
		life->waits = true;
		startup_interrupt(&life->lifecycle.startup);
		life_note(life, "it was not watched for a moment, because many processes started");
	}
	pthread_mutex_unlock(&watch->lives->lock);
	/* Ends the watch of every process that is not done; those that were marked above are
	 * watched again later. */
	for (unsigned i = 0; i < watch->n_watched; i++)
		if (!watch->watched[i].is_done)
			lives_stop_watching(watch->lives, watch->watched[i].program, NULL);
	drop_session(watch);
}

/* Whether some of them have started, or ended. */
static bool can_restart_session(const struct start_watch *watch)
{
	for (unsigned i = 0; i < watch->n_watched; i++)
		if (watch->watched[i].is_done)
			return true;
	return false;
}

/* NULL: it does not belong to the session. */
static struct watched *find_watched(struct start_watch *watch, uint32_t program)
{
	for (unsigned i = 0; i < watch->n_watched; i++)
		if (watch->watched[i].program == program)
			return &watch->watched[i];
	return NULL;
}

/* The kernel may refuse a probe of a watched process whenever something is attached. */
static void check_refused(struct start_watch *watch)
{
	for (unsigned i = 0; watch->session && i < watch->n_watched; i++)
		if (!watch->watched[i].is_done && session_target_left_out(watch->session, i)) {
			watch->watched[i].is_done = true;
			lives_stop_watching(
				watch->lives, watch->watched[i].program,
				"its model loads are not recorded: the kernel refused a probe in it");
		}
}

static int add(struct start_watch *watch, const struct target *target, char *text, size_t size)
{
	struct prepared *p = &watch->prepared[watch->n_prepared];
	bool is_new = !watch->session, was_added;
	uint64_t ignored;
	int r = prepare_target(watch->options->proxy, target, p, text, size);

	if (r < 0)
		return r;
	if (is_new)
		r = begin_session(watch, text, size);
	if (r >= 0)
		r = session_add(watch->session, p, text, size);
	was_added = watch->session && session_n_targets(watch->session) > watch->n_watched;
	/* From then on the session refers to it. */
	if (r < 0 && !was_added && !find_watched(watch, target->program)) {
		prepared_done(p, watch->options->proxy);
		return r;
	}
	watch->n_prepared++;
	if (was_added)
		watch->watched[watch->n_watched++] = (struct watched){ .program = target->program,
								       .packs = target->packs,
								       .is_done = r < 0 };
	if (r >= 0)
		r = session_attach(watch->session, text, size);
	if (r >= 0 && is_new)
		r = session_open(watch->session, FOREVER_NS, &ignored);
	if (r < 0 && was_added && !watch->watched[watch->n_watched - 1].is_done) {
		watch->watched[watch->n_watched - 1].is_done = true;
		session_forget(watch->session, watch->n_watched - 1);
	}
	return r;
}

#define MISSING "not recorded in this build: "

/* Which parts of a start cannot be recorded in the files examined so far; "": none. */
static void explain_missing(const struct start_watch *watch, const struct target *target,
			    char *text, size_t size)
{
	const struct pack_set *set = target->packs;

	*text = 0;
	for (unsigned i = 0; i < set->n_rows && !*text; i++) {
		bool has = !set->rows[i]->lost || probe_kind_of_row(set->rows[i]) != KIND_STARTUP;

		for (unsigned k = 0; k < watch->n_prepared; k++)
			has |= watch->prepared[k].target.program == target->program &&
			       prepared_has(&watch->prepared[k], i);
		if (!has)
			snprintf(text, size, MISSING "%s", set->rows[i]->lost);
	}
}

static bool any_has(const struct start_watch *watch, const struct target *target, enum verb verb,
		    enum work work)
{
	for (unsigned i = 0; i < watch->n_prepared; i++)
		if (watch->prepared[i].target.program == target->program &&
		    prepared_does(&watch->prepared[i], verb, work))
			return true;
	return false;
}

static void note_watched(struct start_watch *watch, const struct target *target)
{
	struct life *life;

	pthread_mutex_lock(&watch->lives->lock);
	life = lives_find(watch->lives, target->program);
	if (life) {
		struct lifecycle *lifecycle = &life->lifecycle;
		bool is_first = !lifecycle->startup.watched_ns;

		lifecycle->is_watched = true;
		lifecycle->startup.unwatched_ns = 0;
		if (is_first)
			lifecycle->startup.watched_ns = loop_now();
		lifecycle->startup.has_handlers = any_has(watch, target, VERB_OPEN, WORK_REQUEST) &&
						  any_has(watch, target, VERB_CLOSE, WORK_REQUEST);
		/* Another of its files may have what the others lack. */
		if (is_first || !strncmp(lifecycle->note, MISSING, sizeof(MISSING) - 1))
			explain_missing(watch, target, lifecycle->note, sizeof(lifecycle->note));
	}
	pthread_mutex_unlock(&watch->lives->lock);
}

/* Whether there is room for one more file of the process; otherwise it waits for room. */
static bool make_room(struct start_watch *watch, const struct target *target)
{
	bool is_full =
		watch->n_prepared == PREPARED_MAX ||
		(!find_watched(watch, target->program) && watch->n_watched == RECORD_MAX_TARGETS);

	if (is_full && can_restart_session(watch)) {
		restart_session(watch);
		is_full = false;
	}
	if (is_full) {
		lives_note(
			watch->lives, target->program,
			"its model loads are not recorded yet: too many processes are starting at once");
		lives_wait_again(watch->lives, target->program);
	}
	return !is_full;
}

static void note_failure(struct start_watch *watch, const struct target *target, int error,
			 const char *text)
{
	const struct watched *w = find_watched(watch, target->program);
	char sentence[LIFECYCLE_NOTE];

	/* A later file without any of the functions. */
	if (w && !w->is_done && error == -ENOENT)
		return;
	snprintf(sentence, sizeof(sentence), "its model loads are not recorded: %s",
		 *text ? text : strerror(-error));
	if (!w || w->is_done)
		lives_stop_watching(watch->lives, target->program, sentence);
	else
		lives_note(watch->lives, target->program, sentence);
	/* There may be too many captures at the moment. */
	if (!watch->session && (error == -EBUSY || error == -ENOMEM))
		lives_wait_again(watch->lives, target->program);
}

static void begin_watching(struct start_watch *watch, const struct target *target)
{
	struct target fresh = prepared_new_part(watch->prepared, watch->n_prepared, target);
	const struct watched *w = find_watched(watch, target->program);
	char text[LIFECYCLE_NOTE - 32] = "";
	int r;

	if (!fresh.n_files || (w && w->is_done) || !make_room(watch, target))
		return;
	/* Its slot may belong to a session that has none of its files yet. */
	fresh = prepared_new_part(watch->prepared, watch->n_prepared, target);
	r = add(watch, &fresh, text, sizeof(text));
	check_refused(watch);
	w = find_watched(watch, target->program);
	if (r < 0)
		note_failure(watch, target, r, text);
	else if (w && !w->is_done)
		note_watched(watch, target);
	if (watch->session && !session_n_captured(watch->session))
		end_session(watch, NULL);
}

/* Whether the session's target has started, has ended, or has timed out, and the reason in the last
 * case. */
static bool is_over(struct start_watch *watch, unsigned i, uint64_t now, const char **ret_why)
{
	const struct life *life;
	bool over;

	*ret_why = NULL;
	if (session_target_ended(watch->session, i))
		return true;
	pthread_mutex_lock(&watch->lives->lock);
	life = lives_find(watch->lives, watch->watched[i].program);
	over = !life || startup_is_over(&life->lifecycle.startup);
	if (!over && now > life->lifecycle.startup.watched_ns + WATCH_MAX_NS) {
		*ret_why = "it was watched for ten minutes only";
		over = true;
	}
	pthread_mutex_unlock(&watch->lives->lock);
	return over;
}

static void check_started(struct start_watch *watch)
{
	uint64_t now = loop_now();
	bool any = false;

	for (unsigned i = 0; i < watch->n_watched; i++) {
		const char *why;

		if (!watch->watched[i].is_done && is_over(watch, i, now, &why)) {
			watch->watched[i].is_done = true;
			lives_stop_watching(watch->lives, watch->watched[i].program, why);
			/* The number may belong to another program by now, which was handled
			 * then. */
			if (!session_target_left_out(watch->session, i))
				session_forget(watch->session, i);
		}
		any |= !watch->watched[i].is_done;
	}
	if (!any)
		end_session(watch, NULL);
}

static bool wait_round(struct start_watch *watch)
{
	uint64_t now = loop_now();
	bool ending, waits = false, is_any_due = false;

	pthread_mutex_lock(&watch->lives->lock);
	for (unsigned i = 0; i < TARGETS_MAX; i++) {
		waits |= watch->lives->list[i].used && watch->lives->list[i].waits;
		is_any_due |= life_is_due(&watch->lives->list[i], now);
	}
	if (!watch->lives->ending && (watch->session || (waits && !is_any_due)))
		cond_wait_until(&watch->lives->changed, &watch->lives->lock, now + ROUND_NS);
	else if (!watch->lives->ending && !waits)
		pthread_cond_wait(&watch->lives->changed, &watch->lives->lock);
	ending = watch->lives->ending;
	pthread_mutex_unlock(&watch->lives->lock);
	return !ending;
}

void start_watch_run(struct start_watch *watch)
{
	struct target target;

	while (wait_round(watch)) {
		if (watch->session && session_drain(watch->session) < 0)
			end_session(watch, "its records could not be read any more");
		if (watch->session)
			check_started(watch);
		if (lives_take_waiting(watch->lives, &target))
			begin_watching(watch, &target);
	}
	end_session(watch, NULL);
}
