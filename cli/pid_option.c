#include "cli/pid_option.h"

#include <errno.h>
#include <stdlib.h>

error_t pid_option_parse(int key, char *text, struct argp_state *state)
{
	struct pid_option *o = state->input;
	unsigned long pid;
	char *end;

	switch (key) {
	case 'p':
		errno = 0;
		pid = strtoul(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || errno || !pid || pid > PID_MAX)
			argp_error(state, "'%s' is no process id", text);
		o->pid = (uint32_t)pid;
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
