/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl targets: the processes that can be captured, and the address of each for TensorBoard.
 */
#include <stdbool.h>
#include <stdio.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (30 * UINT64_C(1000000000))

static void print_json(const Tfprofd__ListTargetsResponse *response)
{
	struct json json = { .file = stdout };

	json_object_begin(&json, NULL);
	json_array_begin(&json, "targets");
	for (size_t i = 0; i < response->n_targets; i++) {
		const Tfprofd__Target *target = response->targets[i];

		json_object_begin(&json, NULL);
		json_number(&json, "pid", target->pid);
		json_number(&json, "uid", target->uid);
		json_string(&json, "name", target->name);
		json_string(&json, "runtime", target->runtime);
		json_string(&json, "version", target->version);
		json_string(&json, "knowledge", *target->knowledge ? target->knowledge : NULL);
		json_string(&json, "address", *target->address ? target->address : NULL);
		json_string(&json, "file", target->file);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
}

static int print_table(const Tfprofd__ListTargetsResponse *response)
{
	static const struct text_column columns[] = { { "pid", true },      { "uid", true },
						      { "name", false },    { "runtime", false },
						      { "version", false }, { "knowledge", false },
						      { "address", false }, { "file", false } };
	struct numbers {
		char pid[12], uid[12];
	};
	_cleanup_free_ const char **cells =
		calloc(response->n_targets + 1, ARRAY_SIZE(columns) * sizeof(cells[0]));
	_cleanup_free_ struct numbers *numbers =
		calloc(response->n_targets + 1, sizeof(numbers[0]));

	if (!cells || !numbers)
		return -1;
	for (size_t i = 0; i < response->n_targets; i++) {
		const Tfprofd__Target *target = response->targets[i];
		const char **row = &cells[i * ARRAY_SIZE(columns)];

		snprintf(numbers[i].pid, sizeof(numbers[i].pid), "%u", target->pid);
		snprintf(numbers[i].uid, sizeof(numbers[i].uid), "%u", target->uid);
		row[0] = numbers[i].pid;
		row[1] = numbers[i].uid;
		row[2] = target->name;
		row[3] = target->runtime;
		row[4] = *target->version ? target->version : "-";
		row[5] = *target->knowledge ? target->knowledge : "not planned";
		row[6] = *target->address ? target->address : "-";
		row[7] = target->file;
	}
	text_table(stdout, columns, ARRAY_SIZE(columns), cells, response->n_targets);
	return 0;
}

static enum outcome show(const Tfprofd__ListTargetsResponse *response, bool json, bool private)
{
	if (json) {
		print_json(response);
		return OUTCOME_OK;
	}
	if (!response->n_targets) {
		outcome_report("no process that you may profile has a known runtime");
		return OUTCOME_OK;
	}
	if (print_table(response) < 0) {
		outcome_report("out of memory");
		return OUTCOME_INTERNAL;
	}
	if (private)
		outcome_report(
			"no tfprofd is running: TensorBoard cannot capture these processes, but tfprofctl capture can");
	return OUTCOME_OK;
}

static enum outcome run(const struct arguments *a)
{
	Tfprofd__ListTargetsResponse *response = NULL;
	_cleanup_free_ uint8_t *message = NULL;
	struct session *session = NULL;
	enum outcome outcome;
	size_t size = 0;

	outcome = session_open(&a->daemon, &session);
	if (outcome != OUTCOME_OK)
		return outcome;
	/* The request has no field. */
	outcome = session_call(session, "/tfprofd.Control/ListTargets", "", 0, ANSWER_NS, &message,
			       &size);
	if (outcome == OUTCOME_OK) {
		response = tfprofd__list_targets_response__unpack(NULL, size, message);
		if (response) {
			outcome = show(response, a->output.json, session_is_private(session));
			tfprofd__list_targets_response__free_unpacked(response, NULL);
		} else {
			outcome_report("cannot decode the daemon's reply");
			outcome = OUTCOME_INTERNAL;
		}
	}
	session_free(session);
	return outcome;
}

const struct command command_targets = {
	.name = "targets",
	.summary = "List the processes that can be captured",
	.syntax = { .name = "tfprofctl targets",
		    .accepts = ACCEPT(JSON),
		    .description =
			    "List the processes that you may profile, with the address to enter in TensorBoard.",
		    .notes =
			    "The column knowledge is how the functions of the runtime are known: exact (by symbols and structures), by RTTI (some by virtual tables), requests only (none where runs or operations begin), not planned (no capture or tfprofctl plan has read its files yet)." },
	.run = run,
};
