/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outcome.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/report/text.h"
#include "lib/base/macro.h"

enum outcome outcome_of_status(enum grpc_status status)
{
	switch (status) {
	case GRPC_OK:
		return OUTCOME_OK;
	case GRPC_INVALID_ARGUMENT:
	case GRPC_OUT_OF_RANGE:
		return OUTCOME_USAGE;
	case GRPC_PERMISSION_DENIED:
	case GRPC_UNAUTHENTICATED:
		return OUTCOME_DENIED;
	case GRPC_NOT_FOUND:
		return OUTCOME_NO_TARGET;
	case GRPC_FAILED_PRECONDITION:
	case GRPC_UNIMPLEMENTED:
		return OUTCOME_HOST;
	default:
		return OUTCOME_INTERNAL;
	}
}

enum outcome outcome_of_error(int error)
{
	switch (error) {
	case -EINVAL:
		return OUTCOME_USAGE;
	case -EACCES:
	case -EPERM:
		return OUTCOME_DENIED;
	default:
		return OUTCOME_INTERNAL;
	}
}

void outcome_report(const char *format, ...)
{
	va_list ap;

	/* Erases a line of progress. */
	fputs(isatty(STDERR_FILENO) ? "\r\033[Ktfprofctl: " : "tfprofctl: ", stderr);
	va_start(ap, format);
	text_write_line(stderr, format, ap);
	va_end(ap);
}
