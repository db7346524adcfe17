/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/output.h"

#include <errno.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/report/plan_report.h"
#include "cli/report/report.h"
#include "cli/report/request_report.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"

static enum outcome explain_logdir(const char *logdir, int error)
{
	if (error == -ENOENT)
		outcome_report("cannot create LOGDIR %s: its parent directory does not exist",
			       logdir);
	else
		outcome_report("cannot write to LOGDIR %s: %s", logdir, strerror(-error));
	return OUTCOME_USAGE;
}

enum outcome output_prepare(const struct output_options *o, struct run_directory **ret)
{
	int r = run_directory_prepare(o->logdir, ret);

	return r < 0 ? explain_logdir(o->logdir, r) : OUTCOME_OK;
}

/* Before the window opens: what is attached, or only the forecast. */
static void show_plan(const Tfprofd__PlanReply *plan, const struct output_options *o,
		      const struct selection *selection)
{
	_cleanup_free_ char *forecast = plan_report_forecast(plan);

	/* Without memory for the text the capture proceeds silently. */
	if (o->explain)
		plan_report_print(stderr, plan, selection);
	else if (forecast)
		outcome_report("forecast: %s", forecast);
}

void output_take_plan(struct output *output, Tfprofd__CaptureReply *reply)
{
	const struct output_options *o = output->options;

	if (!o->json)
		show_plan(reply->plan, o, output->selection);
	if (!o->json || !o->explain || output->planned)
		tfprofd__capture_reply__free_unpacked(reply, NULL);
	else
		output->planned = reply;
}

/* Reports that nothing was captured, with the warnings, which may give the reason. */
static enum outcome explain_nothing(const struct output_options *o, const struct report *report)
{
	const Tfprofd__CaptureResult *result = report->result;
	char window[DURATION_TEXT];

	if (o->json)
		report_print_json(stdout, report);
	else
		for (size_t i = 0; i < result->n_warnings; i++)
			outcome_report("%s", result->warnings[i]);
	outcome_report(
		"nothing was captured in %s, and nothing was written: does the process receive %s?",
		duration_text(result->window_ns, window),
		result->requests && result->requests->filtered ? "such requests" : "requests");
	return OUTCOME_NOTHING;
}

/* With --requests-count, only requests count as a result. */
static bool is_nothing(const struct request_options *o, const Tfprofd__CaptureResult *result)
{
	if (request_report_has_any(result->requests))
		return false;
	return o->count || (!result->ops && !result->runs && !result->runs_cut && !result->n_hot);
}

enum outcome output_take_xspace(struct output *output, const void *bytes, size_t size)
{
	int r = run_directory_add(output->run, bytes, size);

	if (r < 0)
		outcome_report("cannot write the capture to %s: %s; nothing was written",
			       output->options->logdir, strerror(-r));
	output->size += size;
	return r < 0 ? OUTCOME_INTERNAL : OUTCOME_OK;
}

enum outcome output_write(struct output *output, time_t time,
			  const struct output_recording *recording,
			  enum outcome (*commit)(void *data), void *data)
{
	const Tfprofd__CaptureResult *result = output->reply->result;
	const struct output_options *o = output->options;
	struct report report = { .result = result,
				 .plan = output->planned ? output->planned->plan : NULL,
				 .selection = output->selection,
				 .logdir = o->logdir,
				 .requests = &output->requests };
	enum outcome outcome = OUTCOME_OK;
	_cleanup_free_ char *path = NULL;
	int r;

	if (is_nothing(output->request_options, result))
		return explain_nothing(o, &report);
	if (*interrupt_flag()) {
		outcome_report("canceled: nothing was written");
		return OUTCOME_INTERNAL;
	}
	if (output->size != result->xspace_bytes) {
		outcome_report("a part of the trace is missing; nothing was written");
		return OUTCOME_INTERNAL;
	}
	r = run_directory_commit(output->run, time, result->hostname, &path);
	if (r < 0) {
		outcome_report("cannot write the capture to %s: %s", o->logdir, strerror(-r));
		return OUTCOME_INTERNAL;
	}
	if (request_reader_commit(&output->requests, output->request_options) < 0)
		return OUTCOME_INTERNAL;
	if (output->exports && export_files_commit(output->exports, result->exported_bytes,
						   result->n_exported_bytes) < 0)
		return OUTCOME_INTERNAL;
	report.requests_file = output->request_options->file;
	if (commit)
		outcome = commit(data);
	report.path = path;
	if (recording && outcome == OUTCOME_OK) {
		report.recording = recording->path;
		report.recording_bytes = recording->size;
	}
	if (o->json)
		report_print_json(stdout, &report);
	else
		report_print(stdout, &report);
	if (outcome != OUTCOME_OK)
		return outcome;
	return result->dropped || result->cut || result->n_shed || result->op_sampling
		       ? OUTCOME_LOSS
		       : OUTCOME_OK;
}

void output_done(struct output *output)
{
	if (output->planned)
		tfprofd__capture_reply__free_unpacked(output->planned, NULL);
	if (output->reply)
		tfprofd__capture_reply__free_unpacked(output->reply, NULL);
	request_reader_done(&output->requests);
	output->planned = output->reply = NULL;
}
