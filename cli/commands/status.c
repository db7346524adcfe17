/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl status: what the daemon is doing. */
#include <inttypes.h>
#include <stdbool.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define ANSWER_NS (30 * UINT64_C(1000000000))

static void json_target(struct json *json, const Tfprofd__TargetStatus *t)
{
	json_object_begin(json, NULL);
	json_number(json, "pid", t->target->pid);
	json_string(json, "name", t->target->name);
	json_bool(json, "measured", t->measured);
	json_number(json, "requests", t->requests);
	json_real(json, "requests_per_second", t->requests_per_s);
	json_number(json, "p50_ns", t->p50_ns);
	json_number(json, "p99_ns", t->p99_ns);
	json_object_end(json);
}

static void json_capture(struct json *json, const Tfprofd__CaptureStatus *c)
{
	json_object_begin(json, NULL);
	json_number(json, "uid", c->uid);
	json_string(json, "subject", *c->subject ? c->subject : NULL);
	json_array_begin(json, "pids");
	for (size_t i = 0; i < c->n_pids; i++)
		json_number(json, NULL, c->pids[i]);
	json_array_end(json);
	json_number(json, "elapsed_ns", c->elapsed_ns);
	json_number(json, "duration_ns", c->duration_ns);
	json_number(json, "records", c->records);
	json_number(json, "dropped", c->dropped);
	json_number(json, "requests", c->requests);
	json_real(json, "overhead_percent", c->overhead);
	json_object_end(json);
}

static void json_recorder(struct json *json, const Tfprofd__RecorderStatus *r)
{
	json_object_begin(json, "recorder");
	json_number(json, "uid", r->uid);
	json_bool(json, "configured", r->configured);
	json_number(json, "level", r->level);
	json_bool(json, "attached", r->attached);
	json_number(json, "processes", r->processes);
	json_number(json, "left_out", r->left_out);
	json_number(json, "kept_ns", r->kept_ns);
	json_number(json, "bytes", r->bytes);
	json_number(json, "max_bytes", r->max_bytes);
	json_number(json, "records", r->records);
	json_number(json, "dropped", r->dropped);
	json_real(json, "overhead_percent", r->overhead);
	json_real(json, "max_overhead_percent", r->max_overhead);
	json_array_begin(json, "given_up");
	for (size_t i = 0; i < r->n_given_up; i++)
		json_string(json, NULL, r->given_up[i]);
	json_array_end(json);
	json_array_begin(json, "sampled");
	for (size_t i = 0; i < r->n_sampled; i++)
		json_string(json, NULL, r->sampled[i]);
	json_array_end(json);
	json_object_end(json);
}

static void print_json(const Tfprofd__StatusReply *reply)
{
	struct json json = { .file = stdout };

	json_object_begin(&json, NULL);
	json_string(&json, "version", reply->version);
	json_string(&json, "hostname", reply->hostname);
	json_number(&json, "uptime_ns", reply->uptime_ns);
	json_array_begin(&json, "targets");
	for (size_t i = 0; i < reply->n_targets; i++)
		json_target(&json, reply->targets[i]);
	json_array_end(&json);
	json_array_begin(&json, "captures");
	for (size_t i = 0; i < reply->n_captures; i++)
		json_capture(&json, reply->captures[i]);
	json_array_end(&json);
	if (reply->recorder)
		json_recorder(&json, reply->recorder);
	else
		json_string(&json, "recorder", NULL);
	json_object_end(&json);
}

static void print_capture(const Tfprofd__CaptureStatus *c)
{
	char elapsed[DURATION_TEXT], duration[DURATION_TEXT], records[TEXT_NUMBER],
		dropped[TEXT_NUMBER];

	printf("capture of user %u", c->uid);
	if (*c->subject) {
		printf(" (");
		text_write(stdout, c->subject);
		printf(")");
	}
	printf(", process%s", c->n_pids == 1 ? "" : "es");
	for (size_t i = 0; i < c->n_pids; i++)
		printf(" %u", c->pids[i]);
	printf(": %s of %s, %s event%s, %s lost, probe overhead %.2f %%\n",
	       duration_text(c->elapsed_ns, elapsed), duration_text(c->duration_ns, duration),
	       text_count(c->records, records), text_plural(c->records),
	       text_count(c->dropped, dropped), c->overhead);
}

