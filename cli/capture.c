/* tfprofctl capture: has the daemon capture, and writes what TensorBoard shows into a log directory. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/duration.h"
#include "cli/interrupt.h"
#include "cli/percent.h"
#include "cli/plan_report.h"
#include "cli/report.h"
#include "cli/run_directory.h"
#include "cli/selection.h"
#include "cli/session.h"
#include "cli/text.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define DEFAULT_LOGDIR "tfprofd-logdir"
#define DEFAULT_DURATION_NS (2 * UINT64_C(1000000000))
/* For attaching before the window, and for the answer after it. */
#define GRACE_NS (120 * UINT64_C(1000000000))

struct capture_options {
	struct selection selection;
	uint64_t duration_ns;
	double max_overhead; /* percent; 0: no limit */
	const char *logdir;
	bool explain;
	bool json;
};

struct capture_reader {
	const struct capture_options *options;
	bool show_progress;
	Tfprofd__CaptureReply *planned; /* the one that holds the plan, for a report that is to have it */
	Tfprofd__CaptureReply *reply;	/* the one that holds the result */
};

static const struct argp_option options[] = {
	{ "duration", 'd', "TIME", 0, "500ms, 2s, 1m or seconds; 2s unless given", 0 },
	{ "logdir", 'o', "LOGDIR", 0,
	  "Directory for TensorBoard, made when it is missing; " DEFAULT_LOGDIR " unless given", 0 },
	{ "explain", 'e', NULL, 0, "First show what is attached and what it costs, as tfprofctl plan does", 0 },
	{ "max-overhead", 'm', "PERCENT", 0,
	  "Give up kinds of probes, the dearest first and runs last, when all cost more of the processes' CPU time than this; "
	  "no limit unless given",
	  0 },
	{ "json", 'j', NULL, 0, "Print the summary as one JSON object", 0 },
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
		return 0;
	case 'd':
		r = duration_parse(text, &o->duration_ns);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no duration: write 500ms, 2s, 1.5s or 1m", text);
		if (r < 0)
			argp_error(state, "the duration must be more than 0 and at most one hour, not '%s'", text);
		return 0;
	case 'm':
		r = percent_parse(text, &o->max_overhead);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no share: write 1, 0.5 or 20%%", text);
		if (r < 0)
			argp_error(state, "the overhead must be more than 0 and at most 100 %%, not '%s'", text);
		return 0;
	case 'e':
		o->explain = true;
		return 0;
	case 'o':
		o->logdir = text;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void show_progress(const Tfprofd__CaptureProgress *progress, uint64_t duration_ns)
{
	char elapsed[DURATION_TEXT], total[DURATION_TEXT], records[TEXT_NUMBER], dropped[TEXT_NUMBER];

	fprintf(stderr, "\r\033[K%s of %s, %s events, %s lost%s",
		duration_text(MIN(progress->elapsed_ns, duration_ns), elapsed), duration_text(duration_ns, total),
		text_count(progress->records, records), text_count(progress->dropped, dropped),
		progress->elapsed_ns >= duration_ns ? ", waiting for the result" : "");
}

/* Before the window opens: what is attached, or at the least what it costs. */
static void show_plan(const Tfprofd__PlanReply *plan, const struct capture_options *o)
{
	_cleanup_free_ char *forecast = plan_report_forecast(plan);

	/* Nobody waits for a text that there is no memory for. */
	if (o->explain)
		plan_report_print(stderr, plan, &o->selection);
	else if (forecast)
		outcome_say("forecast: %s", forecast);
}

static void take_plan(struct capture_reader *reader, Tfprofd__CaptureReply *reply)
{
	if (!reader->options->json)
		show_plan(reply->plan, reader->options);
	if (!reader->options->json || !reader->options->explain || reader->planned)
		tfprofd__capture_reply__free_unpacked(reply, NULL);
	else
		reader->planned = reply;
}

static int on_reply(uint8_t *bytes, size_t size, void *data)
{
	struct capture_reader *reader = data;
	Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(NULL, size, bytes);

	free(bytes);
	if (!reply || (reply->result && reader->reply)) {
		if (reply)
			tfprofd__capture_reply__free_unpacked(reply, NULL);
		outcome_say("the daemon's answer cannot be read");
		return -EBADMSG;
	}
	if (reply->result) {
		reader->reply = reply;
		return 0;
	}
	if (reply->plan) {
		take_plan(reader, reply);
		return 0;
	}
	if (reply->progress && reader->show_progress)
		show_progress(reply->progress, reader->options->duration_ns);
	tfprofd__capture_reply__free_unpacked(reply, NULL);
	return 0;
}

static enum outcome ask_daemon(struct session *session, const struct capture_options *o, struct capture_reader *reader)
{
	Tfprofd__CaptureRequest request = TFPROFD__CAPTURE_REQUEST__INIT;
	uint8_t packed[SELECTION_PACKED_MAX + 64];
	enum outcome outcome;

	request.n_pids = o->selection.n_pids;
	request.pids = (uint32_t *)o->selection.pids;
	request.duration_ns = o->duration_ns;
	request.level = o->selection.level;
	request.ops_at_entry = o->selection.ops_at_entry;
	request.max_overhead = o->max_overhead;
	if (tfprofd__capture_request__get_packed_size(&request) > sizeof(packed))
		return OUTCOME_INTERNAL;
	outcome = session_stream(session, "/tfprofd.Control/Capture", packed,
				 tfprofd__capture_request__pack(&request, packed), o->duration_ns + GRACE_NS, on_reply,
				 reader);
	if (reader->show_progress)
		fputs("\r\033[K", stderr);
	if (outcome == OUTCOME_OK && !reader->reply) {
		outcome_say("the daemon sent no result");
		return OUTCOME_INTERNAL;
	}
	return outcome;
}

static enum outcome explain_logdir(const char *logdir, int error)
{
	if (error == -ENOENT)
		outcome_say("LOGDIR %s cannot be made: the directory it would lie in does not exist", logdir);
	else
		outcome_say("LOGDIR %s cannot be written: %s", logdir, strerror(-error));
	return OUTCOME_USAGE;
}

/* Nothing was seen: says so, with what the daemon knows about why. */
static enum outcome explain_nothing(const struct capture_options *o, const struct report *report)
{
	const Tfprofd__CaptureResult *result = report->result;
	char window[DURATION_TEXT];

	if (o->json)
		report_print_json(stdout, report);
	else
		for (size_t i = 0; i < result->n_warnings; i++)
			outcome_say("%s", result->warnings[i]);
	outcome_say("nothing was captured in %s, and nothing was written: does the process get requests?",
		    duration_text(result->window_ns, window));
	return OUTCOME_NOTHING;
}

static enum outcome write_result(const struct capture_reader *reader, struct run_directory *run)
{
	const Tfprofd__CaptureResult *result = reader->reply->result;
	const struct capture_options *o = reader->options;
	struct report report = { .result = result, .plan = reader->planned ? reader->planned->plan : NULL,
				 .selection = &o->selection, .logdir = o->logdir };
	_cleanup_free_ char *path = NULL;
	int r;

	if (!result->ops && !result->runs && !result->runs_cut)
		return explain_nothing(o, &report);
	if (*interrupt_flag()) {
		outcome_say("cancelled: nothing was written");
		return OUTCOME_INTERNAL;
	}
	r = run_directory_write(run, time(NULL), result->hostname, result->xspace.data, result->xspace.len, &path);
	if (r < 0) {
		outcome_say("cannot write the capture into %s: %s", o->logdir, strerror(-r));
		return OUTCOME_INTERNAL;
	}
	report.path = path;
	if (o->json)
		report_print_json(stdout, &report);
	else
		report_print(stdout, &report);
	return result->dropped || result->cut || result->n_shed ? OUTCOME_LOSS : OUTCOME_OK;
}

static enum outcome capture(const struct capture_options *o, const char *address, struct run_directory *run)
{
	struct capture_reader reader = { .options = o, .show_progress = isatty(STDERR_FILENO) };
	struct session *session = NULL;
	enum outcome outcome;

	outcome = session_open(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, o, &reader);
	if (outcome == OUTCOME_OK)
		outcome = write_result(&reader, run);
	if (reader.planned)
		tfprofd__capture_reply__free_unpacked(reader.planned, NULL);
	if (reader.reply)
		tfprofd__capture_reply__free_unpacked(reader.reply, NULL);
	session_free(session);
	return outcome;
}

enum outcome command_capture(int argc, char **argv, const char *address)
{
	static const struct argp_child children[] = { { &selection_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Captures what serving processes do, for TensorBoard, and prints a summary.\v"
		       "Exit codes: 0 captured, 1 internal error or cancelled, 2 usage, 3 not permitted, 4 no such target, "
		       "5 nothing captured, 6 captured, but not all: records were lost, probes were given up for the budget, or the "
		       "window or a process ended early, 7 this host cannot.",
	};
	struct capture_options o = { .duration_ns = DEFAULT_DURATION_NS, .selection.level = SELECTION_DEFAULT_LEVEL,
				     .logdir = DEFAULT_LOGDIR };
	struct run_directory *run;
	enum outcome outcome;
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	r = run_directory_prepare(o.logdir, &run);
	if (r < 0)
		return explain_logdir(o.logdir, r);
	outcome = capture(&o, address, run);
	run_directory_free(run);
	return outcome;
}
