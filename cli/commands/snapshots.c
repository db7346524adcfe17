/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl snapshots: what triggers have kept, from the files that the daemon writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/report/json.h"
#include "cli/report/text.h"
#include "daemon/record/journal.h"
#include "lib/base/array.h"
#include "lib/base/directory.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"
#include "proto/recording.pb-c.h"

#define ANSWER_NS (10 * UINT64_C(1000000000))
#define SUFFIX ".tfp"
/* In which the section with the reason is. */
#define HEAD_BYTES (64u << 10)
#define UNREADABLE "not readable: it is for root and for the user of all its processes"

struct entry {
	char *name;
	uint64_t bytes;
	Tfprofd__RecordingSnapshot *note; /* NULL: it cannot be read, or is another recording */
	bool is_denied;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* The section that a trigger adds; NULL: there is none. */
static Tfprofd__RecordingSnapshot *find_note(const uint8_t *bytes, size_t size)
{
	struct journal_reader reader = { .bytes = bytes, .size = size };
	struct journal_section section;

	if (journal_open(&reader) < 0)
		return NULL;
	while (journal_next(&reader, &section) > 0)
		if (section.kind == JOURNAL_SNAPSHOT)
			return tfprofd__recording_snapshot__unpack(NULL, section.size,
								   section.bytes);
	return NULL;
}

static void read_note(int fd, struct entry *e)
{
	_cleanup_free_ uint8_t *bytes = aligned_alloc(8, HEAD_BYTES);
	ssize_t n = bytes ? read(fd, bytes, HEAD_BYTES) : -1;

	if (n > 0)
		e->note = find_note(bytes, (size_t)n);
}

/* 1: a recording; 0: something else. */
static int read_entry(int directory, const char *name, struct entry *ret)
{
	_cleanup_close_ int fd = -1;
	size_t length = strlen(name);
	struct stat st;

	if (length <= strlen(SUFFIX) || strcmp(name + length - strlen(SUFFIX), SUFFIX) ||
	    fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	*ret = (struct entry){ .name = strdup(name), .bytes = (uint64_t)st.st_size };
	if (!ret->name)
		return -ENOMEM;
	fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ret->is_denied = fd < 0 && errno == EACCES;
	if (fd >= 0)
		read_note(fd, ret);
	return 1;
}

static int read_directory(const char *path, struct entry **ret, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : directory_list(fd);
	const struct dirent *item;
	size_t allocated = 0;
	int r = 0;

	if (!directory)
		return -errno;
	while (r >= 0 && (item = readdir(directory))) {
		r = array_reserve(ret, *ret_n, &allocated, sizeof(**ret), 1);
		if (r >= 0)
			r = read_entry(fd, item->d_name, *ret + *ret_n);
		if (r > 0)
			++*ret_n;
	}
	closedir(directory);
	if (r >= 0 && *ret_n)
		qsort(*ret, *ret_n, sizeof(**ret), compare);
	return MIN(r, 0);
}

/* "2026-11-23 19:19:24" of the name that the daemon gives. */
static const char *time_of(const struct entry *e, char text[static 24])
{
	const char *n = e->name;

	text[0] = 0;
	if (strlen(n) > 20 && n[8] == 'T' && n[19] == 'Z')
		snprintf(text, 24, "%.4s-%.2s-%.2s %.2s:%.2s:%.2s", n, n + 4, n + 6, n + 9, n + 11,
			 n + 13);
	return text;
}

enum {
	COLUMN_TIME,
	COLUMN_TRIGGER,
	COLUMN_PROCESS,
	COLUMN_LENGTH,
	COLUMN_SIZE,
	COLUMN_REASON,
	COLUMN_FILE,
	COLUMNS
};

struct row {
	char time[24], process[40], length[DURATION_TEXT], size[TEXT_NUMBER];
};

static void fill_row(const struct entry *e, struct row *row, const char *cells[static COLUMNS])
{
	const Tfprofd__RecordingSnapshot *note = e->note;

	for (unsigned i = 0; i < COLUMNS; i++)
		cells[i] = "";
	cells[COLUMN_TIME] = time_of(e, row->time);
	cells[COLUMN_SIZE] = text_bytes(e->bytes, row->size);
	cells[COLUMN_FILE] = e->name;
	if (!note) {
		cells[COLUMN_REASON] = e->is_denied ? UNREADABLE : "not the snapshot of a trigger";
		return;
	}
	snprintf(row->process, sizeof(row->process), "%u (%.20s)", note->pid, note->process);
	cells[COLUMN_TRIGGER] = note->trigger;
	cells[COLUMN_PROCESS] = row->process;
	cells[COLUMN_LENGTH] = duration_text(note->duration_ns, row->length);
	cells[COLUMN_REASON] = note->reason;
}

static void print_text(const char *path, const struct entry *entries, size_t n)
{
	static const struct text_column columns[COLUMNS] = {
		[COLUMN_TIME] = { "time (UTC)" }, [COLUMN_TRIGGER] = { "trigger" },
		[COLUMN_PROCESS] = { "process" }, [COLUMN_LENGTH] = { "length", true },
		[COLUMN_SIZE] = { "size", true }, [COLUMN_REASON] = { "reason" },
		[COLUMN_FILE] = { "file" },
	};
	_cleanup_free_ struct row *rows = calloc(n, sizeof(*rows));
	_cleanup_free_ const char **cells = calloc(n * COLUMNS, sizeof(*cells));

	if (!n)
		printf("There are no snapshots in ");
	else
		printf("Snapshots in ");
	text_write(stdout, path);
	puts(n ? ":" : ".");
	if (!n || !rows || !cells)
		return;
	for (size_t i = 0; i < n; i++)
		fill_row(&entries[i], &rows[i], &cells[i * COLUMNS]);
	text_table(stdout, columns, COLUMNS, cells, n);
	puts("Open one with: tfprofctl replay FILE");
}

static void print_entry(struct json *json, const struct entry *e)
{
	char time[24];

	json_object_begin(json, NULL);
	json_string(json, "file", e->name);
	json_string(json, "time", time_of(e, time));
	json_number(json, "bytes", e->bytes);
	json_bool(json, "readable", !e->is_denied);
	if (e->note) {
		json_string(json, "trigger", e->note->trigger);
		json_string(json, "reason", e->note->reason);
		json_number(json, "pid", e->note->pid);
		json_string(json, "process", e->note->process);
		json_number(json, "start_unix_ns", e->note->start_unix_ns);
		json_number(json, "duration_ns", e->note->duration_ns);
	}
	json_object_end(json);
}

static void print_json(const char *path, const struct entry *entries, size_t n)
{
	struct json json = { .file = stdout };

	json_object_begin(&json, NULL);
	json_string(&json, "directory", path);
	json_array_begin(&json, "snapshots");
	for (size_t i = 0; i < n; i++)
		print_entry(&json, &entries[i]);
	json_array_end(&json);
	json_object_end(&json);
}

/* The directory of the daemon's configuration, malloc'ed. */
static enum outcome ask_daemon(const struct arguments *a, char **ret)
{
	_cleanup_free_ uint8_t *message = NULL;
	Tfprofd__StatusReply *reply;
	enum outcome outcome;
	size_t size = 0;

	outcome = session_ask_running(&a->daemon, "/tfprofd.Control/Status", ANSWER_NS, &message,
				      &size);
	if (outcome != OUTCOME_OK)
		return outcome;
	reply = tfprofd__status_reply__unpack(NULL, size, message);
	*ret = reply ? strdup(reply->snapshot_directory) : NULL;
	if (reply)
		tfprofd__status_reply__free_unpacked(reply, NULL);
	if (!*ret) {
		outcome_report("cannot decode the daemon's reply");
		return OUTCOME_INTERNAL;
	}
	if (**ret)
		return OUTCOME_OK;
	outcome_report(
		"the daemon has no triggers: add a section [trigger NAME] to its configuration, or name a directory");
	return OUTCOME_NO_TARGET;
}

static enum outcome list(const struct arguments *a, const char *path)
{
	struct entry *entries = NULL;
	size_t n = 0;
	int r = read_directory(path, &entries, &n);

	if (r < 0)
		outcome_report("cannot read the directory %s: %s", path, strerror(-r));
	else
		(a->output.json ? print_json : print_text)(path, entries, n);
	for (size_t i = 0; i < n; i++) {
		free(entries[i].name);
		if (entries[i].note)
			tfprofd__recording_snapshot__free_unpacked(entries[i].note, NULL);
	}
	free(entries);
	return r == 0 ? OUTCOME_OK : r == -EACCES ? OUTCOME_DENIED : OUTCOME_INTERNAL;
}

static enum outcome run(const struct arguments *a)
{
	_cleanup_free_ char *asked = NULL;
	enum outcome outcome = a->operand ? OUTCOME_OK : ask_daemon(a, &asked);

	return outcome == OUTCOME_OK ? list(a, a->operand ?: asked) : outcome;
}

const struct command command_snapshots = {
	.name = "snapshots",
	.summary = "List the snapshots that triggers have kept",
	.syntax = { .name = "tfprofctl snapshots",
		    .accepts = ACCEPT(JSON),
		    .operand = "[DIRECTORY]",
		    .description =
			    "List the snapshots in the directory (default: the daemon's snapshot-directory) that the sections [trigger NAME] "
			    "of its configuration have kept, the oldest first. Each is a recording: 'tfprofctl replay FILE' shows it.",
		    .notes =
			    "Exit codes: 0 listed; 1 internal error, or no such directory; 2 usage; 3 not permitted; 4 the daemon has no triggers." },
	.run = run,
};
