/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl help: what tfprofctl, or a command of it, accepts. */
#include <stdio.h>

#include "cli/commands/command.h"

static enum outcome run(const struct arguments *a)
{
	const struct command *command;

	if (!a->operand) {
		arguments_print_help(&command_global_syntax);
		return OUTCOME_OK;
	}
	command = command_find(a->operand);
	if (!command)
		return OUTCOME_USAGE;
	arguments_print_help(&command->syntax);
	return OUTCOME_OK;
}

const struct command command_help = {
	.name = "help",
	.summary = "Describe tfprofctl or one of its commands",
	.syntax = { .name = "tfprofctl help",
		    .operand = "[COMMAND]",
		    .description = "Describe tfprofctl or one of its commands." },
	.run = run,
};
