/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/result.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/record/journal.h"
#include "lib/base/macro.h"

static void add_warning(struct capture_result *result, bool restates, const char *format,
			va_list ap)
{
	if (result->n_warnings == CAPTURE_WARNINGS_MAX ||
	    vasprintf(&result->warnings[result->n_warnings], format, ap) < 0)
		return;
	if (restates)
		result->restating |= 1ull << result->n_warnings;
	result->n_warnings++;
}

void result_warn(struct capture_result *result, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_warning(result, false, format, ap);
	va_end(ap);
}

void result_restate(struct capture_result *result, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_warning(result, true, format, ap);
	va_end(ap);
}

void result_warn_of_steps(struct capture_result *result, const struct clock_steps *steps,
			  uint64_t start, uint64_t stop)
{
	for (unsigned i = 0; i < steps->n; i++) {
		const struct clock_step *step = &steps->list[i];
		double by = (double)step->by_ns / 1e9;

		if (step->at_ns > start && step->at_ns <= stop)
			result_warn(
				result,
				"%.3f s after the window began, the system clock was set %s by %.3f s: all times here are by the clock as it was when the window began.",
				(double)(step->at_ns - start) / 1e9, by < 0 ? "back" : "forward",
				by < 0 ? -by : by);
	}
}

static void warn_of_counts(struct capture_result *result, const struct drain_counts *counts)
{
	unsigned long long all = counts->records + counts->dropped;

	if (counts->ring_full)
		result_warn(
			result,
			"%llu of %llu records were lost because the rings were full: capture at a lower level, or give the daemon more CPU.",
			(unsigned long long)counts->ring_full, all);
	if (counts->unread)
		result_warn(
			result,
			"%llu of %llu records were lost because a CPU did not finish writing them in time.",
			(unsigned long long)counts->unread, all);
	if (counts->refused)
		result_warn(
			result,
			"%llu of %llu records were lost because the capture reached its memory limit: use a shorter window or a lower level.",
			(unsigned long long)counts->refused, all);
	if (counts->skipped)
		result_warn(
			result,
			"Up to %llu records are missing because the kernel skipped BPF programs: another thread, or an interrupt, was in the same one on that CPU.",
			(unsigned long long)counts->skipped);
	if (counts->late)
		result_warn(
			result,
			"%llu records arrived late; the ends of what they describe may be wrong.",
			(unsigned long long)counts->late);
	if (counts->malformed)
		result_warn(result, "%llu records are malformed and were ignored.",
			    (unsigned long long)counts->malformed);
	if (counts->table_full)
		result_warn(
			result,
			"%llu operations have no name: there were more different ones than the table holds.",
			(unsigned long long)counts->table_full);
	if (counts->flows_full)
		result_warn(
			result,
			"Some requests are missing, or end too early: there were more connections, or threads in calls, than the tables hold.");
	if (counts->read_failed)
		result_warn(
			result,
			"%llu reads of the target's memory failed; identities or names are missing.",
			(unsigned long long)counts->read_failed);
}

static void warn_of_sampling(struct capture_result *result)
{
	struct op_sampling *sampling = &result->summary.sampling;

	/* They were disabled for good, which is reported already. */
	for (unsigned i = 0; i < result->n_shed; i++)
		if (result->shed[i].kind == KIND_OPS)
			*sampling = (struct op_sampling){};
	if (sampling->is_part)
		result_restate(
			result,
			"Operations were sampled, to keep the budget of %.4g %%: %u slices, %.3f s of %.3f s. The trace, and TensorBoard's tables of operations, have only these: what tfprofctl prints of operations is an estimate for the whole window. All operations of %llu requests are known; %llu requests are longer than a slice.",
			result->max_overhead, sampling->n_slices, (double)sampling->seen_ns / 1e9,
			(double)result->window_ns / 1e9,
			(unsigned long long)sampling->n_requests_within,
			(unsigned long long)sampling->n_requests_longer);
}

static void warn_of_timeline(struct capture_result *result, const struct result_facts *facts,
			     const struct timeline *timeline)
{
	for (unsigned i = 0; i < timeline->n_processes; i++)
		if (timeline->processes[i].ended || (facts->ended & 1u << i)) {
			result_warn(
				result,
				"Process %u (%s) ended, or executed another program, within the window.",
				timeline->processes[i].pid, timeline->processes[i].name);
			result->cut |= !timeline->processes[i].is_child;
		}
	if (timeline->ops_at_entry)
		result_restate(
			result,
			"Operations end where the next one on their thread starts, or their executor returns: their times include the time in between.");
	if (timeline->n_spans_left_out)
		result_warn(
			result,
			"%llu of %llu events were left out because the capture reached its memory limit: use a shorter window or a lower level.",
			(unsigned long long)timeline->n_spans_left_out,
			(unsigned long long)(timeline->n_spans + timeline->n_spans_left_out));
	if (timeline->n_memory && result->dropped)
		result_warn(
			result,
			"Sums and curves of allocations are inexact: some allocations may not have been recorded.");
	if (timeline->n_memory_left_out)
		result_warn(
			result,
			"%llu of %llu allocations and deallocations were left out because the capture reached its memory limit: use a shorter window.",
			(unsigned long long)timeline->n_memory_left_out,
			(unsigned long long)(timeline->n_memory + timeline->n_memory_left_out));
	if (timeline->stacks.n_left_out)
		result_warn(
			result,
			"%llu of %llu sampled stacks were left out because the capture reached its memory limit: use a shorter window, or sample less often.",
			(unsigned long long)timeline->stacks.n_left_out,
			(unsigned long long)(timeline->stacks.n_samples +
					     timeline->stacks.n_left_out));
	if (timeline->n_paths_truncated)
		result_warn(
			result,
			"%llu requests have too many parts to be listed completely: the time at their beginning is unexplained.",
			(unsigned long long)timeline->n_paths_truncated);
	if (timeline->n_lost_names)
		result_warn(result, "%llu operations are shown without their names.",
			    (unsigned long long)timeline->n_lost_names);
}

