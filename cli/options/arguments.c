/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/arguments.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/text.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"
#include "lib/base/options.h"
#include "lib/base/percent.h"

#define DEFAULT_LEVEL 2
#define DEFAULT_LOGDIR "tfprofd-logdir"
/* PID_MAX_LIMIT of a 64-bit kernel. */
#define PID_MAX 4194304
#define LEVEL_MAX 3
#define STACKS_HZ_MAX 999
#define SLOWEST_MAX 1000
#define REQUESTS_MAX 1000000
#define TEXT_MAX 4096

#define REFUSE(...) (snprintf(error, OPTIONS_TEXT, __VA_ARGS__), -EINVAL)

/* Sets the field of the arguments that the row is for; on -EINVAL error gives the reason. text is
 * the option's argument. */
typedef int (*set_fn)(void *field, const struct option_row *row, const char *text,
		      char error[static OPTIONS_TEXT]);

static int set_text(void *field, const struct option_row *row, const char *text,
		    char error[static OPTIONS_TEXT])
{
	*(const char **)field = text;
	return 0;
}

static int set_flag(void *field, const struct option_row *row, const char *text,
		    char error[static OPTIONS_TEXT])
{
	*(bool *)field = true;
	return 0;
}

static int set_glob(void *field, const struct option_row *row, const char *text,
		    char error[static OPTIONS_TEXT])
{
	if (!*text || strlen(text) > TEXT_MAX)
		return REFUSE("the %s of --%s must have 1 to %d bytes", row->argument, row->name,
			      TEXT_MAX);
	*(const char **)field = text;
	return 0;
}

static int set_time(void *field, const struct option_row *row, const char *text,
		    char error[static OPTIONS_TEXT])
{
	int r = duration_parse(text, field);

	if (r == -EINVAL)
		return REFUSE("invalid duration '%.80s': use 500ms, 2s, 1.5s or 1m", text);
	if (r < 0)
		return REFUSE("the duration must be more than 0 and at most one hour, not '%.80s'",
			      text);
	return 0;
}

static int set_percent(void *field, const struct option_row *row, const char *text,
		       char error[static OPTIONS_TEXT])
{
	int r = percent_parse(text, field);

	if (r == -EINVAL)
		return REFUSE("invalid percentage '%.80s': use 1, 0.5 or 20%%", text);
	if (r < 0)
		return REFUSE("the overhead must be more than 0 and at most 100 %%, not '%.80s'",
			      text);
	return 0;
}

static int set_pid(void *field, const struct option_row *row, const char *text,
		   char error[static OPTIONS_TEXT])
{
	struct selection *s = field;
	uint64_t pid = 0;

	if (number_parse(text, 1, PID_MAX, &pid) < 0)
		return REFUSE("invalid process ID '%.80s'", text);
	for (size_t i = 0; i < s->n_pids; i++)
		if (s->pids[i] == pid)
			return 0;
	if (s->n_pids >= SELECTION_PIDS_MAX)
		return REFUSE("at most %d processes can be given", SELECTION_PIDS_MAX);
	s->pids[s->n_pids++] = (uint32_t)pid;
	return 0;
}

static int set_level(void *field, const struct option_row *row, const char *text,
		     char error[static OPTIONS_TEXT])
{
	uint64_t level;

	if (number_parse(text, 1, LEVEL_MAX, &level) < 0)
		return REFUSE("invalid level '%.80s': use 1, 2 or 3", text);
	*(uint32_t *)field = (uint32_t)level;
	return 0;
}

static int parse_count(const char *text, uint64_t max, const char *what, uint64_t *ret,
		       char error[static OPTIONS_TEXT])
{
	int r = number_parse(text, 1, max, ret);

	if (r == -EINVAL)
		return REFUSE("invalid number of %s '%.80s'", what, text);
	if (r < 0)
		return REFUSE("the number of %s must be 1 to %llu, not '%.80s'", what,
			      (unsigned long long)max, text);
	return 0;
}

static int set_stacks(void *field, const struct option_row *row, const char *text,
		      char error[static OPTIONS_TEXT])
{
	uint64_t number = STACKS_HZ_DEFAULT;
	int r = text ? parse_count(text, STACKS_HZ_MAX, "samples a second", &number, error) : 0;

	*(uint32_t *)field = (uint32_t)number;
	return r;
}

static int set_slowest(void *field, const struct option_row *row, const char *text,
		       char error[static OPTIONS_TEXT])
{
	uint64_t number = 0;
	int r = parse_count(text, SLOWEST_MAX, "slowest requests", &number, error);

	*(uint32_t *)field = (uint32_t)number;
	return r;
}

