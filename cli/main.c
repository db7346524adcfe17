/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl: the command line of tfprofd. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/command.h"
#include "cli/connect/session.h"
#include "cli/interrupt.h"
#include "lib/base/macro.h"

const char *argp_program_version = "tfprofctl 0.1";

static const struct command {
	const char *name;
	char *full_name; /* for its messages */
	enum outcome (*run)(int argc, char **argv, const struct daemon_address *address);
	const char *what;
} commands[] = {
	{ "capture", "tfprofctl capture", command_capture,
	  "captures, writes a run for TensorBoard and prints a summary" },
	{ "doctor", "tfprofctl doctor", command_doctor,
	  "says what stands in the way of a capture" },
	{ "lifecycle", "tfprofctl lifecycle", command_lifecycle,
	  "shows how processes came to serve: libraries, models, first request" },
	{ "plan", "tfprofctl plan", command_plan,
	  "shows what a capture would attach, and what that would cost" },
	{ "replay", "tfprofctl replay", command_replay,
	  "makes of a recording what its capture made" },
	{ "snapshot", "tfprofctl snapshot", command_snapshot,
	  "what happened just now, out of the daemon's recorder" },
	{ "status", "tfprofctl status", command_status, "says what the daemon does just now" },
	{ "stop", "tfprofctl stop", command_stop, "ends captures early" },
	{ "targets", "tfprofctl targets", command_targets, "lists what can be profiled" },
};

#define NAMES_MAX_BYTES 128

struct main_options {
	struct daemon_address address;
	const struct command *command;
	int first; /* where the command stands in argv */
};

enum { OPTION_CA = 256, OPTION_CERTIFICATE, OPTION_KEY };

static const struct argp_option options[] = {
	{ "daemon", 'D', "ADDRESS", 0,
	  "Where the daemon listens: unix:PATH, @NAME or HOST:PORT; " SESSION_DEFAULT_ADDRESS
	  " unless given, and when no daemon is there, one is started for this command only",
	  0 },
	{ "tls", 'T', NULL, 0,
	  "The daemon speaks TLS, and its certificate is for the HOST of its address", 0 },
	{ "ca", OPTION_CA, "FILE", 0,
	  "Whose certificates the daemon's has to be signed by (PEM); those that the system trusts unless given",
	  0 },
	{ "cert", OPTION_CERTIFICATE, "FILE", 0,
	  "The certificate to show to a daemon that asks for one (PEM)", 0 },
	{ "key", OPTION_KEY, "FILE", 0, "Its key (PEM, not encrypted)", 0 },
	{}
};

/* "capture, plan, targets" */
static const char *command_names(char text[static NAMES_MAX_BYTES])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(commands) && n < NAMES_MAX_BYTES; i++)
		n += (size_t)snprintf(text + n, NAMES_MAX_BYTES - n, "%s%s", i ? ", " : "",
				      commands[i].name);
	return text;
}

static void take_command(struct main_options *o, const char *name, struct argp_state *state)
{
	char names[NAMES_MAX_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i].name))
			o->command = &commands[i];
	if (!o->command)
		argp_error(state, "there is no command '%s': give one of %s", name,
			   command_names(names));
	o->first = state->next - 1;
	/* The rest is the command's. */
	state->next = state->argc;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct main_options *o = state->input;
	char names[NAMES_MAX_BYTES];

	switch (key) {
	case 'D':
		o->address.text = text;
		return 0;
	case 'T':
		o->address.tls = true;
		return 0;
	case OPTION_CA:
		o->address.authorities = text;
		return 0;
	case OPTION_CERTIFICATE:
		o->address.certificate = text;
		return 0;
	case OPTION_KEY:
		o->address.key = text;
		return 0;
	case ARGP_KEY_END:
		if (!o->address.tls &&
		    (o->address.authorities || o->address.certificate || o->address.key))
			argp_error(state, "--ca, --cert and --key are of use with --tls only");
		if (!o->address.certificate != !o->address.key)
			argp_error(state, "--cert and --key go together");
		if (o->address.tls && !o->address.text)
			argp_error(state, "--tls needs --daemon HOST:PORT");
		return 0;
	case ARGP_KEY_ARG:
		take_command(o, text, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command: give one of %s", command_names(names));
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The commands are told where --help ends; argp frees what this returns. */
static char *filter_help(int key, const char *text, void *input)
{
	size_t size = 0;
	FILE *file;
	char *all;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	file = open_memstream(&all, &size);
	if (!file)
		return (char *)text;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(file, "  %-9s %s\n", commands[i].name, commands[i].what);
	fprintf(file, "\n%s", text);
	return fclose(file) ? NULL : all;
}

/* So that no file that is opened later is taken for one of the standard three. */
static int open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "COMMAND [OPTION...]",
		.doc = "Profiles model servers from outside, by tfprofd.\vtfprofctl COMMAND --help tells more.",
		.help_filter = filter_help,
	};
	struct main_options o = {};
	enum outcome outcome;

	if (open_standard_files() < 0)
		return OUTCOME_INTERNAL;
	argp_err_exit_status = OUTCOME_USAGE;
	argv[0] = program_invocation_short_name;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o))
		return OUTCOME_USAGE;
	argv[o.first] = o.command->full_name;
	interrupt_catch();
	outcome = o.command->run(argc - o.first, argv + o.first, &o.address);
	if (fflush(stdout) || ferror(stdout)) {
		outcome_say("cannot write to standard output");
		outcome = OUTCOME_INTERNAL;
	}
	return (int)outcome;
}
