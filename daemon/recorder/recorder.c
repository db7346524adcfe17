/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/budget/budget.h"
#include "daemon/capture/budget/cost.h"
#include "daemon/capture/session.h"
#include "daemon/proxy/proxy.h"
#include "daemon/recorder/live_counter.h"
#include "daemon/recorder/members.h"
#include "daemon/recorder/snapshot.h"
#include "lib/base/clock.h"
#include "lib/base/cond.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define SECOND 1000000000ull
#define ROUND_NS 20000000ull
/* A hundred years: it is closed when the recorder ends. */
#define FOREVER_NS (100 * 365 * 86400ull * SECOND)
/* Delay after a failed attempt to attach. */
#define AGAIN_NS (5 * SECOND)
/* How long a snapshot waits for records that are still in the rings. */
#define SETTLE_MAX_NS (1 * SECOND)
#define SNAPSHOTS_MAX 4
/* A session whose tables are full is restarted, at most this often. */
#define TABLES_NS (600 * SECOND)
#define TABLES_ARE_FULL "there were more connections, or operations, than the kernel's tables hold"

struct recorder {
	struct recorder_options options;
	char hostname[256];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Protected by the lock. */
	bool ending;
	struct member *joining; /* in order of arrival */
	/* Processes that the kept records may be about. */
	struct recorded recorded;
	struct recorder_status status;
	struct snapshot *waiting; /* a list */

	struct live live;
	struct journal_budget recordings;
	unsigned n_snapshots; /* that are not finished; of the loop's thread */
	bool has_ended;       /* likewise: the recorder's thread has ended */

	/* Of the recorder's thread. */
	struct flight *flight; /* NULL: nothing was recorded yet */
	struct live_counter *counter;
	struct session *session; /* NULL: there is no target */
	struct prepared prepared[RECORD_MAX_TARGETS];
	unsigned n_prepared;
	struct member *members; /* those of the session, as last read */
	struct forecast forecast;
	struct budget budget;
	struct capture_shed shed[KIND_COUNT];
	unsigned n_shed, n_left_out, n_refused;
	bool warned_cannot_begin; /* that it cannot begin */
	/* Of what is kept: last_ns is set when the session has ended. */
	uint64_t start_ns, last_ns;
	bool has_failed; /* the session ended because of an error, not because its processes had */
	/* When the threads' names were last recorded. */
	uint64_t named_ns;
	uint64_t cpu_before_ns, again_ns;
	struct drain_counts counts; /* of the session, when it ended */
	struct clock_steps clock;
	double last_overhead;
	uint64_t records_before, dropped_before; /* of earlier sessions */
};

static void finish_if_done(struct recorder *r);

static void on_snapshot_over(void *data)
{
	struct recorder *r = data;

	r->n_snapshots--;
	finish_if_done(r);
}

/* Takes the first waiting snapshot off the list; NULL: none waits. */
static struct snapshot *take_snapshot(struct recorder *r)
{
	struct snapshot *s;

	pthread_mutex_lock(&r->lock);
	s = snapshots_take(&r->waiting);
	pthread_mutex_unlock(&r->lock);
	return s;
}

static int view_of(struct recorder *r, uint64_t until_ns, struct snapshot_facts *facts,
		   struct flight_view **ret)
{
	uint64_t oldest = r->flight ? flight_oldest(r->flight) : UINT64_MAX;

	if (!r->flight || (oldest == UINT64_MAX && !r->session))
		return -ENODATA;
	facts->since_ns = MAX(r->start_ns, oldest == UINT64_MAX ? 0 : oldest);
	return facts->since_ns < until_ns ? flight_view_new(r->flight, ret) : -ENODATA;
}

