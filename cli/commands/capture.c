/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl capture: requests a capture and writes it to a log directory of TensorBoard. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/output/answer.h"
#include "cli/output/new_file.h"
#include "cli/output/output.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/percent.h"
#include "proto/control.pb-c.h"

#define DEFAULT_DURATION_NS (2 * UINT64_C(1000000000))
/* With --requests-count, which is expected to end the window earlier. */
#define DEFAULT_LIMIT_NS (60 * UINT64_C(1000000000))
/* For attaching before the window, and for the reply after it. */
#define GRACE_NS (120 * UINT64_C(1000000000))
/* For up to a million requests. */
#define REQUESTS_GRACE_NS (600 * UINT64_C(1000000000))

static enum outcome ask_daemon(struct session *session, const struct arguments *a,
			       struct answer *answer)
{
	const struct selection *selection = &a->selection;
	Tfprofd__CaptureRequest request = TFPROFD__CAPTURE_REQUEST__INIT;
	char *exports[EXPORT_COUNT];
	Tfprofd__RequestFilter filter;

	for (unsigned i = 0; i < answer->output.exports->n; i++)
		exports[i] = (char *)answer->output.exports->list[i].format;
	request.exports = exports;
	request.n_exports = answer->output.exports->n;
	request.stacks_hz = selection->stacks_hz;
	/* They would be empty. */
	if (!request.stacks_hz && request.n_exports)
		request.stacks_hz = STACKS_HZ_DEFAULT;
	request.n_pids = selection->n_pids;
	request.pids = (uint32_t *)selection->pids;
	request.duration_ns = answer->duration_ns;
	request.level = selection->level;
	request.ops_at_entry = selection->ops_at_entry;
	request.no_sockets = selection->no_sockets;
	request.memory = selection->memory;
	request.max_overhead = a->max_overhead;
	request.record = a->record != NULL;
	request.device_plane = a->output.device_plane.on;
	request.input_stages = a->output.input_stages.on;
	request_filter_fill(&a->requests, &filter);
	request.filter = &filter;
	request.requests = a->requests.file != NULL;
	request.slowest = a->requests.slowest;
	return answer_ask(answer, session, "/tfprofd.Control/Capture", &request.base,
			  answer->duration_ns + (a->requests.file ? REQUESTS_GRACE_NS : GRACE_NS));
}

static enum outcome explain_recording(const char *path, int error)
{
	if (error == -ENOENT)
		outcome_report("cannot write the recording %s: its parent directory does not exist",
			       path);
	else
		outcome_report("cannot write the recording %s: %s", path, strerror(-error));
	return OUTCOME_USAGE;
}

/* The daemon captures without a recording when it has no memory for one. */
static enum outcome commit_recording(void *data)
{
	struct answer *answer = data;
	uint64_t size = answer->output.reply->result->recording_bytes;
	const char *path = answer->recording_path;
	int r;

	if (!size || size != new_file_size(answer->recording)) {
		outcome_report("no recording was written: %s",
			       size ? "a part of it is missing" : "see the warnings");
		return OUTCOME_LOSS;
	}
	r = new_file_commit(answer->recording);
	if (r < 0) {
		outcome_report("cannot write the recording %s: %s", path, strerror(-r));
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

static enum outcome capture(const struct arguments *a, struct run_directory *directory,
			    struct new_file *recording)
{
	uint64_t longest_ns = a->requests.count ? DEFAULT_LIMIT_NS : DEFAULT_DURATION_NS;
	struct answer answer = { .show_progress = isatty(STDERR_FILENO),
				 .recording = recording,
				 .recording_path = a->record,
				 .duration_ns = a->duration_ns ?: longest_ns,
				 .count = a->requests.count,
				 .output = { .options = &a->output,
					     .selection = &a->selection,
					     .request_options = &a->requests,
					     .run = directory } };
	struct session *session = NULL;
	struct export_files exports;
	enum outcome outcome;

	if (export_files_open(&exports, &a->output) < 0)
		return OUTCOME_USAGE;
	if (request_reader_open(&answer.output.requests, &a->requests) < 0) {
		export_files_done(&exports);
		return OUTCOME_USAGE;
	}
	answer.output.exports = &exports;
	outcome = session_open(&a->daemon, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, a, &answer);
	if (outcome == OUTCOME_OK)
		outcome = write_result(&answer);
	output_done(&answer.output);
	export_files_done(&exports);
	session_free(session);
	return outcome;
}

static enum outcome run(const struct arguments *a)
{
	struct run_directory *directory = NULL;
	struct new_file *recording = NULL;
	enum outcome outcome;
	int r;

	outcome = output_prepare(&a->output, &directory);
	if (outcome != OUTCOME_OK)
		return outcome;
	r = a->record ? new_file_open(a->record, &recording) : 0;
	if (r < 0)
		outcome = explain_recording(a->record, r);
	else
		outcome = capture(a, directory, recording);
	new_file_free(recording);
	run_directory_free(directory);
	return outcome;
}

const struct command command_capture = {
	.name = "capture",
	.summary = "Capture processes, write a run for TensorBoard and print a summary",
	.syntax = { .name = "tfprofctl capture",
		    .accepts = ACCEPT_SELECTION | ACCEPT_OUTPUT | ACCEPT_FILTER | ACCEPT(DURATION) |
			       ACCEPT(MAX_OVERHEAD) | ACCEPT(RECORD) | ACCEPT(EXPLAIN) |
			       ACCEPT(REQUESTS_COUNT) | ACCEPT(STACKS) | ACCEPT_STACKS,
		    .description =
			    "Capture what serving processes do, write it as a run for TensorBoard and print a summary.",
		    .notes =
			    "Exit codes: 0 captured; 1 internal error, or canceled; 2 usage; 3 not permitted; 4 no such target; "
			    "5 nothing captured; 6 captured in part: records were lost, probes were disabled to keep the budget "
			    "or refused by the kernel, or the window or a process ended early; 7 not possible on this host." },
	.run = run,
};
