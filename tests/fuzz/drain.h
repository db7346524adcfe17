/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a session that a fuzzer feeds. */
#pragma once

#include <sys/uio.h>

#include "lib/grpc/session.h"

/* Takes all that the session has to say; an error ends the connection. */
static inline int drain(struct grpc_session *session)
{
	struct iovec iov[GRPC_OUTPUT_PIECES];
	size_t n, size;
	int r;

	while ((r = grpc_session_output(session, iov, &n, &size)) >= 0 && size)
		grpc_session_written(session, size);
	return r;
}
