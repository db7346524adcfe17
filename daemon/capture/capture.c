#include "daemon/capture/capture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "daemon/capture/session.h"
#include "daemon/export/export.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* Attaching takes a few hundredths of a second, more on a busy machine. */
#define ATTACH_BEFORE_NS 1000000000ull
/* Records wait in the rings for this long: at 500,000 a second and 48 bytes each, half a megabyte of sixteen. */
#define DRAIN_NS 20000000ull

struct capture_shared {
	struct loop *loop;
	struct proxy *proxy;
	char hostname[256];
	struct plan_cache *plans;
	unsigned n_captures;
};

struct capture {
	struct capture_shared *shared;
	struct capture_request request;
	struct target targets[RECORD_MAX_TARGETS];
	pthread_t thread;
	struct capture_result result;
	unsigned ended; /* a bit for each target that ended before the window did */
	/* Written by one side, read by the other. */
	int cancelled, stopped;
	uint64_t window_start_ns, records, dropped;
};

int capture_shared_new(struct loop *loop, struct proxy *proxy, struct plan_cache *plans, const char *hostname, struct capture_shared **ret)
{
	struct capture_shared *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->proxy = proxy;
	s->plans = plans;
	snprintf(s->hostname, sizeof(s->hostname), "%s", hostname);
	*ret = s;
	return 0;
}

struct capture_shared *capture_shared_free(struct capture_shared *s)
{
	free(s);
	return NULL;
}

unsigned capture_count(const struct capture_shared *s)
{
	return s->n_captures;
}

static void fail(struct capture *c, int error, const char *text)
{
	c->result.error = error;
	snprintf(c->result.text, sizeof(c->result.text), "%s", text && *text ? text : strerror(-error));
}

__attribute__((format(printf, 2, 3))) static void warn(struct capture *c, const char *format, ...)
{
	va_list ap;

	if (c->result.n_warnings == CAPTURE_WARNINGS_MAX)
		return;
	va_start(ap, format);
	if (vasprintf(&c->result.warnings[c->result.n_warnings], format, ap) >= 0)
		c->result.n_warnings++;
	va_end(ap);
}

static uint64_t clock_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Unix time less monotonic time: of several readings the one that was least disturbed. */
static uint64_t unix_offset(void)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < 10; i++) {
		uint64_t before = clock_now(CLOCK_MONOTONIC), unix_now = clock_now(CLOCK_REALTIME), after = clock_now(CLOCK_MONOTONIC);

		if (after - before < best) {
			best = after - before;
			offset = unix_now - (before + (after - before) / 2);
		}
	}
	return offset;
}

