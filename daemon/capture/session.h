/*
 * What a capture has of the broker and of the kernel: sites planned and attached, control words, counters and rings mapped, records
 * drained. Belongs to the capture's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/proxy.h"
#include "daemon/capture/target.h"
#include "daemon/correlate/timeline.h"
#include "daemon/plan/plan.h"
#include "include/record_types.h"

struct session;

struct session_counts {
	uint64_t records; /* read */
	uint64_t dropped; /* not read or not kept, all causes */
	uint64_t ring_full, refused, malformed, unread;
	uint64_t late; /* not lost, but not in order of time */
	uint64_t table_full, read_failed;
};

/*
 * Asks the broker for a capture of these targets on behalf of a client, and plans their probes. Nothing is attached yet. With
 * skip_ended, targets that have ended are taken out of the list, with a warning, as long as one is left. On failure ret_text says what
 * to do: -EACCES (not this client's process), -ESRCH, -EBUSY (too many captures), -ENOENT (a target has none of the runtime's
 * functions), and others.
 */
int session_new(struct proxy *proxy, struct plan_cache *plans, uint32_t client, struct target *targets, unsigned *n_targets,
		bool skip_ended, unsigned level, struct session **ret, char *ret_text, size_t text_size);
/* Detaches everything. */
struct session *session_free(struct session *s);

int session_attach(struct session *s, char *ret_text, size_t text_size);
/* Opens the window for this time. -ENOMEM. */
int session_open(struct session *s, uint64_t start, uint64_t stop);
/* Moves the end of the window. */
void session_close(struct session *s, uint64_t stop);
/* Takes what is in the rings, and correlates what nothing earlier can follow any more. -ENOMEM. */
int session_drain(struct session *s);
/* After the window has closed: names of the threads, and the last records. -ENOMEM. */
int session_finish(struct session *s);

void session_count(const struct session *s, struct session_counts *ret);
/* Whether all targets have ended; whether this one has. */
bool session_targets_ended(const struct session *s);
bool session_target_ended(const struct session *s, unsigned target);
/* What will not be shown, and why: one sentence each. */
unsigned session_warnings(const struct session *s);
const char *session_warning(const struct session *s, unsigned i);

/* After session_finish(): what was seen. *ret is to be freed with timeline_free(). */
int session_timeline(struct session *s, uint64_t stop, uint64_t start_unix_ns, struct timeline **ret);
