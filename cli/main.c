/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl: the command line of tfprofd. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "lib/base/macro.h"

/* Prevents a file that is opened later from becoming one of the standard three. */
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

static int check_address(const struct daemon_address *address)
{
	const struct syntax *syntax = &command_global_syntax;

	if (!address->tls && (address->authorities || address->certificate || address->key))
		return arguments_refuse(syntax, "--ca, --cert and --key require --tls");
	if (!address->certificate != !address->key)
		return arguments_refuse(syntax, "--cert and --key must be given together");
	if (address->tls && !address->text)
		return arguments_refuse(syntax, "--tls requires --daemon HOST:PORT");
	return 0;
}

/* As arguments_read(), for the whole command line. */
static int read_command_line(int argc, char **argv, struct arguments *arguments,
			     const struct command **ret)
{
	int next = 0, unused, r;

	arguments_init(arguments);
	r = arguments_read(&command_global_syntax, argc, argv, arguments, &next);
	if (r != 0)
		return r;
	*ret = command_find(TAKE_PTR(arguments->operand) ?: "");
	if (!*ret)
		return -EINVAL;
	r = check_address(&arguments->daemon);
	if (r == 0)
		r = arguments_read(&(*ret)->syntax, argc - next + 1, argv + next - 1, arguments,
				   &unused);
	return r;
}

int main(int argc, char **argv)
{
	const struct command *command = NULL;
	enum outcome outcome = OUTCOME_OK;
	struct arguments arguments;
	int r;

	if (open_standard_files() < 0)
		return OUTCOME_INTERNAL;
	r = read_command_line(argc, argv, &arguments, &command);
	if (r < 0)
		return OUTCOME_USAGE;
	if (r == 0) {
		interrupt_catch();
		outcome = command->run(&arguments);
	}
	if (fflush(stdout) || ferror(stdout)) {
		outcome_report("cannot write to standard output");
		outcome = OUTCOME_INTERNAL;
	}
	return (int)outcome;
}