static void print_recorder(const Tfprofd__RecorderStatus *r)
{
	char kept[DURATION_TEXT], bytes[TEXT_NUMBER], max[TEXT_NUMBER], dropped[TEXT_NUMBER];

	printf("recorder at level %u, %u process%s%s: holds the last %s in %s of %s, %s lost, probe overhead %.2f %%, budget %.4g %%\n",
	       r->level, r->processes, r->processes == 1 ? "" : "es",
	       r->attached ? "" : " (waiting for one)", duration_text(r->kept_ns, kept),
	       text_bytes(r->bytes, bytes), text_bytes(r->max_bytes, max),
	       text_count(r->dropped, dropped), r->overhead, r->max_overhead);
	for (size_t i = 0; i < r->n_given_up; i++)
		printf("  disabled: %s\n", r->given_up[i]);
	for (size_t i = 0; i < r->n_sampled; i++)
		printf("  sampled: %s\n", r->sampled[i]);
	if (r->left_out)
		printf("  %u process%s left out\n", r->left_out, r->left_out == 1 ? "" : "es");
}

static void print_text(const Tfprofd__StatusReply *reply)
{
	char uptime[DURATION_TEXT], p50[DURATION_TEXT], p99[DURATION_TEXT];

	printf("tfprofd ");
	text_write(stdout, reply->version);
	printf(" on ");
	text_write(stdout, reply->hostname);
	printf(", up for %s, %zu process%s to profile\n", duration_text(reply->uptime_ns, uptime),
	       reply->n_targets, reply->n_targets == 1 ? "" : "es");
	for (size_t i = 0; i < reply->n_targets; i++) {
		const Tfprofd__TargetStatus *t = reply->targets[i];

		printf("process %u ", t->target->pid);
		text_write(stdout, t->target->name);
		if (t->measured)
			printf(": %.1f requests/s, p50 %s, p99 %s", t->requests_per_s,
			       duration_text(t->p50_ns, p50), duration_text(t->p99_ns, p99));
		printf("\n");
	}
	for (size_t i = 0; i < reply->n_captures; i++)
		print_capture(reply->captures[i]);
	if (reply->recorder)
		print_recorder(reply->recorder);
}

static Tfprofd__StatusReply *decode(const uint8_t *message, size_t size)
{
	Tfprofd__StatusReply *reply = tfprofd__status_reply__unpack(NULL, size, message);

	for (size_t i = 0; reply && i < reply->n_targets; i++)
		if (!reply->targets[i]->target) {
			tfprofd__status_reply__free_unpacked(reply, NULL);
			return NULL;
		}
	return reply;
}

static enum outcome run(const struct arguments *a)
{
	_cleanup_free_ uint8_t *message = NULL;
	Tfprofd__StatusReply *reply;
	enum outcome outcome;
	size_t size = 0;

	outcome = session_ask_running(&a->daemon, "/tfprofd.Control/Status", ANSWER_NS, &message,
				      &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	reply = decode(message, size);
	if (!reply) {
		outcome_report("cannot decode the daemon's reply");
		return OUTCOME_INTERNAL;
	}
	if (a->output.json)
		print_json(reply);
	else
		print_text(reply);
	tfprofd__status_reply__free_unpacked(reply, NULL);
	return OUTCOME_OK;
}

const struct command command_status = {
	.name = "status",
	.summary = "Show what the daemon is doing",
	.syntax = { .name = "tfprofctl status",
		    .accepts = ACCEPT(JSON),
		    .description =
			    "Show what the daemon is doing: processes and, while they are counted, their requests; captures; the "
			    "recorder.",
		    .notes =
			    "Exit codes: 0 the daemon replied; 1 internal error, or no daemon; 2 usage." },
	.run = run,
};
