/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl doctor: what prevents a capture on this host, or of a process, and how to fix it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/command.h"
#include "cli/connect/proxy_env.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

/* The first reply of a daemon waits for its measurements. */
#define ANSWER_NS (60 * UINT64_C(1000000000))
#define OWN_MAX 8
#define PROGRAM "tfprofd: "
/* The column after the severity. */
#define INDENT 9

/* A finding of tfprofctl itself. */
struct own_finding {
	const char *severity, *remedy;
	char code[32], text[1024];
};

struct doctor {
	struct own_finding own[OWN_MAX];
	unsigned n_own;
	char refusal[1024];          /* why there is no session */
	Tfprofd__DoctorReply *reply; /* NULL: no daemon answered */
};

static void add(struct doctor *d, const char *severity, const char *code, const char *text,
		const char *remedy)
{
	struct own_finding *f = &d->own[d->n_own++];

	*f = (struct own_finding){ .severity = severity, .remedy = remedy };
	snprintf(f->code, sizeof(f->code), "%s", code);
	snprintf(f->text, sizeof(f->text), "%s", text);
}

static void check_environment(struct doctor *d)
{
	const char *variable = proxy_env_find(getenv);
	char text[160];

	if (!variable)
		return;
	snprintf(
		text, sizeof(text),
		"%s is set: a TensorBoard started in this environment connects to localhost through the proxy, and captures fail",
		variable);
	add(d, "warning", "proxy-env", text,
	    "set no_proxy=localhost,127.0.0.1 where TensorBoard is started");
}

static void keep_first(const char *text, void *data)
{
	struct doctor *d = data;

	if (!*d->refusal)
		snprintf(d->refusal, sizeof(d->refusal), "%s", text);
}

/* Why no daemon can be asked, as a finding. One that cannot run here reports "tfprofd: CODE: text".
 */
static void add_refusal(struct doctor *d, enum outcome outcome)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	const char *text = d->refusal;
	char code[sizeof(d->own[0].code)] = "no-daemon";
	size_t n;

	if (outcome == OUTCOME_DENIED)
		strcpy(code, "socket-access");
	if (outcome == OUTCOME_HOST) {
		text += strncmp(text, PROGRAM, strlen(PROGRAM)) ? 0 : strlen(PROGRAM);
		n = strspn(text, letters);
		strcpy(code, "host");
		if (n && n < sizeof(code) && !strncmp(text + n, ": ", 2)) {
			snprintf(code, sizeof(code), "%.*s", (int)n, text);
			text += n + 2;
		}
	}
	/* The text has the remedy. */
	add(d, "error", code, *text ? text : "no daemon can be asked", "");
}

static enum outcome ask(struct session *session, uint32_t pid, struct doctor *d)
{
	Tfprofd__DoctorRequest request = TFPROFD__DOCTOR_REQUEST__INIT;
	_cleanup_free_ uint8_t *message = NULL;
	enum outcome outcome;
	uint8_t packed[16];
	size_t size = 0;

	request.pid = pid;
	outcome = session_call(session, "/tfprofd.Control/Doctor", packed,
			       tfprofd__doctor_request__pack(&request, packed), ANSWER_NS, &message,
			       &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	d->reply = tfprofd__doctor_reply__unpack(NULL, size, message);
	if (d->reply)
		return OUTCOME_OK;
	outcome_report("cannot decode the daemon's reply");
	return OUTCOME_INTERNAL;
}

/* The exit code that a capture would end with. */
static enum outcome outcome_of_finding(const char *severity, const char *code)
{
	static const struct {
		const char *code;
		enum outcome outcome;
	} of_process[] = {
		{ "no-process", OUTCOME_NO_TARGET },    { "ended", OUTCOME_NO_TARGET },
		{ "kernel-thread", OUTCOME_NO_TARGET }, { "no-program", OUTCOME_NO_TARGET },
		{ "no-symbols", OUTCOME_NO_TARGET },    { "malformed", OUTCOME_HOST },
		{ "architecture", OUTCOME_NO_TARGET },  { "not-permitted", OUTCOME_DENIED },
		{ "unreadable", OUTCOME_DENIED },       { "socket-access", OUTCOME_DENIED },
		{ "no-daemon", OUTCOME_INTERNAL },      { "no-broker", OUTCOME_INTERNAL },
	};

