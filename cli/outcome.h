/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended: the exit codes that scripts rely on, and messages to people on standard
 * error. */
#pragma once

#include "lib/grpc/status.h"

enum outcome {
	OUTCOME_OK = 0,
	OUTCOME_INTERNAL = 1, /* also: cancelled, the daemon cannot be reached, the disk is full */
	OUTCOME_USAGE = 2,
	OUTCOME_DENIED = 3,
	OUTCOME_NO_TARGET = 4,
	OUTCOME_NOTHING = 5, /* nothing was seen in the window */
	OUTCOME_LOSS = 6,    /* captured, but not everything */
	OUTCOME_HOST = 7,    /* this host cannot */
};

enum outcome outcome_of_status(enum grpc_status status);
/* Of a negative errno of a connection or a call. */
enum outcome outcome_of_error(int error);

/* Writes "tfprofctl: …" as one line; what is not fit for a terminal in it is escaped. */
__attribute__((format(printf, 1, 2))) void outcome_say(const char *format, ...);