static int set_count(void *field, const struct option_row *row, const char *text,
		     char error[static OPTIONS_TEXT])
{
	return parse_count(text, REQUESTS_MAX, "requests", field, error);
}

/* The index of the text among the two choices of the row, "on|off"; no text means the first. */
static int choose(const struct option_row *row, const char *text, char error[static OPTIONS_TEXT])
{
	int length = (int)strcspn(row->argument, "|");
	const char *second = row->argument + length + 1;

	if (!text || (!strncmp(text, row->argument, (size_t)length) && !text[length]))
		return 0;
	if (!strcmp(text, second))
		return 1;
	return REFUSE("invalid value '%.80s' for --%s: use %.*s or %s", text, row->name, length,
		      row->argument, second);
}

/* The field is true for the second choice. */
static int set_second(void *field, const struct option_row *row, const char *text,
		      char error[static OPTIONS_TEXT])
{
	int choice = choose(row, text, error);

	*(bool *)field = choice == 1;
	return MIN(choice, 0);
}

static int set_memory(void *field, const struct option_row *row, const char *text,
		      char error[static OPTIONS_TEXT])
{
	int choice = choose(row, text, error);

	*(Tfprofd__Memory *)field = choice == 1 ? TFPROFD__MEMORY__OFF : TFPROFD__MEMORY__ON;
	return MIN(choice, 0);
}

static int set_output_choice(void *field, const struct option_row *row, const char *text,
			     char error[static OPTIONS_TEXT])
{
	int choice = choose(row, text, error);

	*(struct output_choice *)field =
		(struct output_choice){ .on = choice == 0, .is_given = true };
	return MIN(choice, 0);
}

#define FIELD(member) offsetof(struct arguments, member)
#define REQUESTS "Requests:"

