/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl plan: what a capture would attach, and what that would cost. Nothing is attached. */
#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/options/selection.h"
#include "cli/report/json.h"
#include "cli/report/plan_report.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

/* A library of a gigabyte that was never seen before is read once. */
#define ANSWER_NS (120 * UINT64_C(1000000000))

struct plan_options {
	struct selection selection;
	bool json;
};

static const struct argp_option options[] = { { "json", 'j', NULL, 0, "Print one JSON object", 0 },
					      {} };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct plan_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->selection;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum outcome ask_daemon(struct session *session, const struct selection *selection,
			       Tfprofd__PlanReply **ret)
{
	Tfprofd__PlanRequest request = TFPROFD__PLAN_REQUEST__INIT;
	uint8_t packed[SELECTION_PACKED_MAX];
	_cleanup_free_ uint8_t *message = NULL;
	enum outcome outcome;
	size_t size = 0;

	request.n_pids = selection->n_pids;
	request.pids = (uint32_t *)selection->pids;
	request.level = selection->level;
	request.ops_at_entry = selection->ops_at_entry;
	request.no_sockets = selection->no_sockets;
	request.memory = selection->memory;
	if (tfprofd__plan_request__get_packed_size(&request) > sizeof(packed))
		return OUTCOME_INTERNAL;
	outcome = session_call(session, "/tfprofd.Control/Plan", packed,
			       tfprofd__plan_request__pack(&request, packed), ANSWER_NS, &message,
			       &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	*ret = tfprofd__plan_reply__unpack(NULL, size, message);
	if (!*ret) {
		outcome_say("the daemon's answer cannot be read");
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

static enum outcome show(const Tfprofd__PlanReply *plan, const struct plan_options *o)
{
	struct json json = { .file = stdout };

	if (o->json) {
		plan_report_json(&json, NULL, plan, &o->selection);
	} else if (plan_report_print(stdout, plan, &o->selection) < 0) {
		outcome_say("out of memory");
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

enum outcome command_plan(int argc, char **argv, const struct daemon_address *address)
{
	static const struct argp_child children[] = { { &selection_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Shows what a capture would attach to processes, and what that would cost. Nothing is attached.\v"
		       "The fields of the JSON object are described in docs/plan.md. Exit codes as for capture.",
	};
	struct plan_options o = { .selection.level = SELECTION_DEFAULT_LEVEL };
	Tfprofd__PlanReply *plan = NULL;
	struct session *session = NULL;
	enum outcome outcome;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return OUTCOME_USAGE;
	outcome = session_open(address, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, &o.selection, &plan);
	if (outcome == OUTCOME_OK)
		outcome = show(plan, &o);
	if (plan)
		tfprofd__plan_reply__free_unpacked(plan, NULL);
	session_free(session);
	return outcome;
}
