/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the audit log (audit.h), and what the front reports for it: one datagram each, on
 * the socket on which the broker sends its events. */
#pragma once

#include <stdint.h>

enum audit_verdict {
	AUDIT_ALLOW,
	AUDIT_DENY,
	AUDIT_START, /* the probes of a capture are attached */
	AUDIT_STOP,  /* a capture has ended */
	AUDIT_SHED,  /* a kind of probes was disabled, to keep a limit */
	AUDIT_LOST,  /* there was no room: for records in the kernel, for lines in the file */
	AUDIT_FAIL,  /* permitted, and not possible */
	AUDIT_VERDICTS,
	/* Of a note: no line, only the certificate of a client whose capture follows. */
	AUDIT_INTRODUCE = AUDIT_VERDICTS,
};

enum audit_action {
	AUDIT_CONNECT,
	AUDIT_CAPTURE,
	AUDIT_PLAN,
	AUDIT_LIST, /* of targets */
	AUDIT_MONITOR,
	AUDIT_STATUS,
	AUDIT_END, /* a capture that runs */
	AUDIT_RECORDER,
	AUDIT_SNAPSHOT,
	AUDIT_LIFECYCLE,
	AUDIT_DOCTOR,
	AUDIT_LOG, /* the file itself; of the broker's own lines only */
	AUDIT_ACTIONS,
};

#define AUDIT_REASON_MAX 256
#define AUDIT_SUBJECT_MAX 256

/* The broker relies on nothing in it: the line is marked as the front's. */
struct audit_note {
	uint32_t verdict, action;
	uint32_t client; /* its id */
	uint32_t pid;    /* the target; 0: none */
	char reason[AUDIT_REASON_MAX];
	/* Of the client's certificate, which only the front has seen; "": none. */
	char subject[AUDIT_SUBJECT_MAX];
};
