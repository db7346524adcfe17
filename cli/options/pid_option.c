/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/pid_option.h"

#include "lib/base/number.h"

/* As PID_MAX_LIMIT of a 64-bit kernel. */
#define PID_MAX 4194304

uint32_t pid_take(const char *text, struct argp_state *state)
{
	uint64_t pid = 0;

	if (number_parse(text, 1, PID_MAX, &pid) < 0)
		argp_error(state, "'%s' is no process id", text);
	return (uint32_t)pid;
}

error_t pid_option_parse(int key, char *text, struct argp_state *state)
{
	struct pid_option *o = state->input;

	switch (key) {
	case 'p':
		o->pid = pid_take(text, state);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': a process is named by --pid", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
