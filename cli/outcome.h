/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes, which scripts rely on, and messages to the user on standard error. */
#pragma once

#include "lib/grpc/status.h"

enum outcome {
	OUTCOME_OK = 0,
	OUTCOME_INTERNAL = 1, /* also: canceled, the daemon cannot be reached, the disk is full */
	OUTCOME_USAGE = 2,
	OUTCOME_DENIED = 3,
	OUTCOME_NO_TARGET = 4,
	OUTCOME_NOTHING = 5, /* nothing was captured in the window */
	OUTCOME_LOSS = 6,    /* captured in part */
	OUTCOME_HOST = 7,    /* not possible on this host */
};

enum outcome outcome_of_status(enum grpc_status status);
/* For a negative errno of a connection or a call. */
enum outcome outcome_of_error(int error);

/* Writes "tfprofctl: …" as one line; control characters in it are escaped. */
__attribute__((format(printf, 1, 2))) void outcome_report(const char *format, ...);
