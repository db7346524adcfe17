/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: a line per decision, with who asked (user, process, program, certificate), about
 * which process (program, cgroup), the verdict and what was delivered. Lines go to the file
 * AUDIT_FILE in the state directory, and to the journal, or to the log where there is no journal.
 * The broker writes them: what they state is known from the kernel, except what is marked
 * reported_by=front. Nothing here waits; any thread may use it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/audit_note.h"
#include "daemon/broker/kernel/counts.h"
#include "daemon/broker/message.h"

#define AUDIT_FILE "audit.log"
#define AUDIT_FILE_OLD "audit.log.1"
/* A file of this size becomes the old one, which is replaced. */
#define AUDIT_FILE_BYTES (8u << 20)
#define AUDIT_NO_USER ((uid_t)-1)

struct audit;

/* directory: the state directory, borrowed; -1: no file. -ENOMEM. */
int audit_new(int directory, struct audit **ret);
/* Writes what is pending, and that captures end with the daemon. */
struct audit *audit_free(struct audit *a);

/* A client has connected. Its program is read now: it may end before it is needed. */
void audit_client(struct audit *a, uint32_t id, uid_t uid, int connection);

/* The part of a request that its answer replaces. */
struct audit_asked {
	uint32_t type, id, pid, kind;
};

/* Writes the line of a request that was a decision. */
void audit_answer(struct audit *a, const struct audit_asked *asked,
		  const struct broker_message *answer);
/* A capture goes on without this process, which its client may not profile any more. */
void audit_lost_target(struct audit *a, uint32_t capture, pid_t pid, const char *reason);
/* What a capture that is about to end has delivered. */
void audit_count(struct audit *a, uint32_t capture, const struct capture_counts *counts);
/* A trigger's snapshot was kept, in the file of this name; pid: the process that met its condition.
 */
void audit_snapshot(struct audit *a, pid_t pid, const char *file, uint64_t bytes);
/* Writes the lines that the front reports: those that wait in the socket. They are limited per user
 * and kind. */
void audit_read_notes(struct audit *a, int socket);
/* Writes how many lines were omitted, if an interval has ended; now of CLOCK_MONOTONIC. */
void audit_tick(struct audit *a, uint64_t now_ns);
