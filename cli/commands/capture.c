/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl capture: has the daemon capture, and writes what TensorBoard shows into a log
 * directory. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/options/request_options.h"
#include "cli/options/selection.h"
#include "cli/output/answer.h"
#include "cli/output/new_file.h"
#include "cli/output/output.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/percent.h"
#include "proto/control.pb-c.h"

#define DEFAULT_DURATION_NS (2 * UINT64_C(1000000000))
/* Where the window is to end by the count of requests. */
#define DEFAULT_LIMIT_NS (60 * UINT64_C(1000000000))
/* For attaching before the window, and for the answer after it. */
#define GRACE_NS (120 * UINT64_C(1000000000))
/* For the requests, which may be a million. */
#define REQUESTS_GRACE_NS (600 * UINT64_C(1000000000))

struct capture_options {
	struct selection selection;
	struct request_options requests;
	uint64_t duration_ns;
	double max_overhead; /* percent; 0: no limit */
	struct output_options output;
	const char *record; /* path, NULL: no recording */
};

static const struct argp_option options[] = {
	{ "duration", 'd', "TIME", 0, "500ms, 2s, 1m or seconds; 2s unless given", 0 },
	{ "max-overhead", 'm', "PERCENT", 0,
	  "Give up kinds of probes, the dearest first and runs last, when all cost more of the processes' CPU time than this; "
	  "no limit unless given",
	  0 },
	{ "record", 'r', "FILE.tfp", 0,
	  "Keep the raw records, too: tfprofctl replay makes the same output of them again", 0 },
	{}
};

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct capture_options *o = state->input;
	int r;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->selection;
		state->child_inputs[1] = &o->output;
		state->child_inputs[2] = &o->requests;
		state->child_inputs[3] = &o->requests;
		return 0;
	case 'd':
		r = duration_parse(text, &o->duration_ns);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no duration: write 500ms, 2s, 1.5s or 1m", text);
		if (r < 0)
			argp_error(
				state,
				"the duration must be more than 0 and at most one hour, not '%s'",
				text);
		return 0;
	case 'm':
		r = percent_parse(text, &o->max_overhead);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no share: write 1, 0.5 or 20%%", text);
		if (r < 0)
			argp_error(state,
				   "the overhead must be more than 0 and at most 100 %%, not '%s'",
				   text);
		return 0;
	case 'r':
		o->record = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum outcome ask_daemon(struct session *session, const struct capture_options *o,
			       struct answer *answer)
{
	Tfprofd__CaptureRequest request = TFPROFD__CAPTURE_REQUEST__INIT;
	Tfprofd__RequestFilter filter;

	request.n_pids = o->selection.n_pids;
	request.pids = (uint32_t *)o->selection.pids;
	request.duration_ns = o->duration_ns;
	request.level = o->selection.level;
	request.ops_at_entry = o->selection.ops_at_entry;
	request.no_sockets = o->selection.no_sockets;
	request.memory = o->selection.memory;
	request.max_overhead = o->max_overhead;
	request.record = o->record != NULL;
	request.device_plane = o->output.device_plane.on;
	request.input_stages = o->output.input_stages.on;
	request_options_fill(&o->requests, &filter);
	request.filter = &filter;
	request.requests = o->requests.file != NULL;
	request.slowest = o->requests.slowest;
	return answer_ask(answer, session, "/tfprofd.Control/Capture", &request.base,
			  o->duration_ns + (o->requests.file ? REQUESTS_GRACE_NS : GRACE_NS));
}

static enum outcome explain_recording(const char *path, int error)
{
	if (error == -ENOENT)
		outcome_say(
			"the recording %s cannot be made: the directory it would lie in does not exist",
			path);
	else
		outcome_say("the recording %s cannot be written: %s", path, strerror(-error));
	return OUTCOME_USAGE;
}

/* The daemon may have had to do without one. */
static enum outcome commit_recording(void *data)
{
	struct answer *answer = data;
	uint64_t size = answer->output.reply->result->recording_bytes;
	const char *path = answer->recording_path;
	int r;

	if (!size || size != new_file_size(answer->recording)) {
		outcome_say("no recording was written: %s",
			    size ? "a part of it is missing"
				 : "the daemon made none, and its warnings may say why");
		return OUTCOME_LOSS;
	}
	r = new_file_commit(answer->recording);
	if (r < 0) {
		outcome_say("cannot write the recording %s: %s", path, strerror(-r));
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

static enum outcome write_result(struct answer *answer)
{
	struct output_recording recording = { .path = answer->recording_path };

	if (!answer->recording)
		return output_write(&answer->output, time(NULL), NULL, NULL, NULL);
	recording.size = new_file_size(answer->recording);
	return output_write(&answer->output, time(NULL), &recording, commit_recording, answer);
}

static enum outcome capture(const struct capture_options *o, const struct daemon_address *address,
			    struct run_directory *run, struct new_file *recording)
{
	struct answer answer = { .show_progress = isatty(STDERR_FILENO),
				 .recording = recording,
				 .recording_path = o->record,
				 .duration_ns = o->duration_ns,
				 .count = o->requests.count,
				 .output = { .options = &o->output,
					     .selection = &o->selection,
					     .request_options = &o->requests,
					     .run = run } };
	struct session *session = NULL;
	enum outcome outcome;

	if (request_reader_open(&answer.output.requests, &o->requests) < 0)
		return OUTCOME_USAGE;
	outcome = session_open(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, o, &answer);
	if (outcome == OUTCOME_OK)
		outcome = write_result(&answer);
	output_done(&answer.output);
	session_free(session);
	return outcome;
}

enum outcome command_capture(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp_child children[] = { { &selection_argp, 0, NULL, 0 },
						      { &output_argp, 0, NULL, 0 },
						      { &request_output_argp, 0, NULL, 1 },
						      { &request_filter_argp, 0, NULL, 1 },
						      {} };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Captures what serving processes do, for TensorBoard, and prints a summary.\v"
		       "Exit codes: 0 captured, 1 internal error or cancelled, 2 usage, 3 not permitted, 4 no such target, "
		       "5 nothing captured, 6 captured, but not all: records were lost, probes were disabled for the budget or refused by the kernel, or the "
		       "window or a process ended early, 7 this host cannot.",
	};
	struct capture_options o = { .selection.level = SELECTION_DEFAULT_LEVEL,
				     .output.logdir = OUTPUT_DEFAULT_LOGDIR };
	struct new_file *recording = NULL;
	struct run_directory *run = NULL;
	enum outcome outcome;
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	if (!o.duration_ns)
		o.duration_ns = o.requests.count ? DEFAULT_LIMIT_NS : DEFAULT_DURATION_NS;
	outcome = output_prepare(&o.output, &run);
	if (outcome != OUTCOME_OK)
		return outcome;
	r = o.record ? new_file_open(o.record, &recording) : 0;
	if (r < 0)
		outcome = explain_recording(o.record, r);
	else
		outcome = capture(&o, address, run, recording);
	new_file_free(recording);
	run_directory_free(run);
	return outcome;
}