/* Answers with what was recorded until then. */
static void answer_snapshot(struct recorder *r, struct snapshot *s, uint64_t until_ns)
{
	struct snapshot_facts facts = { .until_ns = until_ns,
					.detail = r->options.detail,
					.max_overhead = r->options.max_overhead,
					.n_left_out = r->n_left_out,
					.n_refused = r->n_refused,
					.counts = r->counts,
					.clock = r->clock,
					.has_failed = r->has_failed };
	struct flight_view *view;
	char text[160];
	pid_t pid;
	const struct session_warnings *warnings;
	int error;
	bool may;

	pthread_mutex_lock(&r->lock);
	may = recorded_is_permitted(&r->recorded, snapshot_who(s), &pid);
	pthread_mutex_unlock(&r->lock);
	if (!may) {
		snprintf(
			text, sizeof(text),
			"the recorder also holds process %d, which belongs to another user: run as root",
			pid);
		snapshot_fail(s, -EACCES, text, on_snapshot_over, r);
		return;
	}
	error = view_of(r, until_ns, &facts, &view);
	if (error < 0) {
		snapshot_fail(s, error,
			      error == -ENODATA ? "nothing has been recorded yet"
						: strerror(-error),
			      on_snapshot_over, r);
		return;
	}
	facts.capture = r->session ? session_id(r->session) : SESSION_NO_ID;
	memcpy(facts.shed, r->shed, sizeof(facts.shed));
	facts.n_shed = r->n_shed;
	warnings = r->session ? session_warnings(r->session) : NULL;
	for (unsigned i = 0; warnings && i < warnings->n; i++)
		snapshot_warn(s, warnings->texts[i], warnings->restating >> i & 1);
	if (r->session)
		session_count(r->session, &facts.counts);
	facts.overhead =
		r->session ? cost_of_probes(r->session, r->cpu_before_ns) : r->last_overhead;
	snapshot_begin(s, view, &facts, on_snapshot_over, r);
}

static void note_status(struct recorder *r)
{
	struct drain_counts counts = {};
	struct recorder_status status = { .attached = r->session,
					  .n_left_out = r->n_left_out + r->n_refused,
					  .n_shed = r->n_shed,
					  .sampled_kinds = r->session ? r->budget.sampled : 0 };

	if (r->session) {
		session_count(r->session, &counts);
		status.overhead = cost_of_probes(r->session, r->cpu_before_ns);
		status.n_targets = session_n_captured(r->session);
	}
	status.records = r->records_before + counts.records;
	status.dropped = r->dropped_before + counts.dropped;
	if (r->flight) {
		status.bytes = flight_bytes(r->flight);
		status.oldest_ns =
			flight_oldest(r->flight) == UINT64_MAX ? 0 : flight_oldest(r->flight);
	}
	for (unsigned i = 0; i < r->n_shed; i++)
		status.shed[i] = r->shed[i].kind;
	pthread_mutex_lock(&r->lock);
	r->status = status;
	pthread_mutex_unlock(&r->lock);
}

/* What is kept stays until another session has begun. */
static void end_session(struct recorder *r)
{
	if (!r->session)
		return;
	session_close(r->session, loop_now());
	session_finish(r->session);
	r->last_ns = loop_now();
	r->last_overhead = cost_of_probes(r->session, r->cpu_before_ns);
	session_count(r->session, &r->counts);
	r->records_before += r->counts.records;
	r->dropped_before += r->counts.dropped;
	r->session = session_free(r->session);
	r->counter = live_counter_free(r->counter);
	for (unsigned i = 0; i < r->n_prepared; i++)
		prepared_done(&r->prepared[i], r->options.proxy);
	r->n_prepared = 0;
	members_free(&r->members);
}

/* Its processes that are still alive join again, before others; returns how many have ended. */
static unsigned restart_session(struct recorder *r)
{
	struct member *members = TAKE_PTR(r->members);
	unsigned n_ended;

	end_session(r);
	pthread_mutex_lock(&r->lock);
	n_ended = members_add_living(&r->joining, members, &r->n_left_out);
	pthread_mutex_unlock(&r->lock);
	members_free(&members);
	return n_ended;
}

static void note_target(struct recorder *r, const struct target *target)
{
	pthread_mutex_lock(&r->lock);
	recorded_add(&r->recorded, target);
	pthread_mutex_unlock(&r->lock);
}