/* The only place that assigns letters. */
static const struct option_entry {
	struct option_row row;
	set_fn set; /* NULL: answered at once */
	size_t field;
} table[OPTION_COUNT] = {
	[OPTION_HELP] = { { .name = "help", .letter = 'h', .help = "Show this help" } },
	[OPTION_VERSION] = { { .name = "version", .letter = 'V', .help = "Show the version" } },
	[OPTION_DAEMON] = { { "daemon", 'D', false, "ADDRESS",
			      "Address of the daemon: unix:PATH, @NAME or HOST:PORT (default: " DAEMON_DEFAULT_ADDRESS
			      "; if no daemon listens there, the command starts one for itself)" },
			    set_text,
			    FIELD(daemon.text) },
	[OPTION_TLS] = { { "tls", 'T', false, NULL,
			   "Connect by TLS; the daemon's certificate must be valid for the HOST of its address" },
			 set_flag,
			 FIELD(daemon.tls) },
	[OPTION_CA] = { { "ca", 0, false, "FILE",
			  "Certificate authorities for verifying the daemon's certificate, PEM (default: those of the system)" },
			set_text,
			FIELD(daemon.authorities) },
	[OPTION_CERTIFICATE] = { { "cert", 0, false, "FILE", "Client certificate, PEM" },
				 set_text,
				 FIELD(daemon.certificate) },
	[OPTION_KEY] = { { "key", 0, false, "FILE",
			   "Private key of the client certificate, PEM, not encrypted" },
			 set_text,
			 FIELD(daemon.key) },
	[OPTION_PID] = { { "pid", 'p', false, "PID",
			   "Process to capture; may be repeated (default: every process that you may profile)" },
			 set_pid,
			 FIELD(selection) },
	[OPTION_DURATION] = { { "duration", 'd', false, "TIME",
				"Length of the window: 500ms, 2s, 1m; a number alone is seconds (default: 2s; with --requests-count, 1m)" },
			      set_time,
			      FIELD(duration_ns) },
	[OPTION_LAST] = { { "last", 0, false, "TIME",
			    "Length of the recorded time to write, up to now: 10s, 500ms (default: all of it)" },
			  set_time,
			  FIELD(last_ns) },
	[OPTION_LEVEL] = { { "level", 'l', false, "1|2|3",
			     "1: runs; 2: also operations; 3: also cheap operations, scheduler switches and allocations (default: 2)" },
			   set_level,
			   FIELD(selection.level) },
	[OPTION_OPS] = { { "ops", 'O', false, "exact|entry",
			   "exact: an operation ends where it returns; entry: one probe per operation instead of two, so that it ends "
			   "where the next one starts or its executor returns (default: exact)" },
			 set_second,
			 FIELD(selection.ops_at_entry) },
	[OPTION_SOCKETS] = { { "sockets", 'S', false, "auto|off",
			       "auto: observe requests at sockets unless the process's own functions report them; off: never: "
			       "before Linux 6.3, without fexit, this slows down every system call of the host a little (default: auto)" },
			     set_second,
			     FIELD(selection.no_sockets) },
	[OPTION_MEMORY] = { { "memory", 'M', true, "on|off",
			      "Capture allocations (default: only at level 3)" },
			    set_memory,
			    FIELD(selection.memory) },
	[OPTION_STACKS] = { { "stacks", 0, true, "HZ",
			      "Sample what threads execute, HZ times a second on each CPU (default: not; without HZ: 99)" },
			    set_stacks,
			    FIELD(selection.stacks_hz) },
	[OPTION_MAX_OVERHEAD] = { { "max-overhead", 'm', false, "PERCENT",
				    "Budget for the probes, in percent of the processes' CPU time; above it, ops are sampled and other "
				    "kinds of probes disabled, the most expensive first and runs last (default: no limit for root, 5 for others)" },
				  set_percent,
				  FIELD(max_overhead) },
	[OPTION_LOGDIR] = { { "logdir", 'o', false, "LOGDIR",
			      "Log directory of TensorBoard, created if missing (default: " DEFAULT_LOGDIR
			      ")" },
			    set_text,
			    FIELD(output.logdir) },
	[OPTION_RECORD] = { { "record", 'r', false, "FILE.tfp",
			      "Write a recording, from which tfprofctl replay recreates the output" },
			    set_text,
			    FIELD(record) },
	[OPTION_FOLDED] = { { "folded", 0, false, "FILE",
			      "Write the sampled stacks as text for flame graphs; turns --stacks on; replaces the file" },
			    set_text,
			    FIELD(output.exports[EXPORT_FOLDED]) },
	[OPTION_PPROF] = { { "pprof", 0, false, "FILE",
			     "Write the sampled stacks as a profile for pprof; turns --stacks on; replaces the file" },
			   set_text,
			   FIELD(output.exports[EXPORT_PPROF]) },
	[OPTION_DEVICE_PLANE] = { { "device-plane", 0, true, "on|off",
				    "Present the CPU as a device, too: HLO Op Profile, HLO Op Stats and Roofline Model then show operations, "
				    "but Overview and Input Pipeline Analysis lose their steps (default: off; of a recording: as captured)" },
				  set_output_choice,
				  FIELD(output.device_plane) },
	[OPTION_INPUT_STAGES] = { { "input-stages", 0, true, "on|off",
				    "Show the phases of a request before its execution as stages in Input Pipeline Analysis; Framework Op "
				    "Stats then counts them as operations (default: off; of a recording: as captured)" },
				  set_output_choice,
				  FIELD(output.input_stages) },
	[OPTION_EXPLAIN] = { { "explain", 'e', false, NULL,
			       "First show what is attached and what it costs, as tfprofctl plan does" },
			     set_flag,
			     FIELD(output.explain) },
	[OPTION_JSON] = { { "json", 'j', false, NULL, "Print one JSON object" },
			  set_flag,
			  FIELD(output.json) },
	[OPTION_REQUESTS] = { { "requests", 0, false, "FILE",
				"Write every request as a line of JSON; replaces the file",
				REQUESTS },
			      set_text,
			      FIELD(requests.file) },
	[OPTION_SLOWEST] = { { "slowest", 0, false, "K",
			       "Show the K slowest requests and what each one waited for",
			       REQUESTS },
			     set_slowest,
			     FIELD(requests.slowest) },
	[OPTION_REQUESTS_COUNT] = { { "requests-count", 0, false, "N",
				      "End the window when N requests have finished, or after --duration",
				      REQUESTS },
				    set_count,
				    FIELD(requests.count) },
	[OPTION_SLOWER_THAN] = { { "slower-than", 0, false, "TIME",
				   "Show only requests that took longer", REQUESTS },
				 set_time,
				 FIELD(requests.slower_than_ns) },
	[OPTION_PATH] = { { "path", 0, false, "GLOB",
			    "Show only requests of these paths; * matches any text, ? one character",
			    REQUESTS },
			  set_glob,
			  FIELD(requests.path) },
	[OPTION_MODEL] = { { "model", 0, false, "NAME", "Show only requests of this model",
			     REQUESTS },
			   set_glob,
			   FIELD(requests.model) },
};

_Static_assert(OPTION_COUNT <= 32, "a bit for each option");

