/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture keeps for a later replay: each call of its session to the correlator, in order,
 * and at the end what else the result contains. A capture continues without a recording that
 * failed: the journal keeps the error, and recording_end() returns it. A NULL journal means no
 * recording.
 */
#pragma once

#include "daemon/capture/capture.h"
#include "daemon/capture/result.h"
#include "daemon/correlate/correlate.h"
#include "daemon/plan/trigger_rule.h"
#include "daemon/record/journal.h"
#include "daemon/record/sink.h"

/* A journal as a sink of a session. */
struct recording {
	struct record_sink sink;
	struct journal *journal;
	const struct request_filter *filter;
	const struct pack_set *sets[RECORD_MAX_TARGETS]; /* of the targets */
	unsigned n_targets;
	/* Where names are, of each target's packs. */
	struct record_layout layouts[RECORD_MAX_TARGETS][RECORD_LAYOUTS];
	bool is_known[RECORD_MAX_TARGETS][RECORD_LAYOUTS];
};
/* The filter selects the requests that the result shows; journal and filter must live as long.
 * Returns the sink. */
const struct record_sink *recording_init(struct recording *r, struct journal *journal,
					 const struct request_filter *filter);

/* Begins: the window opens at start_ns. */
void recording_begin(struct journal *j, uint64_t start_ns, const struct request_filter *filter);
/* As correlator_add_target(), correlator_set_layout(), correlator_shed(), correlator_note_loss()
 * and correlator_feed(). */
void recording_add_target(struct journal *j, const struct correlate_target *target);
/* row: a site number of the pack whose objects have this layout. */
void recording_set_layout(struct journal *j, unsigned target, unsigned row,
			  const struct record_layout *layout);
void recording_shed(struct journal *j, enum probe_kind kind, uint64_t time, const char *text);
void recording_loss(struct journal *j, uint64_t from, uint64_t to);
void recording_feed(struct journal *j, const struct record *record);
/* As correlator_recall(). */
void recording_recall(struct journal *j, const struct record *record);
void recording_add_startup(struct journal *j, const struct startup_track *track);
/* One XLA module, as it is in its file. */
void recording_add_module(struct journal *j, const void *bytes, size_t size);
/* What a snapshot was made for, by a trigger. */
struct recording_note {
	char trigger[TRIGGER_NAME_SIZE];
	char reason[TRIGGER_REASON_SIZE];
	pid_t pid;
	char process[16];
};
void recording_add_note(struct journal *j, const struct recording_note *note,
			uint64_t start_unix_ns, uint64_t duration_ns);
/* What result_make() receives; the journal may be finished. 0, or the first error: -ENOMEM,
 * -ENOBUFS (no room for more). */
int recording_end(struct journal *j, const struct result_facts *facts,
		  const struct capture_result *result);
