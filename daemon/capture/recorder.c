#include "daemon/capture/recorder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/broker/proxy.h"
#include "daemon/capture/budget.h"
#include "daemon/capture/cost.h"
#include "daemon/capture/live.h"
#include "daemon/capture/session.h"
#include "daemon/capture/snapshot.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define SECOND 1000000000ull
#define ROUND_NS 20000000ull
/* A hundred years: it is closed when the recorder ends. */
#define FOREVER_NS (100 * 365 * 86400ull * SECOND)
/* After an attempt to attach that failed. */
#define AGAIN_NS (5 * SECOND)
/* For what a snapshot waits: records that are on their way. */
#define SETTLE_MAX_NS (1 * SECOND)
#define SNAPSHOTS_MAX 4

struct recorder {
	struct recorder_options options;
	char hostname[256];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	bool ending;
	struct target joining[RECORD_MAX_TARGETS];
	unsigned n_joining;
	struct recorder_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	struct recorder_status status;
	struct snapshot *waiting; /* a list */

	struct live live;
	unsigned n_snapshots; /* that are not over; the loop's */

	/* The thread's own. */
	struct flight *flight; /* NULL: nothing was recorded yet */
	struct live_counter *counter;
	struct session *session; /* NULL: there is no target */
	struct prepared prepared[RECORD_MAX_TARGETS];
	unsigned n_prepared;
	struct forecast forecast;
	struct budget budget;
	struct capture_shed shed[KIND_COUNT];
	unsigned n_shed, n_left_out;
	bool has_warned; /* that it cannot begin */
	uint64_t start_ns, last_ns; /* of what is kept: last_ns when the session has ended */
	uint64_t named_ns; /* the threads' names were told */
	uint64_t cpu_before_ns, again_ns;
	double last_overhead;
	uint64_t records_before, dropped_before; /* of earlier sessions */
};

static void on_snapshot_over(void *data)
{
	struct recorder *r = data;

	r->n_snapshots--;
}

/* The first that waits, taken off the list; NULL: nobody waits. */
static struct snapshot *take_snapshot(struct recorder *r)
{
	struct snapshot *s;

	pthread_mutex_lock(&r->lock);
	s = r->waiting;
	if (s)
		r->waiting = snapshot_next(s);
	pthread_mutex_unlock(&r->lock);
	return s;
}

/* Answers with what there is until then. */
static void give_snapshot(struct recorder *r, struct snapshot *s, uint64_t until_ns)
{
	struct snapshot_facts facts = { .until_ns = until_ns, .detail = r->options.detail, .max_overhead = r->options.max_overhead };
	struct flight_view *view;
	int error = -ENODATA;

	if (r->flight) {
		facts.since_ns = MAX(r->start_ns, flight_oldest(r->flight) == UINT64_MAX ? 0 : flight_oldest(r->flight));
		if (facts.since_ns < until_ns)
			error = flight_view_new(r->flight, &view);
	}
	if (error < 0) {
		snapshot_fail(s, error, error == -ENODATA ? "nothing was recorded until now" : strerror(-error), on_snapshot_over, r);
		return;
	}
	memcpy(facts.shed, r->shed, sizeof(facts.shed));
	facts.n_shed = r->n_shed;
	facts.n_left_out = r->n_left_out;
	for (unsigned i = 0; r->session && i < session_warnings(r->session); i++)
		snapshot_warn(s, session_warning(r->session, i));
	facts.overhead = r->session ? cost_of_probes(r->session, r->cpu_before_ns) : r->last_overhead;
	snapshot_begin(s, view, &facts, on_snapshot_over, r);
}

static void note_status(struct recorder *r)
{
	struct session_counts counts = {};
	struct recorder_status status = { .attached = r->session, .n_left_out = r->n_left_out, .n_shed = r->n_shed };

	if (r->session) {
		session_count(r->session, &counts);
		status.overhead = cost_of_probes(r->session, r->cpu_before_ns);
		status.n_targets = session_n_captured(r->session);
	}
	status.records = r->records_before + counts.records;
	status.dropped = r->dropped_before + counts.dropped;
	if (r->flight) {
		status.bytes = flight_bytes(r->flight);
		status.oldest_ns = flight_oldest(r->flight) == UINT64_MAX ? 0 : flight_oldest(r->flight);
	}
	for (unsigned i = 0; i < r->n_shed; i++)
		status.shed[i] = r->shed[i].kind;
	pthread_mutex_lock(&r->lock);
	r->status = status;
	pthread_mutex_unlock(&r->lock);
}