/* The rows that a command accepts, and the options that they are; returns their number. */
static size_t list_rows(const struct syntax *syntax, struct option_row rows[static OPTION_COUNT],
			enum option_id ids[static OPTION_COUNT])
{
	const char *heading = NULL;
	size_t n = 0;

	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		if (!((syntax->accepts | ACCEPT(HELP)) & UINT32_C(1) << id))
			continue;
		rows[n] = table[id].row;
		/* Only the first row of a group has its heading. */
		if (rows[n].heading == heading)
			rows[n].heading = NULL;
		else
			heading = rows[n].heading;
		if (id == OPTION_PID && syntax->pid_help)
			rows[n].help = syntax->pid_help;
		if (id == OPTION_LAST && syntax->last_help)
			rows[n].help = syntax->last_help;
		ids[n++] = (enum option_id)id;
	}
	return n;
}

void arguments_init(struct arguments *a)
{
	*a = (struct arguments){ .selection.level = DEFAULT_LEVEL,
				 .output.logdir = DEFAULT_LOGDIR };
}

void arguments_print_help(const struct syntax *syntax)
{
	struct option_row rows[OPTION_COUNT];
	enum option_id ids[OPTION_COUNT];
	size_t n = list_rows(syntax, rows, ids);

	printf("Usage: %s [OPTION...]%s%s\n", syntax->name, syntax->operand ? " " : "",
	       syntax->operand ?: "");
	options_print_wrapped(stdout, syntax->description, 0, 0);
	fputc('\n', stdout);
	if (syntax->print_operands)
		syntax->print_operands();
	options_print_help(stdout, rows, n);
	if (syntax->notes) {
		fputc('\n', stdout);
		options_print_wrapped(stdout, syntax->notes, 0, 0);
	}
}

int arguments_refuse(const struct syntax *syntax, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", syntax->name);
	va_start(ap, format);
	text_write_line(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "See '%s --help'.\n", syntax->name);
	return -EINVAL;
}

/* An option that another command has, or that belongs before the command, is not merely unknown. */
static int refuse_option(const struct syntax *syntax, const char *word, const char *error)
{
	size_t length = strcspn(word, "=");

	for (unsigned id = 0; id < OPTION_COUNT && !strncmp(word, "--", 2); id++) {
		const char *name = table[id].row.name;

		if (syntax->accepts & UINT32_C(1) << id || strlen(name) != length - 2 ||
		    strncmp(name, word + 2, length - 2))
			continue;
		if (id >= OPTION_DAEMON && id <= OPTION_KEY)
			return arguments_refuse(syntax, "'--%s' must precede the command", name);
		if (id > OPTION_KEY)
			return arguments_refuse(syntax, "'--%s' is not an option of this command",
						name);
	}
	return arguments_refuse(syntax, "%s", error);
}

static int take_operand(const struct syntax *syntax, struct arguments *a, const char *text)
{
	if (syntax->operand && !a->operand) {
		a->operand = text;
		return 0;
	}
	return arguments_refuse(syntax, "unexpected argument '%s'%s", text,
				syntax->accepts & ACCEPT(PID) ? ": use --pid to name a process"
							      : "");
}

static int check(const struct syntax *syntax, const struct arguments *a)
{
	if (syntax->no_operand && !a->operand)
		return arguments_refuse(syntax, "%s", syntax->no_operand);
	if (syntax->pids_max && a->selection.n_pids > syntax->pids_max)
		return arguments_refuse(syntax, "give --pid only once");
	return 0;
}

int arguments_read(const struct syntax *syntax, int argc, char **argv, struct arguments *a,
		   int *ret_next)
{
	struct option_row rows[OPTION_COUNT];
	enum option_id ids[OPTION_COUNT];
	size_t n = list_rows(syntax, rows, ids);
	char error[OPTIONS_TEXT];
	struct options options;
	const char *text;
	int row, r = 0;

	options_begin(&options, rows, n, argc, argv);
	while (r >= 0 && (row = options_next(&options, &text, error)) != OPTIONS_END) {
		if (row == OPTIONS_ERROR)
			return refuse_option(syntax, argv[options_position() - 1], error);
		if (row == OPTIONS_OPERAND) {
			r = take_operand(syntax, a, text);
			if (r < 0 || syntax->is_prefix)
				break;
		} else if (ids[row] == OPTION_HELP) {
			arguments_print_help(syntax);
			return 1;
		} else if (ids[row] == OPTION_VERSION) {
			puts("tfprofctl " TFPROFD_VERSION);
			return 1;
		} else {
			const struct option_entry *entry = &table[ids[row]];

			if (entry->set((char *)a + entry->field, &entry->row, text, error) < 0)
				return arguments_refuse(syntax, "%s", error);
		}
	}
	*ret_next = options_position();
	return r < 0 ? r : check(syntax, a);
}
