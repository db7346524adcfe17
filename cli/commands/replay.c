/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl replay: makes of a recording what its capture made. The daemon's own code does it;
 * nothing is asked of a daemon. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/output/output.h"
#include "daemon/capture/replay.h"
#include "daemon/rpc/result_reply.h"
#include "lib/base/macro.h"

/* Beyond what any recording has. */
#define RECORDING_MAX_BYTES (1ull << 30)

struct replay_options {
	struct output_options output;
	struct request_options requests;
	const char *file;
};

struct recording {
	uint8_t *bytes;
	size_t size;
};

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct replay_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->output;
		state->child_inputs[1] = &o->requests;
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			argp_error(state, "unexpected argument '%s': give one recording", text);
		o->file = text;
		return 0;
	case ARGP_KEY_END:
		if (!o->file)
			argp_error(
				state,
				"no recording: give the file that tfprofctl capture --record wrote");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int read_all(int fd, uint8_t *bytes, size_t size)
{
	for (size_t n = 0; n < size;) {
		ssize_t r = read(fd, bytes + n, size - n);

		if (r < 0 && errno == EINTR && !*interrupt_flag())
			continue;
		if (r < 0)
			return -errno;
		if (!r)
			return -EIO;
		n += (size_t)r;
	}
	return 0;
}

static int read_file(const char *path, struct recording *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if ((uint64_t)st.st_size > RECORDING_MAX_BYTES)
		return -EFBIG;
	bytes = malloc(MAX((size_t)st.st_size, (size_t)1));
	if (!bytes)
		return -ENOMEM;
	r = read_all(fd, bytes, (size_t)st.st_size);
	if (r < 0)
		return r;
	*ret = (struct recording){ .bytes = TAKE_PTR(bytes), .size = (size_t)st.st_size };
	return 0;
}

/* The plan is there for people only: one that cannot be read is left out. */
static void take_plan(struct output *output, const struct replay *replay)
{
	Tfprofd__CaptureReply *reply = malloc(sizeof(*reply));

	if (!reply)
		return;
	*reply = (Tfprofd__CaptureReply)TFPROFD__CAPTURE_REPLY__INIT;
	if (replay->plan)
		reply->plan = tfprofd__plan_reply__unpack(NULL, replay->plan_size, replay->plan);
	if (reply->plan)
		output_take_plan(output, reply);
	else
		tfprofd__capture_reply__free_unpacked(reply, NULL);
}

/* The requests, as the daemon would have sent them. */
static int take_requests(struct output *output, const struct request_list *list)
{
	int r = 0;

	for (size_t i = 0; i < list->n_messages && r >= 0; i++) {
		Tfprofd__CaptureReply *reply = tfprofd__capture_reply__unpack(
			NULL, list->messages[i].size, list->messages[i].bytes);

		if (!reply)
			return -ENOMEM;
		r = request_reader_take(&output->requests, reply);
	}
	return r;
}

static enum outcome take_trace(struct output *output, const struct exported *trace)
{
	enum outcome outcome = OUTCOME_OK;

	for (size_t i = 0; i < trace->n_chunks && outcome == OUTCOME_OK; i++)
		outcome = output_take_xspace(output, trace->chunks[i].iov_base,
					     trace->chunks[i].iov_len);
	return outcome;
}

static enum outcome write_output(const struct replay_options *o, const struct replay *replay,
				 const struct recording *recording, struct run_directory *run)
{
	const struct selection selection = { .level = replay->facts.detail.level,
					     .ops_at_entry = replay->facts.detail.ops_at_entry };
	const struct output_recording file = { .path = o->file, .size = recording->size };
	struct output output = { .options = &o->output,
				 .selection = &selection,
				 .request_options = &o->requests,
				 .run = run };
	enum outcome outcome;
	int r;

	if (request_reader_open(&output.requests, &o->requests) < 0)
		return OUTCOME_USAGE;

	if (o->output.explain)
		take_plan(&output, replay);
	r = take_requests(&output, &replay->result.requests);
	if (r >= 0)
		r = result_reply_new(&replay->result, replay->hostname, &output.reply);
	if (r < 0) {
		outcome_say("out of memory");
		outcome = OUTCOME_INTERNAL;
	} else {
		outcome = take_trace(&output, &replay->result.trace);
	}
	if (outcome == OUTCOME_OK)
		outcome = output_write(&output, (time_t)(replay->facts.start_unix_ns / 1000000000),
				       &file, NULL, NULL);
	output_done(&output);
	return outcome;
}

static enum outcome explain_file(const char *path, int error)
{
	switch (error) {
	case -EINVAL:
		outcome_say("cannot read %s: it is no file", path);
		return OUTCOME_USAGE;
	case -EFBIG:
		outcome_say("cannot read %s: no recording is that large", path);
		return OUTCOME_USAGE;
	case -ENOMEM:
		outcome_say("out of memory");
		return OUTCOME_INTERNAL;
	default:
		outcome_say("cannot read %s: %s", path, strerror(-error));
		return OUTCOME_USAGE;
	}
}

static enum outcome replay_file(const struct replay_options *o, struct run_directory *run)
{
	const struct request_list_options requests = { .all = o->requests.file != NULL,
						       .slowest = o->requests.slowest };
	struct replay_extras extras = {};
	struct recording recording = {};
	enum outcome outcome;
	struct replay replay;
	char text[256] = "";
	int r;

	r = read_file(o->file, &recording);
	if (r < 0)
		return explain_file(o->file, r);
	if (o->output.device_plane.said)
		extras.device_plane = &o->output.device_plane.on;
	if (o->output.input_stages.said)
		extras.input_stages = &o->output.input_stages.on;
	r = replay_make(recording.bytes, recording.size, &requests, &extras, &replay, text,
			sizeof(text));
	if (r >= 0) {
		outcome = write_output(o, &replay, &recording, run);
		replay_done(&replay);
	} else {
		outcome_say("cannot replay %s: %s", o->file, text);
		outcome = r == -EBADMSG || r == -EPROTONOSUPPORT ? OUTCOME_USAGE : OUTCOME_INTERNAL;
	}
	free(recording.bytes);
	return outcome;
}

enum outcome command_replay(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp_child children[] = { { &output_argp, 0, NULL, 0 },
						      { &request_output_argp, 0, NULL, 1 },
						      {} };
	static const struct argp argp = {
		.parser = parse_option,
		.children = children,
		.args_doc = "FILE.tfp",
		.doc = "Makes of a recording, which tfprofctl capture --record wrote, the run for TensorBoard and the summary that its capture made. "
		       "The run is named after the time of the capture.\v"
		       "Exit codes: as those of tfprofctl capture; 2 also for a file that is no recording, is damaged, or is of another version.",
	};
	struct replay_options o = { .output.logdir = OUTPUT_DEFAULT_LOGDIR };
	struct run_directory *run = NULL;
	enum outcome outcome;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	outcome = output_prepare(&o.output, &run);
	if (outcome == OUTCOME_OK)
		outcome = replay_file(&o, run);
	run_directory_free(run);
	return outcome;
}
