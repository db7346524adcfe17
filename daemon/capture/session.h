/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a capture at the broker and in the kernel: its targets, their sites, the window, and
 * the cost of hits. Records go to sinks. Belongs to the capture's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/drain.h"
#include "daemon/capture/prepare.h"
#include "daemon/capture/session_warnings.h"
#include "daemon/proxy/proxy.h"
#include "daemon/record/sink.h"
#include "include/record_types.h"

struct session;

struct session_options {
	struct proxy *proxy;
	const struct forecast *forecast; /* must live as long as the session */
	uint32_t client;                 /* the broker's id of the client */
	bool is_shared;                  /* other users may get what is recorded */
	struct detail detail;
	/* Bits of enum probe_kind: the wanted ones of those that have programs of their own. */
	unsigned kinds;
	unsigned sampled_kinds; /* bits of those for session_resume() */
	/* Receive the records; must live as long as the session. */
	struct record_sinks sinks;
};

/* Starts a capture at the broker on behalf of a client. On failure ret_text holds the remedy:
 * -EBUSY (too many captures), and others. */
int session_new(const struct session_options *options, struct session **ret, char *ret_text,
		size_t text_size);
/* Detaches everything. */
struct session *session_free(struct session *s);

/*
 * Adds a target, or more files of one; it must live as long as the session. A new target gets the
 * number of targets before it as its number. May be called before or after session_open(). -EACCES
 * (not this client's process), -ESRCH (it has ended), -E2BIG, and others; ret_text holds the
 * remedy.
 */
int session_add(struct session *s, const struct prepared *target, char *ret_text, size_t text_size);
/* Detaches everything from a target: it reports nothing any more. */
void session_forget(struct session *s, unsigned target);
/* Attaches what was added since the last call. */
int session_attach(struct session *s, char *ret_text, size_t text_size);
/* Opens the window for this duration. *ret_start: the time from which it is open for every program,
 * which is when it begins. -ENOMEM. */
int session_open(struct session *s, uint64_t duration, uint64_t *ret_start);
/* Moves the end of the window. */
void session_close(struct session *s, uint64_t stop);
/* Detaches the probes of a kind: nothing of it is recorded from now on. text: the reason, for the
 * trace. */
int session_shed(struct session *s, enum probe_kind kind, const char *text);
/* Attaches the probes of kinds that were shed, a bit each. -EAGAIN: something is still being
 * detached; and other errors, after which these are not attached any more. */
int session_resume(struct session *s, unsigned kinds);
/* Bits of the wanted kinds that the kernel refuses: the session continues without them, and a
 * warning reports it. */
unsigned session_refused_kinds(const struct session *s);
/* Reads the rings, and passes on records that no earlier one can follow any more. Returns the first
 * error of the sinks; -EPIPE: the broker has ended, and nothing is recorded any more. */
int session_drain(struct session *s);
/* Every record before that time was passed on, unless it was late. */
uint64_t session_settled_ns(const struct session *s);
/* Requests records with the current names of all threads. -EPIPE: as session_drain(). */
int session_name_threads(struct session *s);
/* Call after the window has closed: reads names of the threads and the last records; begins to
 * detach. -ENOMEM; -EPIPE: as session_drain(), the last records are missing. */
int session_finish(struct session *s);

/*
 * Opens the file of the next HLO module that a target's XLA wrote; name is that of the previous
 * one, "" at first, and has SESSION_NAME_MAX bytes. Returns the descriptor, or the errors of
 * module_open_next() (daemon/broker/modules.h) with its text.
 */
#define SESSION_NAME_MAX 256
int session_next_module(struct session *s, unsigned target, char *name, char *ret_text,
			size_t text_size);

void session_count(const struct session *s, struct drain_counts *ret);
/* What the hits of each kind (KIND_COUNT of them) that were read cost the targets, by forecast. */
const uint64_t *session_cost_ns(const struct session *s);
/* The CPU time of all targets since they were added, in nanoseconds; it never decreases. */
uint64_t session_cpu_ns(struct session *s);
unsigned session_n_targets(const struct session *s);
pid_t session_target_pid(const struct session *s, unsigned target);
/* Whether nothing of it is recorded, because it was refused or forgotten. */
bool session_target_left_out(const struct session *s, unsigned target);
/* The number of targets that are not left out. */
unsigned session_n_captured(const struct session *s);
/* The broker's id of the capture; any other number is none. */
#define SESSION_NO_ID UINT32_MAX
uint32_t session_id(const struct session *s);
/* Whether all targets have ended; whether this one has. */
bool session_targets_ended(const struct session *s);
bool session_target_ended(const struct session *s, unsigned target);
/* What will not be shown, and why. */
const struct session_warnings *session_warnings(const struct session *s);