/* A session that does not belong to the recorder yet. */
struct beginning {
	struct flight *flight;
	struct live_counter *counter;
	struct session *session;
};

static int open_session(struct recorder *r, struct beginning *b, const struct prepared *p,
			uint64_t *ret_start, char *text, size_t size)
{
	struct session_options options = { .proxy = r->options.proxy,
					   .client = r->options.client,
					   .is_shared = true,
					   .detail = r->options.detail,
					   .forecast = &r->forecast,
					   .kinds = detail_program_kinds(&r->options.detail) };
	int error = flight_new(r->options.bytes, r->options.last_ns, &b->flight);

	if (error >= 0)
		error = live_counter_new(&r->live, r->options.triggers, &b->counter);
	if (error < 0)
		return error;
	sinks_add(&options.sinks, live_counter_sink(b->counter));
	sinks_add(&options.sinks, flight_sink(b->flight));
	forecast_get(r->options.proxy, r->options.cache, &r->forecast);
	options.sampled_kinds = cost_sampled_kinds(r->options.max_overhead, &r->forecast);
	error = session_new(&options, &b->session, text, size);
	if (error >= 0)
		error = session_add(b->session, p, text, size);
	if (error >= 0)
		error = session_attach(b->session, text, size);
	if (error >= 0 && !session_n_captured(b->session))
		error = -EACCES;
	live_begin(&r->live, loop_now());
	return error < 0 ? error : session_open(b->session, FOREVER_NS, ret_start);
}

/* The first process: what was kept before is dropped only once this one is recorded. */
static int begin(struct recorder *r, const struct target *target, char *text, size_t size)
{
	struct beginning b = {};
	uint64_t start;
	int error = prepare_target(r->options.proxy, target, &r->prepared[0], text, size);

	if (error < 0)
		return error;
	note_target(r, target);
	error = open_session(r, &b, &r->prepared[0], &start, text, size);
	if (error < 0) {
		session_free(b.session);
		live_counter_free(b.counter);
		flight_free(b.flight);
		prepared_done(&r->prepared[0], r->options.proxy);
		return error;
	}
	flight_free(r->flight);
	r->flight = b.flight;
	r->counter = b.counter;
	r->session = b.session;
	r->n_prepared = 1;
	r->start_ns = start;
	r->cpu_before_ns = session_cpu_ns(r->session);
	r->budget = (struct budget){
		.max_percent = r->options.max_overhead,
		.may_sample = cost_sampled_kinds(r->options.max_overhead, &r->forecast),
	};
	r->n_shed = cost_add_refused(r->session, &r->budget, 0, r->shed, 0);
	r->n_left_out = r->n_refused = 0;
	r->has_failed = false;
	pthread_mutex_lock(&r->lock);
	r->recorded = (struct recorded){};
	pthread_mutex_unlock(&r->lock);
	note_target(r, target);
	return 0;
}

static int attach(struct recorder *r, const struct target *target, char *text, size_t size)
{
	struct prepared *p = &r->prepared[r->n_prepared];
	int error;

	if (!r->session)
		return begin(r, target, text, size);
	error = prepare_target(r->options.proxy, target, p, text, size);
	if (error < 0)
		return error;
	r->n_prepared++;
	/* Its probes may fire before all of them are attached. */
	note_target(r, target);
	error = session_add(r->session, p, text, size);
	if (error >= 0)
		error = session_attach(r->session, text, size);
	r->n_shed = cost_add_refused(r->session, &r->budget, loop_now(), r->shed, r->n_shed);
	return error;
}

/* The next process whose time has come; NULL: there is none. */
static struct member *take_joining(struct recorder *r)
{
	struct member *m;

	pthread_mutex_lock(&r->lock);
	m = loop_now() >= r->again_ns ? r->joining : NULL;
	if (m)
		r->joining = m->next;
	pthread_mutex_unlock(&r->lock);
	return m;
}

