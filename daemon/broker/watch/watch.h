/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides from side-band events which processes the front is to examine: those that map code that
 * may be a runtime's, children of known ones, and known ones that executed another program. Every
 * table is bounded, and short-lived processes cost the front nothing. Pure: it opens no file and
 * reads no clock; has_threads() alone looks at the system.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/watch/sideband.h"

/* Processes that are known, and that wait to be reported. */
#define WATCH_KNOWN_MAX 1024
#define WATCH_PENDING_MAX 256

struct watch;

/* has_threads: whether a process whose first thread ended has others. -ENOMEM. */
int watch_new(bool (*has_threads)(pid_t pid), struct watch **ret);
struct watch *watch_free(struct watch *watch);

void watch_event(struct watch *watch, const struct sideband_event *event, uint64_t now_ns);
/* Whether the process is, or may be, a target. */
bool watch_knows(const struct watch *watch, pid_t pid, uint64_t now_ns);
/* The front has opened a file of the process: it is, or may be, a target. */
void watch_add(struct watch *watch, pid_t pid, uint64_t now_ns);
/* The side-band lost events: every process is to be examined. */
void watch_lost(struct watch *watch);

/* The process to be reported next, oldest first, 0: none; watch_reported() removes it. */
pid_t watch_next(const struct watch *watch);
void watch_reported(struct watch *watch);
/*
 * Whether every process is to be examined, because not all could be reported one by one; at most
 * once a second. watch_rescanned() clears it.
 */
bool watch_wants_rescan(const struct watch *watch, uint64_t now_ns);
void watch_rescanned(struct watch *watch, uint64_t now_ns);
