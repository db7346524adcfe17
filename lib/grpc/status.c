/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/status.h"

#include <stddef.h>

#include "lib/base/macro.h"

const char *grpc_status_name(enum grpc_status status)
{
	static const char *const names[] = {
		[GRPC_OK] = "OK",
		[GRPC_CANCELLED] = "CANCELLED",
		[GRPC_UNKNOWN] = "UNKNOWN",
		[GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
		[GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
		[GRPC_NOT_FOUND] = "NOT_FOUND",
		[GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
		[GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
		[GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
		[GRPC_ABORTED] = "ABORTED",
		[GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
		[GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[GRPC_INTERNAL] = "INTERNAL",
		[GRPC_UNAVAILABLE] = "UNAVAILABLE",
		[GRPC_DATA_LOSS] = "DATA_LOSS",
		[GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};

	return (size_t)status < ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}
