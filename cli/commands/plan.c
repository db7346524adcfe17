/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl plan: what a capture would attach, and what that would cost. Nothing is attached. */
#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/plan_report.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

/* Enough to read a library of a gigabyte that is not cached yet. */
#define ANSWER_NS (120 * UINT64_C(1000000000))

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
		outcome_report("cannot decode the daemon's reply");
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

static enum outcome show(const Tfprofd__PlanReply *plan, const struct arguments *a)
{
	struct json json = { .file = stdout };

	if (a->output.json) {
		plan_report_json(&json, NULL, plan, &a->selection);
	} else if (plan_report_print(stdout, plan, &a->selection) < 0) {
		outcome_report("out of memory");
		return OUTCOME_INTERNAL;
	}
	return OUTCOME_OK;
}

static enum outcome run(const struct arguments *a)
{
	Tfprofd__PlanReply *plan = NULL;
	struct session *session = NULL;
	enum outcome outcome;

	outcome = session_open(&a->daemon, &session);
	if (outcome == OUTCOME_OK)
		outcome = ask_daemon(session, &a->selection, &plan);
	if (outcome == OUTCOME_OK)
		outcome = show(plan, a);
	if (plan)
		tfprofd__plan_reply__free_unpacked(plan, NULL);
	session_free(session);
	return outcome;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "Show what a capture would attach and what it would cost",
	.syntax = { .name = "tfprofctl plan",
		    .accepts = ACCEPT_SELECTION | ACCEPT(JSON),
		    .description =
			    "Show what a capture would attach to processes and what it would cost. Nothing is attached.",
		    .notes =
			    "docs/plan.md describes the fields of the JSON object. The exit codes are those of tfprofctl capture." },
	.run = run,
};
