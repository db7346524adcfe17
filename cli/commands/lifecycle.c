/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl lifecycle: how processes started, until their first request. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (30 * UINT64_C(1000000000))
#define PATH_TEXT 160

static const char *path_text(const Tfprofd__LifecyclePhase *phase, char text[static PATH_TEXT])
{
	snprintf(text, PATH_TEXT, "%.*s", (int)MIN(phase->path.len, (size_t)PATH_TEXT - 1),
		 (const char *)phase->path.data);
	return text;
}

static void json_unix(struct json *json, const char *key, uint64_t unix_ns)
{
	if (unix_ns)
		json_number(json, key, unix_ns);
	else
		json_string(json, key, NULL);
}

static void json_phase(struct json *json, const Tfprofd__LifecyclePhase *phase)
{
	char path[PATH_TEXT];

	json_object_begin(json, NULL);
	json_string(json, "name", phase->name);
	json_string(json, "path", phase->path.len ? path_text(phase, path) : NULL);
	json_number(json, "start_unix_ns", phase->start_unix_ns);
	json_unix(json, "end_unix_ns", phase->end_unix_ns);
	json_bool(json, "start_is_bound", phase->start_is_bound);
	json_bool(json, "end_is_bound", phase->end_is_bound);
	json_bool(json, "failed", phase->failed);
	json_bool(json, "goes_on", phase->goes_on);
	json_number(json, "runs", phase->runs);
	json_object_end(json);
}

