/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/broker/limits.h"
#include "daemon/capture/budget/budget.h"
#include "daemon/capture/budget/cost.h"
#include "daemon/capture/hlo.h"
#include "daemon/capture/result.h"
#include "daemon/capture/sites.h"
#include "daemon/capture/symbols.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

/* Attaching takes a few hundredths of a second, more on a busy machine. */
#define ATTACH_BEFORE_NS 1000000000ull
/* A window that begins later than requested by more than this is reported. */
#define LATE_NS 100000000ull
/* Records wait in the rings for this long: at 500,000 a second of 48 bytes each, this uses half a
 * megabyte of sixteen. */
#define DRAIN_NS 20000000ull

void capture_fail(struct capture *c, int error, const char *text)
{
	c->result.error = error;
	if (!text || !*text)
		text = error == -EPIPE ? "the daemon's broker ended, and the capture with it; "
					 "another one has been started: try again"
				       : strerror(-error);
	snprintf(c->result.text, sizeof(c->result.text), "%s%s", text,
		 error == -EMFILE ? "; " FILES_REMEDY : "");
}

static bool wait_until(struct capture *c, uint64_t time)
{
	for (;;) {
		uint64_t now = loop_now();
		struct timespec ts;

		if (__atomic_load_n(&c->cancelled, __ATOMIC_RELAXED) ||
		    __atomic_load_n(&c->stopped, __ATOMIC_RELAXED))
			return false;
		if (now >= time)
			return true;
		now = MIN(time, now + DRAIN_NS);
		ts = (struct timespec){ .tv_sec = (time_t)(now / 1000000000),
					.tv_nsec = (long)(now % 1000000000) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	}
}

/* Sheds what exceeds the budget. */
static void keep_budget(struct capture *c, struct session *s, struct budget *budget, uint64_t start,
			uint64_t now)
{
	struct capture_shed *shed = &c->result.shed[c->result.n_shed];
	unsigned n = cost_keep_budget(s, budget, start, now, shed, KIND_COUNT - c->result.n_shed);

	c->result.n_shed += n;
	for (; n > 0; n--, shed++)
		result_restate(
			&c->result,
			"%.3f s after the window began, %s were disabled: the probes cost %.1f %% of the CPU time; the budget is %.4g %%.",
			(double)shed->at_ns / 1e9, probe_kind_name(shed->kind), shed->overhead,
			c->request.max_overhead);
}

static int join(struct capture *c, struct session *s, const struct target *target, char *text,
		size_t size)
{
	struct prepared *p = &c->prepared[c->n_prepared];
	int r = c->n_prepared < RECORD_MAX_TARGETS ? 0 : -E2BIG;

	if (r >= 0)
		r = prepare_target(c->shared->proxy, target, p, text, size);
	if (r < 0)
		return r;
	p->is_child = capture_request_has_parent(&c->request, target);
	c->n_prepared++;
	r = session_add(s, p, text, size);
	/* It ended meanwhile: another process may take its slot. */
	if (r == -ESRCH)
		prepared_done(&c->prepared[--c->n_prepared], c->shared->proxy);
	return r < 0 ? r : session_attach(s, text, size);
}

/* Adds one of the processes that wait to join: planning takes time, and records wait meanwhile. */
static void admit_next(struct capture *c, struct session *s, uint64_t start, uint64_t now)
{
	char text[sizeof(c->result.text)] = "";
	struct target joining = {};
	int r;

	pthread_mutex_lock(&c->lock);
	if (c->n_joining) {
		joining = c->joining[0];
		memmove(&c->joining[0], &c->joining[1], --c->n_joining * sizeof(joining));
	}
	c->request.n_left_out += c->n_refused;
	c->n_refused = 0;
	pthread_mutex_unlock(&c->lock);
	if (joining.pid)
		joining = prepared_new_part(c->prepared, c->n_prepared, &joining);
	if (!joining.n_files)
		return;
	r = join(c, s, &joining, text, sizeof(text));
	if (r >= 0)
		result_warn(&c->result, "Process %d (%s) joined %.3f s after the window began.",
			    joining.pid, joining.name, (double)(now - start) / 1e9);
	else if (r == -E2BIG)
		c->request.n_left_out++;
	else if (r != -ESRCH)
		result_warn(&c->result,
			    "Process %d (%s) started within the window and is not shown: %s.",
			    joining.pid, joining.name, *text ? text : strerror(-r));
}

/* Whether as many requests have finished as were requested. */
static bool enough_requests(const struct capture *c)
{
	return c->request.filter.count && c->finished >= c->request.filter.count;
}

/* Live figures about requests are available by process. */
static void note_targets(struct capture *c, struct session *s)
{
	for (unsigned i = 0; i < session_n_targets(s); i++)
		live_set_target(&c->live, i, session_target_pid(s, i));
}

static unsigned sampled_kinds(const struct capture *c)
{
	return cost_sampled_kinds(c->request.max_overhead, &c->result.plan.forecast);
}

/* Keeps the window open for its time; returns when it actually closed. */
static uint64_t watch_window(struct capture *c, struct session *s, uint64_t start, uint64_t stop,
			     uint64_t cpu_before, int *ret_error)
{
	struct budget budget = { .max_percent = c->request.max_overhead,
				 .may_sample = sampled_kinds(c) };
	struct drain_counts counts = {};
	uint64_t now;

	c->result.n_shed = cost_add_refused(s, &budget, 0, c->result.shed, 0);
	for (;;) {
		*ret_error = session_drain(s);
		session_count(s, &counts);
		__atomic_store_n(&c->records, counts.records, __ATOMIC_RELAXED);
		__atomic_store_n(&c->dropped, counts.dropped, __ATOMIC_RELAXED);
		__atomic_store_n(&c->finished, correlation_n_finished(c->correlation),
				 __ATOMIC_RELAXED);
		now = loop_now();
		clock_steps_look(&c->clock, now, clock_unix_offset());
		if (now >= stop || *ret_error < 0 ||
		    __atomic_load_n(&c->cancelled, __ATOMIC_RELAXED))
			break;
		if (__atomic_load_n(&c->stopped, __ATOMIC_RELAXED)) {
			result_warn(&c->result, "The window was closed on request after %.3f s.",
				    (double)(now - start) / 1e9);
			c->result.cut = true;
			break;
		}
		if (c->request.max_overhead > 0)
			keep_budget(c, s, &budget, start, now);
		admit_next(c, s, start, now);
		c->result.n_shed =
			cost_add_refused(s, &budget, now - start, c->result.shed, c->result.n_shed);
		note_targets(c, s);
		__atomic_store_n(&c->overhead_ppm, (uint64_t)(cost_of_probes(s, cpu_before) * 1e4),
				 __ATOMIC_RELAXED);
		if (session_targets_ended(s) || enough_requests(c))
			break;
		wait_until(c, MIN(now + DRAIN_NS, stop));
	}
	stop = MIN(stop, now);
	session_close(s, stop);
	for (unsigned i = 0; i < session_n_targets(s); i++)
		c->ended |= (unsigned)session_target_ended(s, i) << i;
	return stop;
}

static const char *explain_recording(int error)
{
	return error == -ENOBUFS
		       ? "recordings would exceed their memory limit: use a shorter window or a lower level"
		       : strerror(-error);
}

/* The capture continues without a recording that failed. */
static void end_recording(struct capture *c, const struct result_facts *facts)
{
	int r = recording_end(c->result.recording, facts, &c->result);

	if (r >= 0)
		return;
	result_warn(&c->result, "The recording was abandoned: %s.", explain_recording(r));
	c->result.recording = journal_free(c->result.recording);
}

/* Of the captured processes; another file of one is not another process. */
static void note_startups(struct capture *c)
{
	for (unsigned i = 0; i < c->n_prepared && c->shared->startup; i++) {
		const struct target *target = &c->prepared[i].target;
		struct startup_track found, *track;
		bool known = false;

		for (unsigned k = 0; k < i; k++)
			known |= c->prepared[k].target.program == target->program;
		if (known || !c->shared->startup(target, &found, c->shared->startup_data))
			continue;
		track = startups_add(&c->result.startups, (uint32_t)target->pid);
		if (!track)
			return;
		found.pid = track->pid;
		*track = found;
		recording_add_startup(c->result.recording, track);
	}
}

static int make_result(struct capture *c, struct session *s, uint64_t start, uint64_t stop)
{
	struct result_facts facts = { .start_ns = start,
				      .stop_ns = stop,
				      .start_unix_ns =
					      start + clock_steps_offset_at(&c->clock, start),
				      .detail = c->request.detail,
				      .hostname = c->shared->hostname,
				      .n_left_out = c->request.n_left_out,
				      .ended = c->ended,
				      .requests = c->request.requests,
				      .extras = c->request.extras };
	const struct session_warnings *warnings = session_warnings(s);
	uint64_t began = loop_now(), correlated, named;
	struct timeline *timeline;
	int r;

	session_count(s, &facts.counts);
	for (unsigned i = 0; i < warnings->n; i++)
		(warnings->restating >> i & 1 ? result_restate : result_warn)(&c->result, "%s",
									      warnings->texts[i]);
	/* One that was noticed when the window had just closed was within it. */
	result_warn_of_steps(&c->result, &c->clock, start, UINT64_MAX);
	note_startups(c);
	end_recording(c, &facts);
	r = correlation_finish(c->correlation, stop, facts.start_unix_ns, &timeline);
	if (r < 0)
		return r;
	correlated = loop_now();
	r = symbols_find(c->shared->proxy, timeline, c->result.recording);
	if (r < 0) {
		timeline_free(timeline);
		return r;
	}
	named = loop_now();
	r = result_make(timeline, &facts, &c->result);
	log_debug(
		"%llu records, %llu spans: the last ones drained %llu ms after the window, timeline made in %llu ms, functions named in %llu ms, exported in %llu ms",
		(unsigned long long)facts.counts.records, (unsigned long long)timeline->n_spans,
		(unsigned long long)((began - stop) / 1000000),
		(unsigned long long)((correlated - began) / 1000000),
		(unsigned long long)((named - correlated) / 1000000),
		(unsigned long long)((loop_now() - named) / 1000000));
	timeline_free(timeline);
	if (r == -EFBIG)
		capture_fail(
			c, r,
			"the trace would exceed 2 GiB, which no client accepts: use a shorter window, a lower level, or a filter of requests");
	return r;
}

static int run_window(struct capture *c, struct session *s)
{
	uint64_t start, attached, cpu, stop, offset = clock_unix_offset(), begin = 0;
	char text[sizeof(c->result.text)] = "";
	struct hlo_files files;
	int r, error;

	clock_steps_look(&c->clock, loop_now(), offset);
	/* Probes cost the target something even before the window: they are attached shortly before
	 * it. */
	if (c->request.start_unix_ns > offset)
		begin = c->request.start_unix_ns - offset;
	if (begin > ATTACH_BEFORE_NS && !wait_until(c, begin - ATTACH_BEFORE_NS))
		return -ECANCELED;
	if (__atomic_load_n(&c->cancelled, __ATOMIC_RELAXED))
		return -ECANCELED;
	attached = loop_now();
	r = session_attach(s, text, sizeof(text));
	if (r < 0) {
		capture_fail(c, r, text);
		return r;
	}
	log_debug("attached in %.1f ms", (double)(loop_now() - attached) / 1e6);
	if (!wait_until(c, begin))
		return -ECANCELED;
	r = session_open(s, c->request.duration_ns, &start);
	if (r < 0)
		return r;
	/* A step while the window was awaited is not one within it. */
	clock_steps_look(&c->clock, start, clock_unix_offset());
	if (begin && start > begin + LATE_NS)
		result_warn(&c->result, "The window began %.3f s later than requested.",
			    (double)(start - begin) / 1e9);
	cpu = session_cpu_ns(s);
	__atomic_store_n(&c->window_start_ns, start, __ATOMIC_RELAXED);
	live_begin(&c->live, start);
	note_targets(c, s);
	stop = watch_window(c, s, start, start + c->request.duration_ns, cpu, &r);
	if (r < 0)
		return r;
	if (__atomic_load_n(&c->cancelled, __ATOMIC_RELAXED))
		return -ECANCELED;
	c->result.overhead = cost_of_probes(s, cpu);
	log_debug("a window of %.1f ms, in which the processes used %.1f ms of CPU time",
		  (double)(stop - start) / 1e6, (double)(session_cpu_ns(s) - cpu) / 1e6);
	/* The broker serves requests about a capture until it is finished. */
	hlo_open(s, &files, &c->result);
	r = session_finish(s);
	error = hlo_read(&files, c->result.recording, &c->result);
	if (r < 0 || error < 0)
		return MIN(r, error);
	__atomic_store_n(&c->finished, correlation_n_finished(c->correlation), __ATOMIC_RELAXED);
	if (c->request.filter.count && !enough_requests(c))
		result_warn(
			&c->result,
			"The window ended after %.3f s with %llu of the %llu requests that were asked for.",
			(double)(stop - start) / 1e9, (unsigned long long)c->finished,
			(unsigned long long)c->request.filter.count);
	return make_result(c, s, start, stop);
}

void capture_post(struct capture *c, loop_fn callback)
{
	loop_post_surely(c->shared->loop, callback, c);
}

static void on_planned(void *data)
{
	struct capture *c = data;

	c->request.planned(c, &c->result.plan, c->request.data);
}

/* A process that cannot be captured, and was not asked for, does not prevent the capture of the
 * others. */
static bool may_be_left_out(const struct capture *c, bool is_child, int error, unsigned n_targets)
{
	return error < 0 && error != -ENOMEM && n_targets > 1 &&
	       (c->request.skip_ended || is_child);
}

static void warn_left_out(struct capture *c, const struct target *target, int error, char *text)
{
	if (error == -ESRCH)
		result_warn(&c->result, "Process %d (%s) ended before the capture began.",
			    target->pid, target->name);
	else
		result_warn(&c->result, "Process %d (%s) is left out: %s.", target->pid,
			    target->name, *text ? text : strerror(-error));
	*text = 0;
}

/* Finds out what is to be attached; a target that has ended may be left out. */
static int prepare(struct capture *c, char *text, size_t size)
{
	int r = 0;

	for (unsigned i = 0; i < c->request.n_targets && r >= 0; i++) {
		r = prepare_target(c->shared->proxy, &c->targets[i], &c->prepared[c->n_prepared],
				   text, size);
		if (may_be_left_out(c, i >= c->request.n_asked, r,
				    c->n_prepared + c->request.n_targets - i)) {
			warn_left_out(c, &c->targets[i], r, text);
			r = 0;
		} else {
			c->prepared[c->n_prepared].is_child = i >= c->request.n_asked;
			c->n_prepared += r >= 0;
		}
	}
	if (r < 0)
		return r;
	forecast_get(c->shared->proxy, c->shared->cache, &c->result.plan.forecast);
	c->result.plan.targets = c->prepared;
	c->result.plan.n_targets = c->n_prepared;
	c->result.plan.detail = c->request.detail;
	c->result.plan.left_out = sites_left_out(&c->result.plan);
	if (c->request.planned)
		capture_post(c, on_planned);
	return 0;
}

static void begin_recording(struct capture *c)
{
	int r = c->request.record ? journal_new(&c->shared->recordings, &c->result.recording) : 0;

	if (r < 0)
		result_warn(&c->result, "There is no recording: %s.", explain_recording(r));
}

static void on_finished(const struct finished_request *request, void *data)
{
	struct capture *c = data;

	live_add(&c->live, request->process, request->end_ns - request->start_ns);
}

int capture_run(struct capture *c, struct session **ret, char *text, size_t size)
{
	struct session_options options = { .proxy = c->shared->proxy,
					   .client = c->request.client,
					   .detail = c->request.detail,
					   .forecast = &c->result.plan.forecast };
	uint64_t begun = loop_now(), prepared, loaded;
	int r;

	if (*c->request.limits)
		result_warn(&c->result, "%s", c->request.limits);
	r = prepare(c, text, size);
	if (r < 0 || c->request.plan_only)
		return r;
	prepared = loop_now();
	options.sampled_kinds = sampled_kinds(c);
	options.kinds = detail_program_kinds(&c->request.detail);
	if (!capture_plan_follows_sockets(&c->result.plan))
		options.kinds &= ~(1u << KIND_SOCKETS | 1u << KIND_DECRYPTED);
	begin_recording(c);
	if (c->result.recording)
		sinks_add(&options.sinks,
			  recording_init(&c->recording, c->result.recording, &c->request.filter));
	r = correlation_new(&c->request.filter, on_finished, c, &c->correlation);
	if (r < 0)
		return r;
	sinks_add(&options.sinks, correlation_sink(c->correlation));
	r = session_new(&options, ret, text, size);
	loaded = loop_now();
	for (unsigned i = 0; i < c->n_prepared && r >= 0; i++) {
		r = session_add(*ret, &c->prepared[i], text, size);
		if (may_be_left_out(c, c->prepared[i].is_child, r,
				    session_n_captured(*ret) + c->n_prepared - i)) {
			warn_left_out(c, &c->prepared[i].target, r, text);
			r = 0;
		}
	}
	log_debug(
		"%u processes: planned in %.1f ms, programs loaded in %.1f ms, sites registered in %.1f ms",
		c->n_prepared, (double)(prepared - begun) / 1e6, (double)(loaded - prepared) / 1e6,
		(double)(loop_now() - loaded) / 1e6);
	return r < 0 ? r : run_window(c, *ret);
}
