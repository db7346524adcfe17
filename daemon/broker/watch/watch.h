/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes the front is to look at, told by what the side-band says: those that map code
 * that may be a runtime's, children of known ones, and known ones that became another program.
 * Every table is bounded, and short lives cost the front nothing. Pure: no file is opened and no
 * clock is read here, but for the question whether a known process lives on without its first
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/watch/sideband.h"

/* Processes that are known, and that wait to be told of. */
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
/* The side-band lost something: every process is to be looked at. */
void watch_lost(struct watch *watch);

/* A process that is to be looked at, oldest first, 0: none; told of, it goes with watch_told(). */
pid_t watch_next(const struct watch *watch);
void watch_told(struct watch *watch);
/*
 * Whether every process is to be looked at, because not all could be told one by one; at most once
 * a second. It is forgotten when watch_rescanned() says so.
 */
bool watch_wants_rescan(const struct watch *watch, uint64_t now_ns);
void watch_rescanned(struct watch *watch, uint64_t now_ns);
