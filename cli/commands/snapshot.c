/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl snapshot: what the daemon's flight recorder has kept of the last moments, as a capture
 * of that time. */
#include <argp.h>
#include <errno.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/options/request_options.h"
#include "cli/output/answer.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (600 * UINT64_C(1000000000))

struct snapshot_options {
	uint64_t last_ns; /* 0: all that there is */
	struct request_options requests;
	struct output_options output;
};

static const struct argp_option options[] = {
	{ "last", 'l', "TIME", 0,
	  "So much of the time until now: 10s, 500ms; all that is kept unless given", 0 },
	{}
};

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct snapshot_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->output;
		state->child_inputs[1] = &o->requests;
		state->child_inputs[2] = &o->requests;
		return 0;
	case 'l':
		if (duration_parse(text, &o->last_ns) < 0)
			argp_error(
				state,
				"'%s' is no time above 0 and up to one hour: write 500ms, 10s or 1m",
				text);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", text);
		return 0;
	case ARGP_KEY_END:
		if (o->requests.count)
			argp_error(
				state,
				"--requests-count is for tfprofctl capture: what is asked for here has been already");
		if (o->output.explain)
			argp_error(
				state,
				"--explain is for tfprofctl capture; tfprofctl status shows what the recorder does");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum outcome ask_daemon(struct session *session, const struct snapshot_options *o,
			       struct answer *answer)
{
	Tfprofd__SnapshotRequest request = TFPROFD__SNAPSHOT_REQUEST__INIT;
	Tfprofd__RequestFilter filter;

	request_options_fill(&o->requests, &filter);
	request.filter = &filter;
	request.last_ns = o->last_ns;
	request.device_plane = o->output.device_plane.on;
	request.input_stages = o->output.input_stages.on;
	request.requests = o->requests.file != NULL;
	request.slowest = o->requests.slowest;
	return answer_ask(answer, session, "/tfprofd.Control/Snapshot", &request.base, ANSWER_NS);
}

enum outcome command_snapshot(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp_child children[] = { { &output_argp, 0, NULL, 0 },
						      { &request_output_argp, 0, NULL, 1 },
						      { &request_filter_argp, 0, NULL, 1 },
						      {} };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Shows what happened just now, out of what the daemon's recorder has kept (tfprofd --recorder), as a capture of that time.\v"
		       "Exit codes: 0 done, 1 internal error or cancelled, 2 usage, 3 not permitted, 4 no recorder runs, 5 nothing was recorded, "
		       "6 not all: records were lost, probes were disabled for the budget or refused by the kernel, or less was kept than was asked for.",
	};
	struct snapshot_options o = { .output.logdir = OUTPUT_DEFAULT_LOGDIR };
	struct answer answer = { .show_progress = isatty(STDERR_FILENO),
				 .output = { .options = &o.output,
					     .request_options = &o.requests } };
	struct session *session = NULL;
	enum outcome outcome;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	outcome = output_prepare(&o.output, &answer.output.run);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (request_reader_open(&answer.output.requests, &o.requests) < 0)
		outcome = OUTCOME_USAGE;
	if (outcome == OUTCOME_OK)
		outcome = session_open_running(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, &o, &answer);
	if (outcome == OUTCOME_OK)
		outcome = output_write(&answer.output, time(NULL), NULL, NULL, NULL);
	output_done(&answer.output);
	run_directory_free(answer.output.run);
	session_free(session);
	return outcome;
}