static int make_others(const struct timeline *timeline, const struct export_options *options,
		       struct capture_result *result)
{
	int r = 0;

	for (unsigned i = 0; i < options->extras.n_others && r >= 0; i++) {
		r = options->extras.others[i]->make(timeline, options, &result->others[i]);
		result->n_others += r >= 0;
	}
	return r;
}

/* Whether it was recorded all the time what threads worked for. */
static bool threads_are_known(const struct capture_result *result, const struct timeline *timeline)
{
	for (uint32_t i = 0; i < timeline->n_gaps; i++)
		if (timeline->gaps[i].of == GAP_OF_EXECUTORS)
			return false;
	return !result->n_shed;
}

int result_make(struct timeline *timeline, const struct result_facts *facts,
		struct capture_result *result)
{
	struct export_options options = { .level = facts->detail.level,
					  .hostname = facts->hostname,
					  .advice = &result->advice,
					  .modules = &result->modules,
					  .startups = &result->startups,
					  .extras = facts->extras };
	const struct exporter *exporter = facts->extras.exporter ?: exporters[0];
	unsigned n_result, n_timeline;
	const char *warning;
	int r = 0;

	timeline->stacks.hz = facts->detail.stacks_hz;
	result->window_ns = facts->stop_ns - facts->start_ns;
	result->records = facts->counts.records;
	result->dropped = facts->counts.dropped + timeline->n_spans_left_out +
			  timeline->n_memory_left_out + timeline->stacks.n_left_out;
	result->ops_at_entry = timeline->ops_at_entry;
	warn_of_counts(result, &facts->counts);
	if (facts->n_left_out)
		result_warn(result, "%u more processes were left out: a capture is limited to %d.",
			    facts->n_left_out, RECORD_MAX_TARGETS);
	warn_of_timeline(result, facts, timeline);
	r = summary_make(timeline, &result->summary);
	if (r < 0)
		return r;
	warn_of_sampling(result);
	r = request_list_make(timeline, &facts->requests, &result->requests);
	if (r >= 0 && result->requests.n_left_out)
		result_warn(
			result,
			"The list of requests is full and lacks %llu requests: use a shorter window, or show fewer of them.",
			(unsigned long long)result->requests.n_left_out);
	/* Each of the two has warnings that the other lacks. */
	n_result = result->n_warnings;
	n_timeline = timeline->n_warnings;
	for (unsigned i = 0; i < n_result && r >= 0; i++)
		r = timeline_warn(timeline, "%s", result->warnings[i]);
	for (unsigned i = 0; i < n_timeline && r >= 0; i++)
		result_warn(result, "%s", timeline->warnings[i]);
	if (exporter->warning && (warning = exporter->warning(timeline, &options)))
		result_warn(result, "%s", warning);
	/* If threads, or requests, were not seen for a part of the window, shares of the time are
	 * meaningless. */
	if (threads_are_known(result, timeline) && !timeline->n_spans_left_out)
		advice_make(timeline, &result->advice);
	if (r >= 0)
		r = exporter->make(timeline, &options, &result->trace);
	if (r >= 0)
		r = make_others(timeline, &options, result);
	/* Without scheduler records, or without knowing which threads work, it is unknown when
	 * threads ran for what. */
	if (facts->detail.level < 2 || !threads_are_known(result, timeline))
		result->summary.running_ns = result->summary.runnable_ns =
			result->summary.throttled_ns = result->summary.blocked_ns = 0;
	return r;
}

void result_done(struct capture_result *result)
{
	for (unsigned i = 0; i < result->n_warnings; i++)
		free(result->warnings[i]);
	result->n_warnings = 0;
	result->restating = 0;
	modules_done(&result->modules);
	startups_done(&result->startups);
	exported_done(&result->trace);
	for (unsigned i = 0; i < result->n_others; i++)
		exported_done(&result->others[i]);
	result->n_others = 0;
	summary_done(&result->summary);
	request_list_done(&result->requests);
	result->recording = journal_free(result->recording);
}
