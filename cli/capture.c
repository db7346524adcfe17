/* tfprofctl capture: has the daemon capture, and writes what TensorBoard shows into a log directory. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/duration.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/run_directory.h"
#include "cli/session.h"
#include "cli/text.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define PIDS_MAX 256
/* As PID_MAX_LIMIT of a 64-bit kernel. */
#define PID_MAX 4194304
#define DEFAULT_LOGDIR "tfprofd-logdir"
#define DEFAULT_DURATION_NS (2 * UINT64_C(1000000000))
#define DEFAULT_LEVEL 2
#define LEVEL_MAX 3
/* For attaching before the window, and for the answer after it. */
#define GRACE_NS (120 * UINT64_C(1000000000))

struct capture_options {
	uint32_t pids[PIDS_MAX];
	size_t n_pids;
	uint64_t duration_ns;
	uint32_t level;
	const char *logdir;
	bool json;
};

struct capture_reader {
	uint64_t duration_ns;
	bool show_progress;
	Tfprofd__CaptureReply *reply; /* the one that holds the result */
};

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "Capture this process; may be given several times. Without it: all that you may profile",
	  0 },
	{ "duration", 'd', "TIME", 0, "500ms, 2s, 1m or seconds; 2s unless given", 0 },
	{ "level", 'l', "1|2|3", 0, "1: runs, 2: and operations (the default), 3: and cheap operations, scheduler switches",
	  0 },
	{ "logdir", 'o', "LOGDIR", 0,
	  "Directory for TensorBoard, made when it is missing; " DEFAULT_LOGDIR " unless given", 0 },
	{ "json", 'j', NULL, 0, "Print the summary as one JSON object", 0 },
	{}
};

/* A decimal number of first … last; false for any other text. */
static bool parse_number(const char *text, unsigned long first, unsigned long last, uint32_t *ret)
{
	unsigned long number;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (*end || errno || number < first || number > last)
		return false;
	*ret = (uint32_t)number;
	return true;
}

static void add_pid(struct argp_state *state, struct capture_options *o, const char *text)
{
	uint32_t pid;

	if (!parse_number(text, 1, PID_MAX, &pid))
		argp_error(state, "'%s' is no process id", text);
	for (size_t i = 0; i < o->n_pids; i++)
		if (o->pids[i] == pid)
			return;
	if (o->n_pids >= PIDS_MAX)
		argp_error(state, "at most %d processes can be named", PIDS_MAX);
	o->pids[o->n_pids++] = pid;
}

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct capture_options *o = state->input;
	int r;

	switch (key) {
	case 'p':
		add_pid(state, o, text);
		return 0;
	case 'd':
		r = duration_parse(text, &o->duration_ns);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no duration: write 500ms, 2s, 1.5s or 1m", text);
		if (r < 0)
			argp_error(state, "the duration must be more than 0 and at most one hour, not '%s'", text);
		return 0;
	case 'l':
		if (!parse_number(text, 1, LEVEL_MAX, &o->level))
			argp_error(state, "'%s' is no level: give 1, 2 or 3", text);
		return 0;
	case 'o':
		o->logdir = text;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': processes are named by --pid", text);
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
	if (reply->progress && reader->show_progress)
		show_progress(reply->progress, reader->duration_ns);
	tfprofd__capture_reply__free_unpacked(reply, NULL);
	return 0;
}

static enum outcome ask_daemon(struct session *session, const struct capture_options *o, struct capture_reader *reader)
{
	Tfprofd__CaptureRequest request = TFPROFD__CAPTURE_REQUEST__INIT;
	uint8_t packed[PIDS_MAX * 5 + 64];
	enum outcome outcome;

	request.n_pids = o->n_pids;
	request.pids = (uint32_t *)o->pids;
	request.duration_ns = o->duration_ns;
	request.level = o->level;
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

static enum outcome write_result(const struct capture_options *o, struct run_directory *run,
				 const Tfprofd__CaptureResult *result)
{
	_cleanup_free_ char *path = NULL;
	struct report report = { .result = result, .logdir = o->logdir };
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
	return result->dropped || result->cut ? OUTCOME_LOSS : OUTCOME_OK;
}

static enum outcome capture(const struct capture_options *o, const char *address, struct run_directory *run)
{
	struct capture_reader reader = { .duration_ns = o->duration_ns, .show_progress = isatty(STDERR_FILENO) };
	struct session *session = NULL;
	enum outcome outcome;

	outcome = session_open(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, o, &reader);
	if (outcome == OUTCOME_OK)
		outcome = write_result(o, run, reader.reply->result);
	if (reader.reply)
		tfprofd__capture_reply__free_unpacked(reader.reply, NULL);
	session_free(session);
	return outcome;
}

enum outcome command_capture(int argc, char **argv, const char *address)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Captures what serving processes do, for TensorBoard, and prints a summary.\v"
		       "Exit codes: 0 captured, 1 internal error or cancelled, 2 usage, 3 not permitted, 4 no such target, "
		       "5 nothing captured, 6 captured with loss, 7 this host cannot.",
	};
	struct capture_options o = { .duration_ns = DEFAULT_DURATION_NS, .level = DEFAULT_LEVEL,
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
