/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl snapshot: the last moments in the daemon's flight recorder, as a capture of that
 * time. */
#include <errno.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/output/answer.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (600 * UINT64_C(1000000000))

static enum outcome ask_daemon(struct session *session, const struct arguments *a,
			       struct answer *answer)
{
	Tfprofd__SnapshotRequest request = TFPROFD__SNAPSHOT_REQUEST__INIT;
	Tfprofd__RequestFilter filter;

	request_filter_fill(&a->requests, &filter);
	request.filter = &filter;
	request.last_ns = a->last_ns;
	request.device_plane = a->output.device_plane.on;
	request.input_stages = a->output.input_stages.on;
	request.requests = a->requests.file != NULL;
	request.slowest = a->requests.slowest;
	return answer_ask(answer, session, "/tfprofd.Control/Snapshot", &request.base, ANSWER_NS);
}

static enum outcome run(const struct arguments *a)
{
	struct answer answer = { .show_progress = isatty(STDERR_FILENO),
				 .output = { .options = &a->output,
					     .request_options = &a->requests } };
	struct session *session = NULL;
	enum outcome outcome;

	outcome = output_prepare(&a->output, &answer.output.run);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (request_reader_open(&answer.output.requests, &a->requests) < 0)
		outcome = OUTCOME_USAGE;
	if (outcome == OUTCOME_OK)
		outcome = session_open_running(&a->daemon, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, a, &answer);
	if (outcome == OUTCOME_OK)
		outcome = output_write(&answer.output, time(NULL), NULL, NULL, NULL);
	output_done(&answer.output);
	run_directory_free(answer.output.run);
	session_free(session);
	return outcome;
}

const struct command command_snapshot = {
	.name = "snapshot",
	.summary = "Write the contents of the daemon's recorder as a capture of the past",
	.syntax = { .name = "tfprofctl snapshot",
		    .accepts = ACCEPT_OUTPUT | ACCEPT_FILTER | ACCEPT(LAST),
		    .description =
			    "Write the last moments in the daemon's recorder (tfprofd --recorder) as a capture of that "
			    "time.",
		    .notes =
			    "Exit codes: 0 done; 1 internal error, or canceled; 2 usage; 3 not permitted; 4 no recorder is running; 5 nothing "
			    "was recorded; 6 recorded in part: records were lost, probes were disabled to keep the budget or "
			    "refused by the kernel, or the recorder holds less than --last." },
	.run = run,
};