/* What is kept stays, until another session begins. */
static void end_session(struct recorder *r)
{
	struct session_counts counts;

	if (!r->session)
		return;
	session_close(r->session, loop_now());
	session_finish(r->session);
	r->last_ns = loop_now();
	r->last_overhead = cost_of_probes(r->session, r->cpu_before_ns);
	session_count(r->session, &counts);
	r->records_before += counts.records;
	r->dropped_before += counts.dropped;
	r->session = session_free(r->session);
	r->counter = live_counter_free(r->counter);
	for (unsigned i = 0; i < r->n_prepared; i++)
		prepared_done(&r->prepared[i], r->options.proxy);
	r->n_prepared = 0;
}

static int open_session(struct recorder *r, char *text, size_t size)
{
	struct session_options options = { .proxy = r->options.proxy, .client = r->options.client, .detail = r->options.detail,
					   .forecast = &r->forecast, .sockets = !r->options.detail.no_sockets };
	int error;

	r->flight = flight_free(r->flight);
	error = flight_new(r->options.bytes, r->options.last_ns, &r->flight);
	if (error < 0)
		return error;
	error = live_counter_new(&r->live, flight_sink(r->flight), &r->counter);
	if (error < 0)
		return error;
	live_begin(&r->live, loop_now());
	options.sink = live_counter_sink(r->counter);
	forecast_get(r->options.proxy, r->options.cache, &r->forecast);
	error = session_new(&options, &r->session, text, size);
	if (error < 0)
		r->counter = live_counter_free(r->counter);
	r->budget = (struct budget){ .max_percent = r->options.max_overhead };
	r->n_shed = 0;
	r->n_left_out = 0;
	pthread_mutex_lock(&r->lock);
	r->n_targets = 0;
	pthread_mutex_unlock(&r->lock);
	return error;
}

static void note_target(struct recorder *r, const struct target *target)
{
	pthread_mutex_lock(&r->lock);
	if (r->n_targets < RECORD_MAX_TARGETS)
		r->targets[r->n_targets++] = (struct recorder_target){ .pid = target->pid, .uid = target->uid };
	pthread_mutex_unlock(&r->lock);
}

/* Attaches to the target; the first one opens the window. */
static int attach(struct recorder *r, const struct target *target, char *text, size_t size)
{
	bool is_first = !r->session;
	struct prepared *p;
	int error = is_first ? open_session(r, text, size) : 0;

	if (error < 0)
		return error;
	p = &r->prepared[r->n_prepared];
	error = prepare_target(r->options.proxy, r->options.plans, target, p, text, size);
	if (error < 0)
		return error;
	r->n_prepared++;
	error = session_add(r->session, p, text, size);
	if (error >= 0)
		error = session_attach(r->session, text, size);
	if (error >= 0 && is_first) {
		error = session_open(r->session, FOREVER_NS, &r->start_ns);
		r->cpu_before_ns = session_cpu_ns(r->session);
	}
	if (error >= 0)
		note_target(r, target);
	return error;
}

/* Places are not used again: when some of them are those of processes that have ended, it begins anew with the others. */
static bool make_room(struct recorder *r)
{
	struct target living[RECORD_MAX_TARGETS];
	unsigned n = 0;

	for (unsigned i = 0; i < r->n_prepared; i++)
		if (kill(r->prepared[i].target.pid, 0) == 0 || errno == EPERM)
			living[n++] = r->prepared[i].target;
	if (n == r->n_prepared)
		return false;
	log_info("the recorder begins anew: %u of its processes have ended, and it has room for %d", r->n_prepared - n, RECORD_MAX_TARGETS);
	end_session(r);
	for (unsigned i = 0; i < n; i++)
		recorder_join(r, &living[i]);
	return true;
}

static void join_next(struct recorder *r)
{
	struct target target = {};
	char text[256] = "";
	int error;

	pthread_mutex_lock(&r->lock);
	if (r->n_joining && loop_now() >= r->again_ns) {
		target = r->joining[0];
		memmove(&r->joining[0], &r->joining[1], --r->n_joining * sizeof(target));
	}
	pthread_mutex_unlock(&r->lock);
	if (!target.pid)
		return;
	if (r->n_prepared == RECORD_MAX_TARGETS && !make_room(r)) {
		r->n_left_out++;
		return;
	}
	target = prepared_what_is_new(r->prepared, r->n_prepared, &target);
	if (!target.n_files)
		return;
	error = attach(r, &target, text, sizeof(text));
	if (error >= 0 || error == -ESRCH) {
		r->has_warned = false;
	} else if (!r->session) {
		/* Nothing to do with the process: there may be too many captures. */
		if (!r->has_warned)
			log_warning("the recorder cannot begin, and tries again: %s", *text ? text : strerror(-error));
		r->has_warned = true;
		r->again_ns = loop_now() + AGAIN_NS;
		recorder_join(r, &target);
	} else {
		log_warning("process %d (%s) is not recorded: %s", target.pid, target.name, *text ? text : strerror(-error));
		r->n_left_out++;
	}
	if (r->session && !session_n_captured(r->session))
		end_session(r);
}