static bool wait_until(struct capture *c, uint64_t time)
{
	for (;;) {
		uint64_t now = clock_now(CLOCK_MONOTONIC);
		struct timespec ts;

		if (__atomic_load_n(&c->cancelled, __ATOMIC_RELAXED) || __atomic_load_n(&c->stopped, __ATOMIC_RELAXED))
			return false;
		if (now >= time)
			return true;
		now = MIN(time, now + DRAIN_NS);
		ts = (struct timespec){ .tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	}
}

/* Keeps the window open for its time; returns when it really closed. */
static uint64_t watch_window(struct capture *c, struct session *s, uint64_t start, uint64_t stop, int *ret_error)
{
	struct session_counts counts = {};
	uint64_t now;

	for (;;) {
		*ret_error = session_drain(s);
		session_count(s, &counts);
		__atomic_store_n(&c->records, counts.records, __ATOMIC_RELAXED);
		__atomic_store_n(&c->dropped, counts.dropped, __ATOMIC_RELAXED);
		now = clock_now(CLOCK_MONOTONIC);
		if (now >= stop || *ret_error < 0 || __atomic_load_n(&c->cancelled, __ATOMIC_RELAXED))
			break;
		if (__atomic_load_n(&c->stopped, __ATOMIC_RELAXED)) {
			warn(c, "The window was ended on request after %.3f s.", (double)(now - start) / 1e9);
			c->result.cut = true;
			break;
		}
		if (session_targets_ended(s))
			break;
		wait_until(c, MIN(now + DRAIN_NS, stop));
	}
	stop = MIN(stop, now);
	session_close(s, stop);
	for (unsigned i = 0; i < c->request.n_targets; i++)
		c->ended |= (unsigned)session_target_ended(s, i) << i;
	return stop;
}

static void warn_of_session(struct capture *c, struct session *s, const struct session_counts *counts)
{
	for (unsigned i = 0; i < session_warnings(s); i++)
		warn(c, "%s", session_warning(s, i));
	if (counts->ring_full)
		warn(c, "%llu of %llu records were lost because the rings were full: capture at a lower level, or give the daemon more CPU.",
		     (unsigned long long)counts->ring_full, (unsigned long long)(counts->records + counts->dropped));
	if (counts->unread)
		warn(c, "%llu of %llu records were lost because a CPU did not finish writing them in time.",
		     (unsigned long long)counts->unread, (unsigned long long)(counts->records + counts->dropped));
	if (counts->refused)
		warn(c, "%llu of %llu records were lost because the capture reached its memory limit: use a shorter window or a lower level.",
		     (unsigned long long)counts->refused, (unsigned long long)(counts->records + counts->dropped));
	if (counts->late)
		warn(c, "%llu records came late and may be shown with a wrong end.", (unsigned long long)counts->late);
	if (counts->malformed)
		warn(c, "%llu records could not be understood.", (unsigned long long)counts->malformed);
	if (counts->table_full)
		warn(c, "%llu operations have no name: more different ones ran than the table holds.", (unsigned long long)counts->table_full);
	if (counts->read_failed)
		warn(c, "%llu reads of the target's memory failed; identities or names are missing.", (unsigned long long)counts->read_failed);
}

static int make_result(struct capture *c, struct session *s, uint64_t start, uint64_t stop)
{
	const struct export_options options = { .level = c->request.level, .hostname = c->shared->hostname };
	uint64_t began = clock_now(CLOCK_MONOTONIC), correlated;
	struct session_counts counts = {};
	struct timeline *timeline;
	int r;

	session_count(s, &counts);
	c->result.records = counts.records;
	c->result.dropped = counts.dropped;
	c->result.window_ns = stop - start;
	warn_of_session(c, s, &counts);
	if (c->request.n_left_out)
		warn(c, "%u more processes were left out: a capture takes %d.", c->request.n_left_out, RECORD_MAX_TARGETS);
	r = session_timeline(s, stop, start + unix_offset(), &timeline);
	if (r < 0)
		return r;
	correlated = clock_now(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < c->request.n_targets; i++)
		if (timeline->processes[i].ended || (c->ended & 1u << i)) {
			warn(c, "Process %d (%s) ended, or became another program, within the window.", c->targets[i].pid, c->targets[i].name);
			c->result.cut = true;
		}
	if (timeline->n_spans_left_out) {
		warn(c, "%llu of %llu events were left out because the capture reached its memory limit: use a shorter window or a lower level.",
		     (unsigned long long)timeline->n_spans_left_out, (unsigned long long)(timeline->n_spans + timeline->n_spans_left_out));
		c->result.dropped += timeline->n_spans_left_out;
	}
	if (timeline->n_lost_names)
		warn(c, "%llu operations are shown without their name.", (unsigned long long)timeline->n_lost_names);
	for (unsigned i = 0; i < c->result.n_warnings && r >= 0; i++)
		r = timeline_warn(timeline, "%s", c->result.warnings[i]);
	if (r >= 0)
		r = export_xspace(timeline, &options, &c->result.xspace);
	if (r >= 0)
		r = summary_make(timeline, &c->result.summary);
	/* Without the scheduler's records nobody knows when threads ran. */
	if (c->request.level < 2)
		c->result.summary.running_ns = c->result.summary.runnable_ns = c->result.summary.blocked_ns = 0;
	log_debug("%llu records, %llu spans: last ones drained %llu ms after the window, timeline made in %llu ms, exported in %llu ms",
		  (unsigned long long)counts.records, (unsigned long long)timeline->n_spans, (unsigned long long)((began - stop) / 1000000),
		  (unsigned long long)((correlated - began) / 1000000),
		  (unsigned long long)((clock_now(CLOCK_MONOTONIC) - correlated) / 1000000));
	timeline_free(timeline);
	return r;
}

static int run_window(struct capture *c, struct session *s)
{
	uint64_t start, stop, offset = unix_offset(), begin = 0;
	char text[sizeof(c->result.text)] = "";
	int r;

	/* Probes cost the target something even before the window: they come shortly before it. */
	if (c->request.start_unix_ns > offset)
		begin = c->request.start_unix_ns - offset;
	if (begin > ATTACH_BEFORE_NS && !wait_until(c, begin - ATTACH_BEFORE_NS))
		return -ECANCELED;
	r = session_attach(s, text, sizeof(text));
	if (r < 0) {
		fail(c, r, text);
		return r;
	}
	if (!wait_until(c, begin))
		return -ECANCELED;
	start = clock_now(CLOCK_MONOTONIC);
	stop = start + c->request.duration_ns;
	r = session_open(s, start, stop);
	if (r < 0)
		return r;
	__atomic_store_n(&c->window_start_ns, start, __ATOMIC_RELAXED);
	stop = watch_window(c, s, start, stop, &r);
	if (r < 0)
		return r;
	if (__atomic_load_n(&c->cancelled, __ATOMIC_RELAXED))
		return -ECANCELED;
	r = session_finish(s);
	return r < 0 ? r : make_result(c, s, start, stop);
}

static void on_done(void *data)
{
	struct capture *c = data;

	c->request.done(c, c->request.data);
}

static void on_detached(void *data)
{
	struct capture *c = data;

	pthread_join(c->thread, NULL);
	for (unsigned i = 0; i < c->result.n_warnings; i++)
		free(c->result.warnings[i]);
	xspace_result_done(&c->result.xspace);
	summary_done(&c->result.summary);
	c->shared->n_captures--;
	free(c);
}

static void post(struct capture *c, loop_fn callback)
{
	while (loop_post(c->shared->loop, callback, c) < 0)
		poll(NULL, 0, 100);
}

static void *capture_thread(void *data)
{
	struct capture *c = data;
	struct session *s = NULL;
	char text[sizeof(c->result.text)] = "";
	int r;

	r = session_new(c->shared->proxy, c->shared->plans, c->request.client, c->targets, &c->request.n_targets, c->request.skip_ended,
			c->request.level, &s, text, sizeof(text));
	if (r < 0)
		fail(c, r, text);
	else
		r = run_window(c, s);
	if (r < 0 && !c->result.error)
		fail(c, r, NULL);
	/* The answer first: detaching takes a while, and nobody waits for it. */
	post(c, on_done);
	session_free(s);
	post(c, on_detached);
	return NULL;
}

int capture_start(struct capture_shared *shared, const struct capture_request *request, struct capture **ret)
{
	struct capture *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->shared = shared;
	c->request = *request;
	for (unsigned i = 0; i < request->n_targets; i++)
		c->targets[i] = *request->targets[i];
	r = pthread_create(&c->thread, NULL, capture_thread, c);
	if (r) {
		free(c);
		return -r;
	}
	shared->n_captures++;
	*ret = c;
	return 0;
}

void capture_cancel(struct capture *c)
{
	__atomic_store_n(&c->cancelled, 1, __ATOMIC_RELAXED);
}

void capture_stop(struct capture *c)
{
	__atomic_store_n(&c->stopped, 1, __ATOMIC_RELAXED);
}

void capture_get_progress(struct capture *c, struct capture_progress *ret)
{
	uint64_t start = __atomic_load_n(&c->window_start_ns, __ATOMIC_RELAXED), now = clock_now(CLOCK_MONOTONIC);

	ret->elapsed_ns = start ? MIN(now - start, c->request.duration_ns) : 0;
	ret->records = __atomic_load_n(&c->records, __ATOMIC_RELAXED);
	ret->dropped = __atomic_load_n(&c->dropped, __ATOMIC_RELAXED);
}

struct capture_result *capture_get_result(struct capture *c)
{
	return &c->result;
}
