/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl stop: ends captures early; who waits for them is answered with what there is. */
#include <argp.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/outcome.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (30 * UINT64_C(1000000000))
#define PIDS_MAX 256

struct stop_options {
	uint32_t pids[PIDS_MAX];
	size_t n_pids;
};

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "Only captures of this process; several times for several", 0 }, {}
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct stop_options *o = state->input;
	uint64_t pid;

	switch (key) {
	case 'p':
		if (number_parse(text, 1, INT32_MAX, &pid) < 0)
			argp_error(state, "'%s' is no process id", text);
		if (o->n_pids == PIDS_MAX)
			argp_error(state, "at most %d processes", PIDS_MAX);
		o->pids[o->n_pids++] = (uint32_t)pid;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum outcome ask_daemon(struct session *session, const struct stop_options *o)
{
	Tfprofd__StopRequest request = TFPROFD__STOP_REQUEST__INIT;
	uint8_t packed[PIDS_MAX * 6 + 16];
	_cleanup_free_ uint8_t *message = NULL;
	Tfprofd__StopReply *reply;
	enum outcome outcome;
	size_t size = 0;

	request.n_pids = o->n_pids;
	request.pids = (uint32_t *)o->pids;
	outcome = session_call(session, "/tfprofd.Control/Stop", packed,
			       tfprofd__stop_request__pack(&request, packed), ANSWER_NS, &message,
			       &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	reply = tfprofd__stop_reply__unpack(NULL, size, message);
	if (!reply) {
		outcome_say("the daemon's answer cannot be read");
		return OUTCOME_INTERNAL;
	}
	printf("%u capture%s ended\n", reply->captures, reply->captures == 1 ? " was" : "s were");
	outcome = reply->captures ? OUTCOME_OK : OUTCOME_NOTHING;
	tfprofd__stop_reply__free_unpacked(reply, NULL);
	return outcome;
}

enum outcome command_stop(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Ends running captures of yours, as root everybody's: who waits for them gets what was captured until now.\v"
		       "Exit codes: 0 some were ended, 1 internal error or no daemon, 2 usage, 5 there was none.",
	};
	struct session *session = NULL;
	struct stop_options o = {};
	enum outcome outcome;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	outcome = session_open_running(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, &o);
	session_free(session);
	return outcome;
}
