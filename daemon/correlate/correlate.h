/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the records of a capture into spans, as they come. Pure: records in order of time in, a
 * timeline out.
 *
 * Identity is exact or absent: an operation ends where the context that it was given is destroyed;
 * an executor belongs to the run whose call it was started for; a frame on a thread's stack has
 * returned when a later entry on that thread has a stack pointer at or above its own. What has no
 * such end mark ends at the last thing seen inside it, which is a lower bound.
 */
#pragma once

#include <stdbool.h>

#include "daemon/plan/detail.h"
#include "daemon/plan/packs.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/timeline.h"
#include "include/record_types.h"

/* Of each direction of an HTTP/2 connection the latest fields are kept: one for each number modulo
 * this. */
#define HTTP2_FIELDS_KEPT 128

/* A process, by the index that the records number it with. */
struct correlate_target {
	uint32_t pid;
	uint32_t parent;  /* its pid */
	uint32_t own_pid; /* as the process itself has it: of its pid namespace */
	char name[16];
	const struct pack_set *packs;
	uint64_t since_ns; /* it became a target: an earlier exec does not end it */
	bool has_handlers; /* its requests are known from its own functions: its sockets are ignored
			    */
	bool ops_at_entry; /* the ends of operations are not recorded */
	bool is_child;     /* it was not asked for: it works for its parent, which was */
};

struct correlator;

/* start_ns: when the window opens. -ENOMEM. */
int correlator_new(uint64_t start_ns, struct correlator **ret);
/* A target, which gets the next number from 0; it is copied. -E2BIG beyond RECORD_MAX_TARGETS. */
int correlator_add_target(struct correlator *c, const struct correlate_target *target);
/*
 * The probes of a kind were shed: spans of that kind end at that time, which is later than that of
 * every record so far, and later records of that kind are ignored. The text, which is copied, goes
 * into the timeline's gaps. -ENOMEM.
 */
int correlator_shed(struct correlator *c, enum probe_kind kind, uint64_t time, const char *text);
/* Operations or executors, which were shed, are recorded again from that time on: those that begin
 * later are shown. -EINVAL: another kind; -ENOMEM. */
int correlator_resume(struct correlator *c, enum probe_kind kind, uint64_t time);
/* Records of that time were lost: the requests of that time are marked as lost. Times may overlap,
 * and come in any order. -ENOMEM. */
int correlator_note_loss(struct correlator *c, uint64_t from, uint64_t to);
/* Sets which requests are shown, before the first record; the filter is copied, its texts are not.
 * Without a call all requests are. */
void correlator_set_filter(struct correlator *c, const struct request_filter *filter);
/* Requests that have finished so far and pass the filter. */
uint64_t correlator_n_finished(const struct correlator *c);
/* Such a request: whole, and with its times. */
struct finished_request {
	uint32_t process; /* the number of its target */
	uint64_t start_ns, end_ns;
	uint64_t read_ns;        /* the call that read its first byte began; start_ns without one */
	const char *model;       /* NULL: unknown; valid during the call */
	int status, grpc_status; /* -1: unknown */
};

/* Called for each of them as it finishes. */
typedef void (*correlator_finished_fn)(const struct finished_request *request, void *data);
void correlator_on_finished(struct correlator *c, correlator_finished_fn fn, void *data);
/* Requests at the sockets of a target, and at its library if they are encrypted, that are in
 * progress. */
uint32_t correlator_n_open(const struct correlator *c, unsigned target);
/* When the first of all these began; UINT64_MAX: there is none. */
uint64_t correlator_oldest_open(struct correlator *c);
struct correlator *correlator_free(struct correlator *c);

/* Takes the next record, which is not needed afterwards. -ENOMEM, which every later call returns,
 * too. */
int correlator_feed(struct correlator *c, const struct record *record);
/* Before the first record: takes a record that an earlier capture received and that later records
 * refer to. As correlator_feed(). */
int correlator_recall(struct correlator *c, const struct record *record);
/* Sets where a target's objects keep their names, for the pack with this index among its named
 * ones. Objects that came before get their names now. -ENOMEM. */
int correlator_set_layout(struct correlator *c, unsigned target, unsigned named,
			  const struct record_layout *layout);

/* The window has closed, and no record comes any more: makes the timeline, to be freed with
 * timeline_free(). -ENOMEM. */
int correlator_finish(struct correlator *c, uint64_t end_ns, uint64_t start_unix_ns,
		      struct timeline **ret);
