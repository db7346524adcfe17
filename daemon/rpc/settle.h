/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that need to know which processes are targets wait until the files of those that have just
 * started were read. The event loop does not wait. */
#pragma once

#include "daemon/rpc/context.h"

typedef void (*settle_handler)(struct grpc_call *call, const uint8_t *message, size_t size,
			       void *data);

/*
 * Examines the processes (with none: all that the client may profile). True: the files of one are
 * being read; the handler is called with the same message once they were, or after a while. False:
 * continue.
 */
bool settle(struct service *s, struct grpc_call *call, settle_handler handler,
	    const uint8_t *message, size_t size, const uint32_t *pids, size_t n_pids);
/* Before the service is freed. */
void settle_free(struct service *s);