	if (strcmp(severity, "error"))
		return OUTCOME_OK;
	for (size_t i = 0; i < ARRAY_SIZE(of_process); i++)
		if (!strcmp(code, of_process[i].code))
			return of_process[i].outcome;
	return OUTCOME_HOST;
}

/* An unsuitable host takes precedence; otherwise the first error counts. */
static void count(enum outcome *total, const char *severity, const char *code)
{
	enum outcome one = outcome_of_finding(severity, code);

	if (one == OUTCOME_HOST || *total == OUTCOME_OK)
		*total = one;
}

static void print_one(struct json *json, const char *severity, const char *code, const char *text,
		      const char *remedy)
{
	int width;

	if (json) {
		json_object_begin(json, NULL);
		json_string(json, "code", code);
		json_string(json, "severity", severity);
		json_string(json, "text", text);
		json_string(json, "remedy", *remedy ? remedy : NULL);
		json_object_end(json);
		return;
	}
	width = (int)text_write(stdout, severity);
	printf("%*s", MAX(INDENT - width, 1), "");
	text_write(stdout, code);
	fputs(": ", stdout);
	text_write(stdout, text);
	if (*remedy) {
		printf("\n%*s", INDENT, "");
		text_write(stdout, remedy);
	}
	fputc('\n', stdout);
}

static enum outcome print(const struct doctor *d, bool as_json)
{
	struct json json = { .file = stdout };
	enum outcome total = OUTCOME_OK;

	if (as_json) {
		json_object_begin(&json, NULL);
		json_array_begin(&json, "findings");
	}
	for (unsigned i = 0; i < d->n_own; i++) {
		const struct own_finding *f = &d->own[i];

		print_one(as_json ? &json : NULL, f->severity, f->code, f->text, f->remedy);
		count(&total, f->severity, f->code);
	}
	for (size_t i = 0; d->reply && i < d->reply->n_findings; i++) {
		const Tfprofd__Finding *f = d->reply->findings[i];

		print_one(as_json ? &json : NULL, f->severity, f->code, f->text, f->remedy);
		count(&total, f->severity, f->code);
	}
	if (as_json) {
		json_array_end(&json);
		json_number(&json, "exit_code", total);
		json_object_end(&json);
	}
	return total;
}

static enum outcome run(const struct arguments *a)
{
	struct session *session = NULL;
	enum outcome outcome;
	struct doctor d = {};

	check_environment(&d);
	outcome = session_open_reporting(&a->daemon, keep_first, &d, &session);
	if (outcome == OUTCOME_USAGE) {
		outcome_report("%s", d.refusal);
		return outcome;
	}
	if (outcome != OUTCOME_OK) {
		add_refusal(&d, outcome);
		return print(&d, a->output.json);
	}
	if (session_is_private(session))
		add(&d, "note", "private-daemon",
		    "no tfprofd is running: TensorBoard cannot capture, but tfprofctl capture works",
		    "start tfprofd");
	outcome = ask(session, a->selection.n_pids ? *a->selection.pids : 0, &d);
	if (outcome == OUTCOME_OK)
		outcome = print(&d, a->output.json);
	if (d.reply)
		tfprofd__doctor_reply__free_unpacked(d.reply, NULL);
	session_free(session);
	return outcome;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "Report what prevents a capture, and how to fix it",
	.syntax = { .name = "tfprofctl doctor",
		    .accepts = ACCEPT(PID) | ACCEPT(JSON),
		    .pid_help = "Also check whether this process can be captured",
		    .pids_max = 1,
		    .description =
			    "Report what prevents a capture on this host, and how to fix it.",
		    .notes =
			    "Exit codes: 0 captures work; 1 internal error, or no daemon; 2 usage; 3 not permitted; 4 no such "
			    "target; 7 not possible on this host." },
	.run = run,
};