/* It cannot begin for a reason unrelated to the process: there may be too many captures. */
static void try_later(struct recorder *r, const struct target *target, const char *why)
{
	if (!r->warned_cannot_begin)
		log_warning("the recorder cannot start and will try again: %s", why);
	r->warned_cannot_begin = true;
	r->again_ns = loop_now() + AGAIN_NS;
	pthread_mutex_lock(&r->lock);
	if (members_add(&r->joining, target, true) < 0)
		r->n_left_out++;
	pthread_mutex_unlock(&r->lock);
}

static void join_target(struct recorder *r, const struct target *target)
{
	struct target fresh = prepared_new_part(r->prepared, r->n_prepared, target);
	char text[256] = "";
	int error;

	if (!fresh.n_files)
		return;
	if (r->n_prepared == RECORD_MAX_TARGETS) {
		/* Target numbers are not reused: if some belong to processes that have ended, it
		 * restarts with the others. */
		for (unsigned i = 0; i < session_n_targets(r->session); i++)
			if (session_target_ended(r->session, i)) {
				log_info(
					"the recorder restarts: %u of its processes have ended, and it is limited to %d",
					restart_session(r), RECORD_MAX_TARGETS);
				recorder_join(r, target);
				return;
			}
		r->n_left_out++;
		return;
	}
	error = attach(r, &fresh, text, sizeof(text));
	if (error >= 0) {
		r->warned_cannot_begin = false;
		if (members_add(&r->members, target, false) < 0)
			r->n_left_out++;
	} else if (error == -EPIPE ||
		   (!r->session && (error == -EBUSY || error == -ENOMEM || error == -ECANCELED))) {
		try_later(r, target, *text ? text : strerror(-error));
	} else if (error != -ESRCH) {
		log_warning("process %d (%s) is not recorded: %s", target->pid, target->name,
			    *text ? text : strerror(-error));
		r->n_refused++;
	}
}

static void join_next(struct recorder *r)
{
	struct member *m = take_joining(r);

	if (m)
		join_target(r, &m->target);
	free(m);
	if (r->session && !session_n_captured(r->session))
		end_session(r);
}

/* The kernel's tables fill up when processes end without closing what they had open: then new
 * connections, or operations, are not followed. */
static bool tables_are_full(const struct recorder *r)
{
	struct drain_counts counts;

	session_count(r->session, &counts);
	return (counts.flows_full || counts.table_full) && loop_now() - r->start_ns > TABLES_NS;
}

static void keep_budget(struct recorder *r, uint64_t now)
{
	struct capture_shed *shed = &r->shed[r->n_shed];
	unsigned n, sampled = r->budget.sampled;

	if (!(r->options.max_overhead > 0))
		return;
	n = cost_keep_budget(r->session, &r->budget, 0, now, shed, KIND_COUNT - r->n_shed);
	r->n_shed += n;
	for (; n > 0; n--, shed++)
		log_warning(
			"the recorder disables %s: the probes cost %.1f %% of the CPU time; its budget is %.4g %%",
			probe_kind_name(shed->kind), shed->overhead, r->options.max_overhead);
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++)
		if (r->budget.sampled & ~sampled & 1u << kind)
			log_info("the recorder samples %s, to keep its budget of %.4g %%",
				 probe_kind_name(kind), r->options.max_overhead);
}

/* A snapshot waits until everything that happened before it was requested has been read. */
static void serve_snapshots(struct recorder *r)
{
	for (;;) {
		struct snapshot *s;
		uint64_t asked, now = loop_now();

		pthread_mutex_lock(&r->lock);
		s = r->waiting;
		asked = s ? snapshot_asked_ns(s) : 0;
		pthread_mutex_unlock(&r->lock);
		if (!s)
			return;
		if (r->session && r->named_ns < asked) {
			if (session_name_threads(r->session) < 0) {
				restart_session(r);
				r->has_failed = true;
			}
			r->named_ns = now;
		}
		if (r->session && session_settled_ns(r->session) <= MAX(asked, r->named_ns) &&
		    now < asked + SETTLE_MAX_NS)
			return;
		answer_snapshot(r, take_snapshot(r), r->session ? asked : MIN(asked, r->last_ns));
	}
}

