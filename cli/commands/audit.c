/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl audit: who captured what, from the files that the daemon writes. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/commands/command.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/key_value.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"

#define DEFAULT_DIRECTORY "/var/lib/tfprofd"
#define FIELDS_MAX 24
#define KEY_MAX 24
#define VALUE_MAX 1024

/* The fields of a line, in its order. */
struct entry {
	struct {
		char key[KEY_MAX], value[VALUE_MAX];
	} fields[FIELDS_MAX];
	unsigned n;
};

/* Fields whose values are JSON numbers. */
static const char *const numbers[] = { "client_uid", "client_pid", "target_uid",
				       "target_pid", "capture",    "duration_ms",
				       "events",     "bytes",      "lost" };

static bool read_entry(const char *line, struct entry *ret)
{
	int r = 1;

	for (ret->n = 0; ret->n < FIELDS_MAX && r > 0; ret->n += r > 0)
		r = key_value_next(&line, ret->fields[ret->n].key, KEY_MAX,
				   ret->fields[ret->n].value, VALUE_MAX);
	return r >= 0 && ret->n;
}

/* "": there is no such field. */
static const char *field(const struct entry *e, const char *key)
{
	for (unsigned i = 0; i < e->n; i++)
		if (!strcmp(e->fields[i].key, key))
			return e->fields[i].value;
	return "";
}

static uint64_t number(const struct entry *e, const char *key)
{
	uint64_t value;

	return number_parse(field(e, key), 0, UINT64_MAX, &value) == 0 ? value : 0;
}

static bool is_since(const struct entry *e, uint64_t last_ns)
{
	struct tm utc = {};

	return !last_ns || (strptime(field(e, "time"), "%Y-%m-%dT%H:%M:%S", &utc) &&
			    timegm(&utc) >= time(NULL) - (time_t)(last_ns / 1000000000));
}

/* Whether the line is about one of the processes, as target or as client. */
static bool is_about(const struct entry *e, const struct selection *selection)
{
	for (size_t i = 0; i < selection->n_pids; i++) {
		char list[VALUE_MAX], *rest = list, *word;
		uint64_t pid;

		snprintf(list, sizeof(list), "%s %s %s", field(e, "target_pid"),
			 field(e, "client_pid"), field(e, "target_pids"));
		while ((word = strsep(&rest, " ")))
			if (number_parse(word, 0, UINT32_MAX, &pid) == 0 &&
			    pid == selection->pids[i])
				return true;
	}
	return !selection->n_pids;
}

static void print_json(struct json *json, const struct entry *e)
{
	json_object_begin(json, NULL);
	for (unsigned i = 0; i < e->n; i++) {
		const char *key = e->fields[i].key;
		bool is_number = false;

		for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
			is_number |= !strcmp(key, numbers[k]);
		if (is_number)
			json_number(json, key, number(e, key));
		else
			json_string(json, key, e->fields[i].value);
	}
	json_object_end(json);
}

/* A field after the text before it; nothing if there is none. */
static void print_field(const struct entry *e, const char *before, const char *key,
			const char *after)
{
	const char *value = field(e, key);

	if (!*value)
		return;
	fputs(before, stdout);
	text_write(stdout, value);
	fputs(after, stdout);
}

static void print_text(const struct entry *e)
{
	char duration[DURATION_TEXT], count[TEXT_NUMBER], bytes[TEXT_NUMBER];
	const char *time = field(e, "time");

	printf("%.10s %.8s  ", time, strlen(time) > 11 ? time + 11 : "");
	printf("%-5s  %-9s", field(e, "verdict"), field(e, "action"));
	print_field(e, "  user ", "client_uid", "");
	print_field(e, ", ", "certificate", "");
	print_field(e, ", ", "client_exe", "");
	print_field(e, " (", "client_pid", ")");
	if (*field(e, "target_pids"))
		print_field(e, "; processes ", "target_pids", "");
	else
		print_field(e, "; process ", "target_pid", "");
	print_field(e, " of user ", "target_uid", "");
	print_field(e, ", ", "target_exe", "");
	print_field(e, "; ", "reason", "");
	if (*field(e, "duration_ms"))
		printf("; %s, %s event%s, %s",
		       duration_text(number(e, "duration_ms") * 1000000, duration),
		       text_count(number(e, "events"), count), text_plural(number(e, "events")),
		       text_bytes(number(e, "bytes"), bytes));
	if (number(e, "lost"))
		printf(", %s lost", text_count(number(e, "lost"), count));
	fputc('\n', stdout);
}

/* Shows the lines of a file. 0, or a negative errno. */
static int show_file(const struct arguments *a, const char *directory, const char *name,
		     struct json *json)
{
	_cleanup_free_ struct entry *entry = malloc(sizeof(*entry));
	_cleanup_free_ char *line = NULL;
	char path[600];
	size_t size = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%.500s/%s", directory, name);
	f = entry ? fopen(path, "re") : NULL;
	if (!f)
		return entry ? -errno : -ENOMEM;
	while ((n = getline(&line, &size, f)) > 0) {
		line[strcspn(line, "\n")] = 0;
		/* The daemon may be writing the last one. */
		if (!read_entry(line, entry) || !is_since(entry, a->last_ns) ||
		    !is_about(entry, &a->selection))
			continue;
		if (json)
			print_json(json, entry);
		else
			print_text(entry);
	}
	fclose(f);
	return 0;
}

static enum outcome run(const struct arguments *a)
{
	const char *directory = a->operand ?: DEFAULT_DIRECTORY;
	struct json json = { .file = stdout };
	int r;

	if (a->output.json) {
		json_object_begin(&json, NULL);
		json_array_begin(&json, "lines");
	}
	r = show_file(a, directory, "audit.log.1", a->output.json ? &json : NULL);
	if (r >= 0 || r == -ENOENT)
		r = show_file(a, directory, "audit.log", a->output.json ? &json : NULL);
	if (a->output.json) {
		json_array_end(&json);
		json_object_end(&json);
	}
	if (r >= 0)
		return OUTCOME_OK;
	if (r == -EACCES)
		outcome_report("cannot read the audit log in %s: run as root", directory);
	else if (r == -ENOENT)
		outcome_report(
			"there is no audit log in %s: name the state directory of the daemon (tfprofd --state-dir)",
			directory);
	else
		outcome_report("cannot read the audit log in %s: %s", directory, strerror(-r));
	return r == -EACCES ? OUTCOME_DENIED : OUTCOME_INTERNAL;
}

const struct command command_audit = {
	.name = "audit",
	.summary = "Show who captured what, and what was refused",
	.syntax = { .name = "tfprofctl audit",
		    .accepts = ACCEPT(PID) | ACCEPT(LAST) | ACCEPT(JSON),
		    .pid_help = "Show only lines about this process; may be repeated",
		    .last_help = "Show only lines of the last TIME: 30s, 10m (default: all)",
		    .operand = "[DIRECTORY]",
		    .description =
			    "Show the audit log that the daemon keeps in its state directory (default: " DEFAULT_DIRECTORY
			    "), the oldest line first: a line per decision, with the client, the process, the verdict and what "
			    "was delivered.",
		    .notes =
			    "Exit codes: 0 shown; 1 internal error, or no audit log; 2 usage; 3 not permitted." },
	.run = run,
};
