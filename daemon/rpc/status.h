/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's present state, as far as a client may see it. */
#pragma once

#include <stdio.h>

#include "daemon/broker/audit_note.h"
#include "daemon/rpc/context.h"
#include "lib/base/histogram.h"
#include "proto/control.pb-c.h"

#define STATUS_CAPTURES_MAX 32

struct status;

/* action: of the call, for the audit log. The reply is valid until the status is freed, by free().
 * NULL: no memory. */
const Tfprofd__StatusReply *status_new(struct service *s, const struct grpc_call *call,
				       enum audit_action action, struct status **ret);
/* Human-readable: one line each; more: additional details for diagnosis. */
void status_print(FILE *f, const Tfprofd__StatusReply *reply, bool more);
/* A target as a message, which refers to it and to the address. */
void status_fill_target(const struct target *target, Tfprofd__Target *ret, char address[static 32]);
/* The requests of a process that have finished since the recorder, or otherwise a capture, began to
 * count. False: nothing counts them. */
bool status_of_requests(const struct service *s, pid_t pid, struct histogram *ret,
			double *ret_seconds);

void control_status(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
void control_stop(struct grpc_call *call, const uint8_t *message, size_t size, void *data);
