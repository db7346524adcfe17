/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture has of the broker and of the kernel: its targets, their sites, attached, the
 * window, and what hits cost. Records go to sinks. Belongs to the capture's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/drain.h"
#include "daemon/capture/prepare.h"
#include "daemon/proxy/proxy.h"
#include "daemon/record/sink.h"
#include "include/record_types.h"

struct session;

struct session_options {
	struct proxy *proxy;
	const struct forecast *forecast; /* must live as long as the session */
	uint32_t client;                 /* the broker's number of who asks */
	struct detail detail;
	unsigned kinds; /* bits of enum probe_kind: those with programs of their own that are wanted
			 */
	struct record_sinks sinks; /* get what is found out; must live as long as the session */
};

/* Asks the broker for a capture on behalf of a client. On failure ret_text says what to do: -EBUSY
 * (too many captures), and others. */
int session_new(const struct session_options *options, struct session **ret, char *ret_text,
		size_t text_size);
/* Detaches everything. */
struct session *session_free(struct session *s);

/*
 * Adds a target, or more files of one; it must live as long as the session. A new one has the count
 * of those before it as its number. Before or after session_open(). -EACCES (not this client's
 * process), -ESRCH (it has ended), -E2BIG, and others; ret_text says what to do.
 */
int session_add(struct session *s, const struct prepared *target, char *ret_text, size_t text_size);
/* Takes away what there is of a target: nothing is told of it any more. */
void session_forget(struct session *s, unsigned target);
/* Attaches what was added since the last call. */
int session_attach(struct session *s, char *ret_text, size_t text_size);
/* Opens the window for so long. *ret_start: from when on it is open for every program, which is the
 * time that it begins. -ENOMEM. */
int session_open(struct session *s, uint64_t duration, uint64_t *ret_start);
/* Moves the end of the window. */
void session_close(struct session *s, uint64_t stop);
/* Takes the probes of a kind away: nothing of it is seen any more from now on. text says why, for
 * the trace. */
int session_shed(struct session *s, enum probe_kind kind, const char *text);
/* Bits of the kinds that the kernel refuses, of those that were wanted: the session goes without
 * them, and a warning says so. */
unsigned session_refused_kinds(const struct session *s);
/* Takes what is in the rings, and passes on what nothing earlier can follow any more. Returns the
 * first error of the sinks. */
int session_drain(struct session *s);
/* Every record from before that time was passed on, unless it was late. */
uint64_t session_settled_ns(const struct session *s);
/* Has the names of all threads told, in records of now. */
void session_name_threads(struct session *s);
/* After the window has closed: names of the threads, and the last records; begins to detach.
 * -ENOMEM. */
int session_finish(struct session *s);

/*
 * Opens the file of the next HLO module that a target's XLA wrote; name is that of the one before,
 * "" at first, and has SESSION_NAME_MAX bytes. Returns the descriptor, or the errors of
 * module_open_next() (daemon/broker/modules.h) with what it says.
 */
#define SESSION_NAME_MAX 256
int session_next_module(struct session *s, unsigned target, char *name, char *ret_text,
			size_t text_size);

void session_count(const struct session *s, struct drain_counts *ret);
/* What the hits of each kind, KIND_COUNT of them, that were read cost the targets, by forecast. */
const uint64_t *session_cost_ns(const struct session *s);
/* The CPU time of all targets since they were added, in nanoseconds; it never falls. */
uint64_t session_cpu_ns(struct session *s);
unsigned session_n_targets(const struct session *s);
pid_t session_target_pid(const struct session *s, unsigned target);
/* Whether nothing is seen of it, because it was refused, or forgotten. */
bool session_target_left_out(const struct session *s, unsigned target);
/* Those that are not left out. */
unsigned session_n_captured(const struct session *s);
/* Whether all targets have ended; whether this one has. */
bool session_targets_ended(const struct session *s);
bool session_target_ended(const struct session *s, unsigned target);
/* What will not be shown, and why: one sentence each. */
unsigned session_warnings(const struct session *s);
const char *session_warning(const struct session *s, unsigned i);
