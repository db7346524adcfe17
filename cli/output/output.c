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

enum { KEY_DEVICE_PLANE = 512, KEY_INPUT_STAGES }; /* beyond those of other parsers */

static const struct argp_option options[] = {
	{ "logdir", 'o', "LOGDIR", 0,
	  "Directory for TensorBoard, made when it is missing; " OUTPUT_DEFAULT_LOGDIR
	  " unless given",
	  0 },
	{ "device-plane", KEY_DEVICE_PLANE, "on|off", OPTION_ARG_OPTIONAL,
	  "Present the CPU as a device, too, for HLO Op Profile, HLO Op Stats and Roofline Model, which then show operations; Overview and Input "
	  "Pipeline Analysis lose their steps by it. Off unless given; of a recording: as its capture was",
	  0 },
	{ "input-stages", KEY_INPUT_STAGES, "on|off", OPTION_ARG_OPTIONAL,
	  "Show what requests wait for before they run as input stages in Input Pipeline Analysis; Framework Op Stats then counts these among the "
	  "operations. Off unless given; of a recording: as its capture was",
	  0 },
	{ "explain", 'e', NULL, 0,
	  "First show what is attached and what it costs, as tfprofctl plan does", 0 },
	{ "json", 'j', NULL, 0, "Print the summary as one JSON object", 0 },
	{}
};

/* argp_error() does not return. */
static void take_choice(struct output_choice *choice, const char *text, const char *what,
			struct argp_state *state)
{
	choice->on = !text || !strcmp(text, "on");
	choice->said = true;
	if (!choice->on && strcmp(text, "off"))
		argp_error(state, "'%s' is no choice for %s: give on or off", text, what);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct output_options *o = state->input;

	switch (key) {
	case 'o':
		o->logdir = text;
		return 0;
	case 'e':
		o->explain = true;
		return 0;
	case KEY_DEVICE_PLANE:
		take_choice(&o->device_plane, text, "a device plane", state);
		return 0;
	case KEY_INPUT_STAGES:
		take_choice(&o->input_stages, text, "input stages", state);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp output_argp = { .options = options, .parser = parse_option };

static enum outcome explain_logdir(const char *logdir, int error)
{
	if (error == -ENOENT)
		outcome_say(
			"LOGDIR %s cannot be made: the directory it would lie in does not exist",
			logdir);
	else
		outcome_say("LOGDIR %s cannot be written: %s", logdir, strerror(-error));
	return OUTCOME_USAGE;
}

enum outcome output_prepare(const struct output_options *o, struct run_directory **ret)
{
	int r = run_directory_prepare(o->logdir, ret);

	return r < 0 ? explain_logdir(o->logdir, r) : OUTCOME_OK;
}

/* Before the window opens: what is attached, or at the least what it costs. */
static void show_plan(const Tfprofd__PlanReply *plan, const struct output_options *o,
		      const struct selection *selection)
{
	_cleanup_free_ char *forecast = plan_report_forecast(plan);

	/* Nobody waits for a text that there is no memory for. */
	if (o->explain)
		plan_report_print(stderr, plan, selection);
	else if (forecast)
		outcome_say("forecast: %s", forecast);
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

/* Nothing was seen: says so, with what the daemon knows about why. */
static enum outcome explain_nothing(const struct output_options *o, const struct report *report)
{
	const Tfprofd__CaptureResult *result = report->result;
	char window[DURATION_TEXT];

	if (o->json)
		report_print_json(stdout, report);
	else
		for (size_t i = 0; i < result->n_warnings; i++)
			outcome_say("%s", result->warnings[i]);
	outcome_say("nothing was captured in %s, and nothing was written: does the process get %s?",
		    duration_text(result->window_ns, window),
		    result->requests && result->requests->filtered ? "such requests" : "requests");
	return OUTCOME_NOTHING;
}

/* Who waits for requests wants those, and not what else there was. */
static bool is_nothing(const struct request_options *o, const Tfprofd__CaptureResult *result)
{
	if (request_report_has_any(result->requests))
		return false;
	return o->count || (!result->ops && !result->runs && !result->runs_cut);
}

enum outcome output_take_xspace(struct output *output, const void *bytes, size_t size)
{
	int r = run_directory_add(output->run, bytes, size);

	if (r < 0)
		outcome_say("cannot write the capture into %s: %s; nothing was written",
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
		outcome_say("cancelled: nothing was written");
		return OUTCOME_INTERNAL;
	}
	if (output->size != result->xspace_bytes) {
		outcome_say("a part of the trace is missing; nothing was written");
		return OUTCOME_INTERNAL;
	}
	r = run_directory_commit(output->run, time, result->hostname, &path);
	if (r < 0) {
		outcome_say("cannot write the capture into %s: %s", o->logdir, strerror(-r));
		return OUTCOME_INTERNAL;
	}
	if (request_reader_commit(&output->requests, output->request_options) < 0)
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
	return result->dropped || result->cut || result->n_shed ? OUTCOME_LOSS : OUTCOME_OK;
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
