/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/command.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/nearest.h"

#define NAMES_MAX_BYTES 128

static const struct command *const commands[] = {
	&command_capture,   &command_plan,   &command_targets,  &command_status,
	&command_stop,      &command_replay, &command_snapshot, &command_snapshots,
	&command_lifecycle, &command_doctor, &command_audit,    &command_help,
	&command_version,
};

static void print_commands(void)
{
	puts("Commands:");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-9s  %s\n", commands[i]->name, commands[i]->summary);
	puts("\nOptions:");
}

const struct syntax command_global_syntax = {
	.name = "tfprofctl",
	.accepts = ACCEPT(VERSION) | ACCEPT(DAEMON) | ACCEPT(TLS) | ACCEPT(CA) |
		   ACCEPT(CERTIFICATE) | ACCEPT(KEY),
	.operand = "COMMAND [OPTION...]",
	.is_prefix = true,
	.print_operands = print_commands,
	.description = "Profile model servers from outside, through the daemon tfprofd.",
	.notes = "'tfprofctl help COMMAND' describes a command.",
};

const struct command *command_find(const char *name)
{
	const char *names[ARRAY_SIZE(commands)], *nearest;
	char list[NAMES_MAX_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		names[i] = commands[i]->name;
		if (!strcmp(name, names[i]))
			return commands[i];
		n += (size_t)snprintf(list + n, sizeof(list) - MIN(n, sizeof(list)), "%s%s",
				      i ? ", " : "", names[i]);
	}
	nearest = nearest_name(name, names, ARRAY_SIZE(commands));
	if (!*name)
		arguments_refuse(&command_global_syntax, "no command: use one of %s", list);
	else if (nearest)
		arguments_refuse(&command_global_syntax, "unknown command '%s'; did you mean '%s'?",
				 name, nearest);
	else
		arguments_refuse(&command_global_syntax, "unknown command '%s': use one of %s",
				 name, list);
	return NULL;
}
