/*
 * What a capture has of the broker and of the kernel: sites planned and attached, control words, counters and rings mapped, records
 * drained. Belongs to the capture's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/proxy.h"
#include "daemon/capture/target.h"
#include "daemon/plan/plan.h"
#include "include/record_types.h"

struct session;

struct session_counts {
	uint64_t records; /* read */
	uint64_t dropped; /* not read or not kept, all causes */
	uint64_t ring_full, refused, malformed, unread;
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
/* Opens the window for this time, or moves its end. */
void session_window(struct session *s, uint64_t start, uint64_t stop);
/* Takes what is in the rings. */
void session_drain(struct session *s);
/* After the window has closed: names of the threads, and the last records. */
void session_finish(struct session *s);

void session_count(const struct session *s, struct session_counts *ret);
/* Whether all targets have ended; whether this one has. */
bool session_targets_ended(const struct session *s);
bool session_target_ended(const struct session *s, unsigned target);
/* Where the objects of a target keep their names, when that is known. */
bool session_layout(const struct session *s, unsigned target, struct record_layout *ret);
/* What will not be shown, and why: one sentence each. */
unsigned session_warnings(const struct session *s);
const char *session_warning(const struct session *s, unsigned i);

/* All records in order of time; the caller frees the array, the records stay until session_forget_records(). */
int session_sort(struct session *s, const struct record ***ret, uint64_t *ret_n);
void session_forget_records(struct session *s);
