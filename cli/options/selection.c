/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/selection.h"

#include <string.h>

#include "cli/options/pid_option.h"
#include "lib/base/number.h"

#define LEVEL_MAX 3

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0,
	  "This process; may be given several times. Without it: all that you may profile", 0 },
	{ "level", 'l', "1|2|3", 0,
	  "1: runs, 2: and operations (the default), 3: and cheap operations, scheduler switches, allocations",
	  0 },
	{ "ops", 'O', "exact|entry", 0,
	  "exact: operations end where they end (the default); entry: at one probe each instead of two they end where the "
	  "next one starts, or where the executor leaves",
	  0 },
	{ "sockets", 'S', "auto|off", 0,
	  "auto: requests are seen at the processes' sockets, unless their own functions tell of them (the default); off: not at "
	  "sockets, which costs every process of this host a little at each system call",
	  0 },
	{ "memory", 'M', "on|off", OPTION_ARG_OPTIONAL,
	  "on, or without a value: allocations are seen, too; off: not even at level 3, which otherwise has them",
	  0 },
	{}
};

static void add_pid(struct argp_state *state, struct selection *s, const char *text)
{
	uint32_t pid = pid_take(text, state);

	for (size_t i = 0; i < s->n_pids; i++)
		if (s->pids[i] == pid)
			return;
	if (s->n_pids >= SELECTION_PIDS_MAX)
		argp_error(state, "at most %d processes can be named", SELECTION_PIDS_MAX);
	s->pids[s->n_pids++] = pid;
}

/* argp_error() does not return. */
static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct selection *s = state->input;
	uint64_t level;

	switch (key) {
	case 'p':
		add_pid(state, s, text);
		return 0;
	case 'l':
		if (number_parse(text, 1, LEVEL_MAX, &level) < 0)
			argp_error(state, "'%s' is no level: give 1, 2 or 3", text);
		s->level = (uint32_t)level;
		return 0;
	case 'O':
		s->ops_at_entry = !strcmp(text, "entry");
		if (!s->ops_at_entry && strcmp(text, "exact"))
			argp_error(state, "'%s' is no way to see operations: give exact or entry",
				   text);
		return 0;
	case 'S':
		s->no_sockets = !strcmp(text, "off");
		if (!s->no_sockets && strcmp(text, "auto"))
			argp_error(state, "'%s' is no way to follow sockets: give auto or off",
				   text);
		return 0;
	case 'M':
		s->memory =
			text && !strcmp(text, "off") ? TFPROFD__MEMORY__OFF : TFPROFD__MEMORY__ON;
		if (text && strcmp(text, "on") && strcmp(text, "off"))
			argp_error(state, "'%s' is no choice for allocations: give on or off",
				   text);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': processes are named by --pid", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp selection_argp = { .options = options, .parser = parse_option };
