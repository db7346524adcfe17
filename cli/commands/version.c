/* SPDX-License-Identifier: Apache-2.0 */
/* tfprofctl version: that of tfprofctl; the daemon's is shown by tfprofctl status. */
#include <stdio.h>

#include "cli/commands/command.h"

static enum outcome run(const struct arguments *a)
{
	puts("tfprofctl " TFPROFD_VERSION);
	return OUTCOME_OK;
}

const struct command command_version = {
	.name = "version",
	.summary = "Show the version of tfprofctl",
	.syntax = { .name = "tfprofctl version",
		    .description =
			    "Show the version of tfprofctl. 'tfprofctl status' shows that of the daemon." },
	.run = run,
};