static void keep_budget(struct recorder *r, uint64_t now)
{
	struct capture_shed *shed = &r->shed[r->n_shed];
	unsigned n;

	if (!(r->options.max_overhead > 0))
		return;
	n = cost_keep_budget(r->session, &r->budget, 0, now, shed, KIND_COUNT - r->n_shed);
	r->n_shed += n;
	for (; n > 0; n--, shed++)
		log_warning("the recorder gives up %s: the probes cost %.1f %% of the CPU time, and its budget is %.4g %%", probe_kind_name(shed->kind),
			    shed->overhead, r->options.max_overhead);
}

/* Snapshots wait until what happened before they were asked for is there. */
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
			session_name_threads(r->session);
			r->named_ns = now;
		}
		if (r->session && session_settled_ns(r->session) <= MAX(asked, r->named_ns) && now < asked + SETTLE_MAX_NS)
			return;
		give_snapshot(r, take_snapshot(r), r->session ? asked : MIN(asked, r->last_ns));
	}
}

static bool wait_round(struct recorder *r)
{
	struct timespec until;
	uint64_t at = loop_now() + (r->session ? ROUND_NS : SECOND);
	bool ending;

	until = (struct timespec){ .tv_sec = (time_t)(at / SECOND), .tv_nsec = (long)(at % SECOND) };
	pthread_mutex_lock(&r->lock);
	/* With a session every round is as long, so that records are read together. */
	if (!r->ending && (r->session || ((!r->n_joining || loop_now() < r->again_ns) && !r->waiting)))
		pthread_cond_timedwait(&r->changed, &r->lock, &until);
	ending = r->ending;
	pthread_mutex_unlock(&r->lock);
	return !ending;
}

static void on_ended(void *data)
{
	struct recorder *r = data;

	/* Snapshots use what is its. */
	if (r->n_snapshots) {
		while (loop_post(r->options.loop, on_ended, r) < 0)
			poll(NULL, 0, 100);
		return;
	}
	pthread_join(r->thread, NULL);
	r->options.ended(r, r->options.data);
	flight_free(r->flight);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	live_done(&r->live);
	free(r);
}

static void *recorder_thread(void *data)
{
	struct recorder *r = data;

	while (wait_round(r)) {
		if (r->session) {
			int error = session_drain(r->session);

			if (error < 0)
				log_warning_errno(error, "the recorder begins anew: %m");
			else
				keep_budget(r, loop_now());
			if (error < 0 || session_targets_ended(r->session))
				end_session(r);
		}
		serve_snapshots(r);
		join_next(r);
		note_status(r);
	}
	end_session(r);
	serve_snapshots(r);
	while (loop_post(r->options.loop, on_ended, r) < 0)
		poll(NULL, 0, 100);
	return NULL;
}

int recorder_new(const struct recorder_options *options, struct recorder **ret)
{
	struct recorder *r = calloc(1, sizeof(*r));
	pthread_condattr_t attributes;
	int error;

	if (!r)
		return -ENOMEM;
	r->options = *options;
	snprintf(r->hostname, sizeof(r->hostname), "%s", options->hostname);
	pthread_mutex_init(&r->lock, NULL);
	live_init(&r->live);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&r->changed, &attributes);
	pthread_condattr_destroy(&attributes);
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
	unsigned i;

	pthread_mutex_lock(&r->lock);
	/* One that waits already has only mapped more. */
	for (i = 0; i < r->n_joining && r->joining[i].pid != target->pid; i++)
		;
	if (i < RECORD_MAX_TARGETS) {
		r->joining[i] = *target;
		r->n_joining = MAX(r->n_joining, i + 1);
	}
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

unsigned recorder_get_targets(struct recorder *r, struct recorder_target *ret, unsigned max)
{
	unsigned n;

	pthread_mutex_lock(&r->lock);
	n = MIN(max, r->n_targets);
	memcpy(ret, r->targets, n * sizeof(*ret));
	pthread_mutex_unlock(&r->lock);
	return n;
}

int recorder_snapshot(struct recorder *r, const struct snapshot_request *request)
{
	struct snapshot *s, *last;
	int error;

	if (r->n_snapshots >= SNAPSHOTS_MAX)
		return -EBUSY;
	error = snapshot_new(request, r->options.loop, r->hostname, &s);
	if (error < 0)
		return error;
	r->n_snapshots++;
	pthread_mutex_lock(&r->lock);
	for (last = r->waiting; last && snapshot_next(last); last = snapshot_next(last))
		;
	if (last)
		snapshot_set_next(last, s);
	else
		r->waiting = s;
	if (!r->status.attached)
		pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return 0;
}