static void print_json(const Tfprofd__LifecycleReply *reply)
{
	struct json json = { .file = stdout };

	json_object_begin(&json, NULL);
	json_array_begin(&json, "processes");
	for (size_t i = 0; i < reply->n_processes; i++) {
		const Tfprofd__ProcessLifecycle *p = reply->processes[i];

		json_object_begin(&json, NULL);
		json_number(&json, "pid", p->target->pid);
		json_string(&json, "name", p->target->name);
		json_bool(&json, "seen_live", p->seen_live);
		json_bool(&json, "watched", p->is_watched);
		json_unix(&json, "watched_since_unix_ns", p->watched_since_unix_ns);
		json_unix(&json, "watched_until_unix_ns", p->watched_until_unix_ns);
		json_string(&json, "note", *p->note ? p->note : NULL);
		json_number(&json, "loads_left_out", p->loads_left_out);
		json_array_begin(&json, "phases");
		for (size_t k = 0; k < p->n_phases; k++)
			json_phase(&json, p->phases[k]);
		json_array_end(&json);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
}

struct row {
	char at[DURATION_TEXT + 1], took[DURATION_TEXT + 1], what[64], path[PATH_TEXT];
};

static void fill_row(const Tfprofd__LifecyclePhase *phase, uint64_t start_ns, struct row *ret)
{
	char text[DURATION_TEXT];

	snprintf(ret->at, sizeof(ret->at), "%s%s", phase->start_is_bound ? "~" : "",
		 duration_text(phase->start_unix_ns - start_ns, text));
	if (phase->end_unix_ns)
		snprintf(ret->took, sizeof(ret->took), "%s%s",
			 phase->start_is_bound || phase->end_is_bound ? "~" : "",
			 duration_text(phase->end_unix_ns - phase->start_unix_ns, text));
	else
		snprintf(ret->took, sizeof(ret->took), "%s",
			 phase->failed    ? "failed"
			 : phase->goes_on ? "..."
					  : "?");
	if (phase->runs)
		snprintf(ret->what, sizeof(ret->what), "%s, %" PRIu64 " run%s", phase->name,
			 phase->runs, phase->runs == 1 ? "" : "s");
	else
		snprintf(ret->what, sizeof(ret->what), "%s", phase->name);
	path_text(phase, ret->path);
}

static void print_process(const Tfprofd__ProcessLifecycle *p)
{
	static const struct text_column columns[] = {
		{ "at", true }, { "took", true }, { "phase", false }, { "model", false }
	};
	_cleanup_free_ const char **cells =
		calloc(p->n_phases + 1, ARRAY_SIZE(columns) * sizeof(cells[0]));
	_cleanup_free_ struct row *rows = calloc(p->n_phases + 1, sizeof(rows[0]));
	uint64_t start_ns = p->n_phases ? p->phases[0]->start_unix_ns : 0;
	time_t seconds = (time_t)(start_ns / 1000000000);
	struct tm tm;
	char when[32] = "";

	if (start_ns && localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("Process %u (", p->target->pid);
	text_write(stdout, p->target->name);
	fputc(')', stdout);
	if (start_ns)
		printf(", started %s.%03u", when, (unsigned)(start_ns / 1000000 % 1000));
	puts(p->is_watched ? ", still starting" : "");
	for (size_t i = 0; cells && rows && i < p->n_phases; i++) {
		const char **row = &cells[i * ARRAY_SIZE(columns)];

		fill_row(p->phases[i], start_ns, &rows[i]);
		row[0] = rows[i].at;
		row[1] = rows[i].took;
		row[2] = rows[i].what;
		row[3] = rows[i].path;
	}
	if (cells && rows && p->n_phases)
		text_table(stdout, columns, ARRAY_SIZE(columns), cells, p->n_phases);
	if (p->loads_left_out)
		printf("%u more load%s not shown\n", p->loads_left_out,
		       p->loads_left_out == 1 ? "" : "s");
	if (*p->note) {
		fputs("Incomplete: ", stdout);
		text_write(stdout, p->note);
		fputc('\n', stdout);
	}
}

static enum outcome show(const Tfprofd__LifecycleReply *reply, bool json)
{
	if (json) {
		print_json(reply);
		return OUTCOME_OK;
	}
	if (!reply->n_processes)
		outcome_report("no process that you may profile has a known runtime");
	for (size_t i = 0; i < reply->n_processes; i++) {
		fputs(i ? "\n" : "", stdout);
		print_process(reply->processes[i]);
	}
	return OUTCOME_OK;
}

static enum outcome run(const struct arguments *a)
{
	Tfprofd__LifecycleRequest request = TFPROFD__LIFECYCLE_REQUEST__INIT;
	Tfprofd__LifecycleReply *reply = NULL;
	_cleanup_free_ uint8_t *message = NULL;
	struct session *session = NULL;
	enum outcome outcome;
	uint8_t packed[16];
	size_t size = 0;

	outcome = session_open(&a->daemon, &session);
	if (outcome != OUTCOME_OK)
		return outcome;
	request.pid = a->selection.n_pids ? *a->selection.pids : 0;
	outcome = session_call(session, "/tfprofd.Control/Lifecycle", packed,
			       tfprofd__lifecycle_request__pack(&request, packed), ANSWER_NS,
			       &message, &size);
	if (outcome == OUTCOME_OK) {
		reply = tfprofd__lifecycle_reply__unpack(NULL, size, message);
		if (reply) {
			outcome = show(reply, a->output.json);
			tfprofd__lifecycle_reply__free_unpacked(reply, NULL);
		} else {
			outcome_report("cannot decode the daemon's reply");
			outcome = OUTCOME_INTERNAL;
		}
	}
	session_free(session);
	return outcome;
}

const struct command command_lifecycle = {
	.name = "lifecycle",
	.summary = "Show how processes started: libraries, models, first request",
	.syntax = { .name = "tfprofctl lifecycle",
		    .accepts = ACCEPT(PID) | ACCEPT(JSON),
		    .pid_help = "Show only this process",
		    .pids_max = 1,
		    .description =
			    "Show how processes started, from their exec to their first request.",
		    .notes =
			    "What a process did before the daemon started was not observed. Only a daemon with --lifecycle observes "
			    "model loads and the first request." },
	.run = run,
};