static bool wait_round(struct recorder *r)
{
	uint64_t at = loop_now() + (r->session ? ROUND_NS : SECOND);
	bool ending;

	pthread_mutex_lock(&r->lock);
	/* While a session exists every round takes its full time, so that many records are read at
	 * once. */
	if (!r->ending &&
	    (r->session || ((!r->joining || loop_now() < r->again_ns) && !r->waiting)))
		cond_wait_until(&r->changed, &r->lock, at);
	ending = r->ending;
	pthread_mutex_unlock(&r->lock);
	return !ending;
}

/* Snapshots use the recorder's memory. */
static void finish_if_done(struct recorder *r)
{
	if (!r->has_ended || r->n_snapshots)
		return;
	pthread_join(r->thread, NULL);
	r->options.ended(r, r->options.data);
	flight_free(r->flight);
	members_free(&r->joining);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	live_done(&r->live);
	free(r);
}

static void on_ended(void *data)
{
	struct recorder *r = data;

	r->has_ended = true;
	finish_if_done(r);
}

static void *recorder_thread(void *data)
{
	struct recorder *r = data;

	while (wait_round(r)) {
		clock_steps_look(&r->clock, loop_now(), clock_unix_offset());
		if (r->session) {
			int error = session_drain(r->session);

			if (error >= 0 && session_targets_ended(r->session)) {
				end_session(r);
			} else if (error < 0 || tables_are_full(r)) {
				log_warning("the recorder restarts: %s",
					    error < 0 ? strerror(-error) : TABLES_ARE_FULL);
				restart_session(r);
				r->has_failed = true;
			} else {
				keep_budget(r, loop_now());
			}
		}
		serve_snapshots(r);
		join_next(r);
		note_status(r);
	}
	end_session(r);
	serve_snapshots(r);
	loop_post_surely(r->options.loop, on_ended, r);
	return NULL;
}

int recorder_new(const struct recorder_options *options, struct recorder **ret)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int error;

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->recordings.max_bytes = CAPTURE_RECORDING_BYTES;
	snprintf(r->hostname, sizeof(r->hostname), "%s", options->hostname);
	pthread_mutex_init(&r->lock, NULL);
	live_init(&r->live);
	cond_init(&r->changed);
	error = -pthread_create(&r->thread, NULL, recorder_thread, r);
	if (error < 0) {
		free(r);
		return error;
	}
	*ret = r;
	return 0;
}

void recorder_end(struct recorder *r)
{
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

void recorder_join(struct recorder *r, const struct target *target)
{
	pthread_mutex_lock(&r->lock);
	/* A process that is already waiting has only mapped more files. */
	if (members_add(&r->joining, target, false) < 0)
		log_warning("process %d (%s) is not recorded: out of memory", target->pid,
			    target->name);
	if (!r->status.attached)
		pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

void recorder_get_status(struct recorder *r, struct recorder_status *ret)
{
	pthread_mutex_lock(&r->lock);
	*ret = r->status;
	pthread_mutex_unlock(&r->lock);
}

bool recorder_get_live(struct recorder *r, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns)
{
	return live_get(&r->live, pid, ret, ret_since_ns);
}

const struct recorder_options *recorder_get_options(const struct recorder *r)
{
	return &r->options;
}

int recorder_snapshot(struct recorder *r, const struct snapshot_request *request)
{
	struct snapshot *s;
	int error;

	if (r->n_snapshots >= SNAPSHOTS_MAX)
		return -EBUSY;
	error = snapshot_new(request, r->options.loop, r->hostname, &r->recordings, &s);
	if (error < 0)
		return error;
	r->n_snapshots++;
	pthread_mutex_lock(&r->lock);
	snapshots_add(&r->waiting, s);
	if (!r->status.attached)
		pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return 0;
}
