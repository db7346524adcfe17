/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the records of a capture into spans, as they come. Pure: records in order of time in, a
 * timeline out.
 *
 * Identity is exact or absent: an operation ends where the context that it was given is destroyed;
 * an executor belongs to the run whose call it was started for; a frame on a thread's stack has
 * returned when a later entry on that thread has a stack pointer at or above its own. What ends
 * without such a mark ends at the last thing seen inside it, which is a lower bound.
 */
#pragma once

#include <stdbool.h>

#include "daemon/plan/detail.h"
#include "daemon/plan/packs.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"
#include "include/record_types.h"

/* A process, by the index that the records number it with. */
struct correlate_target {
	uint32_t pid;
	char name[16];
	const struct pack_set *packs;
	uint64_t since_ns; /* it became a target: an earlier exec made it what it is */
	bool has_handlers; /* its own functions tell of its requests: they are not looked for at its
			      sockets */
	bool ops_at_entry; /* there are no records of the ends of operations */
};

struct correlator;

/* start_ns: when the window opens. -ENOMEM. */
int correlator_new(uint64_t start_ns, struct correlator **ret);
/* A target, which gets the next number from 0; it is copied. -E2BIG beyond RECORD_MAX_TARGETS. */
int correlator_add_target(struct correlator *c, const struct correlate_target *target);
/*
 * The probes of a kind are taken away: what was seen of it ends at that time, which is later than
 * that of every record so far, and what still comes of it is left out. The timeline says so by this
 * text. -ENOMEM.
 */
int correlator_shed(struct correlator *c, enum probe_kind kind, uint64_t time, const char *text);
/* Records of that time were lost: nothing is said of the requests that went on then. Times may
 * overlap, and come in any order. -ENOMEM. */
int correlator_note_loss(struct correlator *c, uint64_t from, uint64_t to);
/* Which requests are shown, before the first record; the filter is copied, its texts are not.
 * Without a call all of them are. */
void correlator_set_filter(struct correlator *c, const struct request_filter *filter);
/* Requests that have finished so far and pass the filter. */
uint64_t correlator_n_finished(const struct correlator *c);
/* Called for each of them as it finishes, with the number of its target. */
typedef void (*correlator_finished_fn)(uint32_t process, uint64_t latency_ns, void *data);
void correlator_on_finished(struct correlator *c, correlator_finished_fn fn, void *data);
struct correlator *correlator_free(struct correlator *c);

/* Takes the next record; its memory may go afterwards. -ENOMEM, which every later call returns,
 * too. */
int correlator_feed(struct correlator *c, const struct record *record);
/* Before the first record: what a capture that began earlier was told, and what later records refer
 * to. As correlator_feed(). */
int correlator_recall(struct correlator *c, const struct record *record);
/* Where the objects of a target keep their names, of the pack with this index among its named ones;
 * objects that came before are named now. -ENOMEM. */
int correlator_set_layout(struct correlator *c, unsigned target, unsigned named,
			  const struct record_layout *layout);

/* The window has closed, and no record comes any more: makes the timeline, to be freed with
 * timeline_free(). -ENOMEM. */
int correlator_finish(struct correlator *c, uint64_t end_ns, uint64_t start_unix_ns,
		      struct timeline **ret);
