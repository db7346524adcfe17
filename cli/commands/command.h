/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of tfprofctl, each in a file of its name. */
#pragma once

#include <stddef.h>

#include "cli/options/arguments.h"
#include "cli/outcome.h"

struct command {
	const char *name;
	const char *summary; /* for the list of commands */
	struct syntax syntax;
	enum outcome (*run)(const struct arguments *arguments);
};

extern const struct command command_audit, command_capture, command_doctor, command_help,
	command_lifecycle, command_plan, command_replay, command_snapshot, command_snapshots,
	command_status, command_stop, command_targets, command_version;

/* What precedes the command. */
extern const struct syntax command_global_syntax;

/* NULL: there is none of this name, which was explained to the user. */
const struct command *command_find(const char *name);
