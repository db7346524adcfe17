/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl stop: ends captures early; their clients receive what was captured so far. */
#include <stdio.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (30 * UINT64_C(1000000000))
static enum outcome ask_daemon(struct session *session, const struct selection *selection)
{
	Tfprofd__StopRequest request = TFPROFD__STOP_REQUEST__INIT;
	uint8_t packed[SELECTION_PACKED_MAX];
	_cleanup_free_ uint8_t *message = NULL;
	Tfprofd__StopReply *reply;
	enum outcome outcome;
	size_t size = 0;

	request.n_pids = selection->n_pids;
	request.pids = (uint32_t *)selection->pids;
	outcome = session_call(session, "/tfprofd.Control/Stop", packed,
			       tfprofd__stop_request__pack(&request, packed), ANSWER_NS, &message,
			       &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	reply = tfprofd__stop_reply__unpack(NULL, size, message);
	if (!reply) {
		outcome_report("cannot decode the daemon's reply");
		return OUTCOME_INTERNAL;
	}
	printf("%u capture%s stopped\n", reply->captures, reply->captures == 1 ? "" : "s");
	outcome = reply->captures ? OUTCOME_OK : OUTCOME_NOTHING;
	tfprofd__stop_reply__free_unpacked(reply, NULL);
	return outcome;
}

static enum outcome run(const struct arguments *a)
{
	struct session *session = NULL;
	enum outcome outcome;

	outcome = session_open_running(&a->daemon, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, &a->selection);
	session_free(session);
	return outcome;
}

const struct command command_stop = {
	.name = "stop",
	.summary = "Stop captures early",
	.syntax = { .name = "tfprofctl stop",
		    .accepts = ACCEPT(PID),
		    .pid_help = "Stop only captures of this process; may be repeated",
		    .description =
			    "Stop your running captures, or as root those of every user. Their clients receive what was captured "
			    "so far.",
		    .notes =
			    "Exit codes: 0 captures were stopped; 1 internal error, or no daemon; 2 usage; 5 no capture was running." },
	.run = run,
};
