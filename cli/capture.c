/* tfprofctl capture: has the daemon capture, and writes what TensorBoard shows into a log directory. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/new_file.h"
#include "cli/output.h"
#include "cli/request_options.h"
#include "cli/selection.h"
#include "cli/session.h"
#include "cli/text.h"
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

struct capture_reader {
	const struct capture_options *options;
	bool show_progress;
	struct output output;
	struct new_file *recording; /* NULL: none was asked for */
};

static const struct argp_option options[] = {
	{ "duration", 'd', "TIME", 0, "500ms, 2s, 1m or seconds; 2s unless given", 0 },
	{ "max-overhead", 'm', "PERCENT", 0,
	  "Give up kinds of probes, the dearest first and runs last, when all cost more of the processes' CPU time than this; "
	  "no limit unless given",
	  0 },
	{ "record", 'r', "FILE.tfp", 0, "Keep the raw records, too: tfprofctl replay makes the same output of them again", 0 },
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
			argp_error(state, "the duration must be more than 0 and at most one hour, not '%s'", text);
		return 0;
	case 'm':
		r = percent_parse(text, &o->max_overhead);
		if (r == -EINVAL)
			argp_error(state, "'%s' is no share: write 1, 0.5 or 20%%", text);
		if (r < 0)
			argp_error(state, "the overhead must be more than 0 and at most 100 %%, not '%s'", text);
		return 0;
	case 'r':
		o->record = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void show_progress(const Tfprofd__CaptureProgress *progress, uint64_t duration_ns, uint64_t count)
{
	char elapsed[DURATION_TEXT], total[DURATION_TEXT], records[TEXT_NUMBER], dropped[TEXT_NUMBER];

	fprintf(stderr, "\r\033[K%s of %s, ", duration_text(MIN(progress->elapsed_ns, duration_ns), elapsed),
		duration_text(duration_ns, total));
	if (count)
		fprintf(stderr, "%llu of %llu requests, ", (unsigned long long)progress->requests, (unsigned long long)count);
	fprintf(stderr, "%s events, %s lost%s", text_count(progress->records, records), text_count(progress->dropped, dropped),
		progress->elapsed_ns >= duration_ns ? ", waiting for the result" : "");
}

static int on_recording(struct capture_reader *reader, const ProtobufCBinaryData *piece)
{
	int r = reader->recording ? new_file_write(reader->recording, piece->data, piece->len) : -EBADMSG;

	if (r < 0)
		outcome_say("cannot write the recording %s: %s; nothing was written", reader->options->record, strerror(-r));
	return r;
}

static int on_reply(uint8_t *bytes, size_t size, void *data)
{
	struct capture_reader *reader = data;
	Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(NULL, size, bytes);
	int r = 0;

	free(bytes);
	if (!reply || (reply->result && reader->output.reply)) {
		if (reply)
			tfprofd__capture_reply__free_unpacked(reply, NULL);
		outcome_say("the daemon's answer cannot be read");
		return -EBADMSG;
	}
	if (reply->result) {
		reader->output.reply = reply;
		return 0;
	}
	if (reply->plan) {
		output_take_plan(&reader->output, reply);
		return 0;
	}
	if (reply->n_requests || reply->n_slowest)
		return request_reader_take(&reader->output.requests, reply);
	if (reply->recording.len)
		r = on_recording(reader, &reply->recording);
	if (reply->progress && reader->show_progress)
		show_progress(reply->progress, reader->options->duration_ns, reader->options->requests.count);
	tfprofd__capture_reply__free_unpacked(reply, NULL);
	return r;
}

static enum outcome ask_daemon(struct session *session, const struct capture_options *o, struct capture_reader *reader)
{
	Tfprofd__CaptureRequest request = TFPROFD__CAPTURE_REQUEST__INIT;
	_cleanup_free_ uint8_t *packed = NULL;
	Tfprofd__RequestFilter filter;
	enum outcome outcome;

	request.n_pids = o->selection.n_pids;
	request.pids = (uint32_t *)o->selection.pids;
	request.duration_ns = o->duration_ns;
	request.level = o->selection.level;
	request.ops_at_entry = o->selection.ops_at_entry;
	request.no_sockets = o->selection.no_sockets;
	request.max_overhead = o->max_overhead;
	request.record = o->record != NULL;
	request_options_fill(&o->requests, &request, &filter);
	packed = malloc(tfprofd__capture_request__get_packed_size(&request) + 1);
	if (!packed) {
		outcome_say("out of memory");
		return OUTCOME_INTERNAL;
	}
	outcome = session_stream(session, "/tfprofd.Control/Capture", packed, tfprofd__capture_request__pack(&request, packed),
				 o->duration_ns + (o->requests.file ? REQUESTS_GRACE_NS : GRACE_NS), on_reply, reader);
	if (reader->show_progress)
		fputs("\r\033[K", stderr);
	if (outcome == OUTCOME_OK && !reader->output.reply) {
		outcome_say("the daemon sent no result");
		return OUTCOME_INTERNAL;
	}
	return outcome;
}

static enum outcome explain_recording(const char *path, int error)
{
	if (error == -ENOENT)
		outcome_say("the recording %s cannot be made: the directory it would lie in does not exist", path);
	else
		outcome_say("the recording %s cannot be written: %s", path, strerror(-error));
	return OUTCOME_USAGE;
}

/* The daemon may have had to do without one. */
static enum outcome commit_recording(void *data)
{
	struct capture_reader *reader = data;
	uint64_t size = reader->output.reply->result->recording_bytes;
	const char *path = reader->options->record;
	int r;

	if (!size || size != new_file_size(reader->recording)) {
		outcome_say("no recording was written: %s", size ? "a part of it is missing" : "the daemon made none, and its warnings may say why");
		return OUTCOME_LOSS;
	}
	r = new_file_commit(reader->recording);
	if (r < 0) {
		outcome_say("cannot write the recording %s: %s", path, strerror(-r));
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

static enum outcome write_result(struct capture_reader *reader, struct run_directory *run)
{
	struct output_recording recording = { .path = reader->options->record };

	if (!reader->recording)
		return output_write(&reader->output, run, time(NULL), NULL, NULL, NULL);
	recording.size = new_file_size(reader->recording);
	return output_write(&reader->output, run, time(NULL), &recording, commit_recording, reader);
}

static enum outcome capture(const struct capture_options *o, const struct daemon_address *address, struct run_directory *run, struct new_file *recording)
{
	struct capture_reader reader = { .options = o, .show_progress = isatty(STDERR_FILENO), .recording = recording,
					 .output = { .options = &o->output, .selection = &o->selection,
						     .request_options = &o->requests } };
	struct session *session = NULL;
	enum outcome outcome;

	if (request_reader_open(&reader.output.requests, &o->requests) < 0)
		return OUTCOME_USAGE;
	outcome = session_open(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, o, &reader);
	if (outcome == OUTCOME_OK)
		outcome = write_result(&reader, run);
	output_done(&reader.output);
	session_free(session);
	return outcome;
}

enum outcome command_capture(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp_child children[] = { { &selection_argp, 0, NULL, 0 }, { &output_argp, 0, NULL, 0 },
						      { &request_output_argp, 0, NULL, 1 }, { &request_filter_argp, 0, NULL, 1 }, {} };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Captures what serving processes do, for TensorBoard, and prints a summary.\v"
		       "Exit codes: 0 captured, 1 internal error or cancelled, 2 usage, 3 not permitted, 4 no such target, "
		       "5 nothing captured, 6 captured, but not all: records were lost, probes were given up for the budget, or the "
		       "window or a process ended early, 7 this host cannot.",
	};
	struct capture_options o = { .selection.level = SELECTION_DEFAULT_LEVEL, .output.logdir = OUTPUT_DEFAULT_LOGDIR };
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
