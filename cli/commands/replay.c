/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl replay: recreates a capture's output from a recording, with the daemon's own code but
 * without a daemon. */
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

/* No recording is larger. */
#define RECORDING_MAX_BYTES (1ull << 30)

struct recording {
	uint8_t *bytes;
	size_t size;
};

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

/* The plan is only displayed: one that cannot be decoded is omitted. */
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

/* The requests, in the messages that the daemon would have sent. */
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

/* The formats beside the trace, in one piece each. */
static int take_exports(struct export_files *exports, const struct capture_result *result)
{
	int r = 0;

	for (unsigned i = 0; i < result->n_others && r >= 0; i++)
		for (size_t k = 0; k < result->others[i].n_chunks && r >= 0; k++)
			r = export_files_add(exports, i + 1, result->others[i].chunks[k].iov_base,
					     result->others[i].chunks[k].iov_len);
	return r;
}

static enum outcome write_output(const struct arguments *a, const struct replay *replay,
				 const struct recording *recording, struct export_files *exports,
				 struct run_directory *run)
{
	const struct selection selection = { .level = replay->facts.detail.level,
					     .ops_at_entry = replay->facts.detail.ops_at_entry };
	const struct output_recording file = { .path = a->operand, .size = recording->size };
	struct output output = { .options = &a->output,
				 .selection = &selection,
				 .request_options = &a->requests,
				 .exports = exports,
				 .run = run };
	enum outcome outcome;
	int r;

	if (request_reader_open(&output.requests, &a->requests) < 0)
		return OUTCOME_USAGE;

	if (a->output.explain)
		take_plan(&output, replay);
	r = take_requests(&output, &replay->result.requests);
	if (r >= 0)
		r = result_reply_new(&replay->result, replay->hostname, &output.reply);
	if (r < 0) {
		outcome_report("out of memory");
		outcome = OUTCOME_INTERNAL;
	} else {
		outcome = take_trace(&output, &replay->result.trace);
	}
	if (outcome == OUTCOME_OK && take_exports(exports, &replay->result) < 0)
		outcome = OUTCOME_INTERNAL;
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
		outcome_report("cannot read %s: not a regular file", path);
		return OUTCOME_USAGE;
	case -EFBIG:
		outcome_report("cannot read %s: too large for a recording", path);
		return OUTCOME_USAGE;
	case -ENOMEM:
		outcome_report("out of memory");
		return OUTCOME_INTERNAL;
	default:
		outcome_report("cannot read %s: %s", path, strerror(-error));
		return OUTCOME_USAGE;
	}
}

static enum outcome replay_file(const struct arguments *a, struct export_files *exports,
				struct run_directory *run)
{
	const struct request_list_options requests = { .all = a->requests.file != NULL,
						       .slowest = a->requests.slowest };
	struct replay_extras extras = {};
	struct recording recording = {};
	enum outcome outcome;
	struct replay replay;
	char text[256] = "";
	int r;

	r = read_file(a->operand, &recording);
	if (r < 0)
		return explain_file(a->operand, r);
	if (a->output.device_plane.is_given)
		extras.device_plane = &a->output.device_plane.on;
	if (a->output.input_stages.is_given)
		extras.input_stages = &a->output.input_stages.on;
	for (unsigned i = 0; i < exports->n; i++)
		extras.others[extras.n_others++] = exports->list[i].format;
	r = replay_make(recording.bytes, recording.size, &requests, &extras, &replay, text,
			sizeof(text));
	if (r >= 0) {
		outcome = write_output(a, &replay, &recording, exports, run);
		replay_done(&replay);
	} else {
		outcome_report("cannot replay %s: %s", a->operand, text);
		outcome = r == -EBADMSG || r == -EPROTONOSUPPORT ? OUTCOME_USAGE : OUTCOME_INTERNAL;
	}
	free(recording.bytes);
	return outcome;
}

static enum outcome run(const struct arguments *a)
{
	struct run_directory *directory = NULL;
	struct export_files exports;
	enum outcome outcome;

	if (export_files_open(&exports, &a->output) < 0)
		return OUTCOME_USAGE;
	outcome = output_prepare(&a->output, &directory);
	if (outcome == OUTCOME_OK)
		outcome = replay_file(a, &exports, directory);
	export_files_done(&exports);
	run_directory_free(directory);
	return outcome;
}

const struct command command_replay = {
	.name = "replay",
	.summary = "Recreate a capture's output from a recording",
	.syntax = { .name = "tfprofctl replay",
		    .accepts = ACCEPT_OUTPUT | ACCEPT(EXPLAIN) | ACCEPT_STACKS,
		    .operand = "FILE.tfp",
		    .no_operand =
			    "no recording: give the file that tfprofctl capture --record wrote",
		    .description =
			    "Recreate a capture's run for TensorBoard and its summary from a recording, which tfprofctl capture "
			    "--record wrote. The run is named after the time of the capture.",
		    .notes =
			    "The exit codes are those of tfprofctl capture; 2 also means that the file is not a recording, is damaged, "
			    "or was written by an incompatible version." },
	.run = run,
};
