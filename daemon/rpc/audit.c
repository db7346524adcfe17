/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

static bool send_note(struct service *s, const struct audit_note *note)
{
	return send(s->options.notes, note, sizeof(*note), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static void report(struct service *s, const struct audit_note *note)
{
	struct audit_note unsent = { .verdict = AUDIT_FAIL,
				     .action = AUDIT_STATUS,
				     .client = BROKER_DAEMON };

	if (s->notes_unsent) {
		snprintf(unsent.reason, sizeof(unsent.reason),
			 "%u lines of the front were not sent", s->notes_unsent);
		if (send_note(s, &unsent))
			s->notes_unsent = 0;
	}
	s->notes_unsent += !send_note(s, note);
}

pid_t audit_pid(uint32_t named)
{
	return named <= INT32_MAX ? (pid_t)named : 0;
}

void audit_report(struct service *s, const struct grpc_call *call, enum audit_verdict verdict,
		  enum audit_action action, pid_t pid, const char *format, ...)
{
	const struct peer *peer = grpc_call_peer(call);
	const char *subject = grpc_call_subject(call);
	struct audit_note note = { .verdict = verdict, .action = action, .pid = (uint32_t)pid };
	va_list ap;

	if (!peer)
		return;
	note.client = peer->client;
	snprintf(note.subject, sizeof(note.subject), "%s", subject ?: "");
	va_start(ap, format);
	vsnprintf(note.reason, sizeof(note.reason), format, ap);
	va_end(ap);
	report(s, &note);
}

void audit_report_peer(struct service *s, const struct peer *peer, enum audit_verdict verdict,
		       enum audit_action action, const char *reason)
{
	struct audit_note note = { .verdict = verdict, .action = action, .client = peer->client };

	snprintf(note.reason, sizeof(note.reason), "%s", reason);
	report(s, &note);
}

void audit_introduce(struct service *s, const struct grpc_call *call)
{
	if (grpc_call_subject(call))
		audit_report(s, call, AUDIT_INTRODUCE, AUDIT_CAPTURE, 0, "%s", "");
}
