/* SPDX-License-Identifier: Apache-2.0 */
/* One snapshot of a flight recorder, made in a thread of its own. */
#pragma once

#include "daemon/capture/drain.h"
#include "daemon/recorder/flight.h"
#include "daemon/recorder/recorder.h"
#include "lib/base/clock_steps.h"

struct snapshot;

/* budget: of recordings, borrowed. -ENOMEM. */
int snapshot_new(const struct snapshot_request *request, struct loop *loop, const char *hostname,
		 struct journal_budget *budget, struct snapshot **ret);
/* For a snapshot that was not begun. */
struct snapshot *snapshot_free(struct snapshot *s);

/* When it was requested, CLOCK_MONOTONIC. */
uint64_t snapshot_asked_ns(const struct snapshot *s);
const struct authority_peer *snapshot_who(const struct snapshot *s);
/* A list, NULL at first: adds the last one, takes the first one (NULL: none). */
void snapshots_add(struct snapshot **list, struct snapshot *s);
struct snapshot *snapshots_take(struct snapshot **list);

/* Adds the text to the result's warnings. restates: see result_restate(). */
void snapshot_warn(struct snapshot *s, const char *text, bool restates);

/* What the recorder reports about itself. */
struct snapshot_facts {
	uint64_t since_ns; /* it has recorded since then */
	/* Until the request, or until the recorder's targets ended. */
	uint64_t until_ns;
	struct detail detail;
	double max_overhead, overhead;
	struct capture_shed shed[KIND_COUNT]; /* at_ns: CLOCK_MONOTONIC */
	unsigned n_shed;
	unsigned n_left_out, n_refused;
	bool has_failed;            /* it has ended because of an error */
	struct drain_counts counts; /* since it began */
	struct clock_steps clock;   /* likewise */
	uint32_t capture;           /* as struct snapshot_keeping */
};

/* Begins: the snapshot takes ownership of the view. It delivers its result in the loop's thread,
 * then calls over(data) there and is freed. */
void snapshot_begin(struct snapshot *s, struct flight_view *view,
		    const struct snapshot_facts *facts, void (*over)(void *data), void *data);
/* Instead of snapshot_begin(): there is no result, for this reason. */
void snapshot_fail(struct snapshot *s, int error, const char *text, void (*over)(void *data),
		   void *data);
