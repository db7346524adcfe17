/* SPDX-License-Identifier: Apache-2.0 */
/* What the front decides itself, for the broker's audit log: refusals before the broker is asked,
 * and reads. */
#pragma once

#include "daemon/broker/audit_note.h"
#include "daemon/rpc/context.h"

/* pid: the process in question, 0: none. Does not wait: what the broker is too busy to take is
 * counted, and the number is reported later. */
__attribute__((format(printf, 6, 7))) void audit_report(struct service *s,
							const struct grpc_call *call,
							enum audit_verdict verdict,
							enum audit_action action, pid_t pid,
							const char *format, ...);
/* A process id as a client named it; 0: no process has such an id. */
pid_t audit_pid(uint32_t named);
/* The same about a client without a call. */
void audit_report_peer(struct service *s, const struct peer *peer, enum audit_verdict verdict,
		       enum audit_action action, const char *reason);
/* If the client has a certificate: names it before its capture begins. */
void audit_introduce(struct service *s, const struct grpc_call *call);
